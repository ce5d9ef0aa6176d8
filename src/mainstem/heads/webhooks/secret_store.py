"""Secrets by reference: ``file:NAME`` in the directory of secrets, ``env:NAME`` in the environment.

A reference names only files directly in that directory, and variables that begin with
``WEBHOOK_SECRET``, so that a user who defines an endpoint cannot use other secrets of the server. A
server without a data directory keeps generated secrets in memory.
"""

import contextlib
import os
import re
import secrets
from collections.abc import Mapping
from pathlib import Path

from mainstem.core.errors import InvalidSetting, StorageFailed
from mainstem.heads.webhooks.signatures import SEED_BYTES, new_secret

FILE, ENVIRONMENT = "file:", "env:"
VARIABLE_PREFIX = "WEBHOOK_SECRET"
MAX_FILE_BYTES = 10_000
_FILE_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}", re.ASCII)
_VARIABLE = re.compile(VARIABLE_PREFIX + r"[A-Z0-9_]*", re.ASCII)


class SecretStore:
    """Reads secrets, and stores generated ones; may be called from any thread."""

    def __init__(self, directory: Path | None, environ: Mapping[str, str] = os.environ) -> None:
        self._directory, self._environ = directory, environ
        self._in_memory: dict[str, str] = {}

    def read(self, reference: str) -> str:
        """Return the secret of a reference; raises InvalidSetting if there is none."""
        kind, _, name = reference.partition(":")
        if f"{kind}:" == ENVIRONMENT and _VARIABLE.fullmatch(name):
            if not (found := self._environ.get(name, "").strip()):
                raise InvalidSetting(
                    f"secret {reference}: the server has no environment variable {name}; set it "
                    "and restart the server"
                )
            return found
        if f"{kind}:" == FILE and _FILE_NAME.fullmatch(name):
            return self._in_memory[name] if name in self._in_memory else self._read(name)
        raise InvalidSetting(
            f"a secret is given as {FILE}NAME (a file in the directory of webhooks.secrets) or "
            f"{ENVIRONMENT}{VARIABLE_PREFIX}_NAME (a variable in the server's environment), never "
            "as the secret itself"
        )

    def generate(self, label: str, prefix: str) -> tuple[str, str]:
        """Generate and store a secret; return its reference and the secret, shown once."""
        secret = new_secret(prefix, secrets.token_bytes(SEED_BYTES))
        name = f"{label}-{secrets.token_hex(4)}"
        if self._directory is None:
            self._in_memory[name] = secret
        else:
            self._write(self._directory, name, secret)
        return FILE + name, secret

    def delete(self, reference: str, label: str) -> None:
        """Delete a secret that ``generate`` stored with this label; ignore any other reference."""
        name = reference.removeprefix(FILE)
        if not re.fullmatch(re.escape(label) + r"-[0-9a-f]{8}", name):
            return
        self._in_memory.pop(name, None)
        if self._directory is not None:
            # A file that cannot be deleted does no harm: nothing refers to it.
            with contextlib.suppress(OSError):
                (self._directory / name).unlink(missing_ok=True)

    def _read(self, name: str) -> str:
        if self._directory is None:
            raise InvalidSetting(
                f"secret {FILE}{name}: a server in memory has no directory of secrets; set "
                "webhooks.secrets"
            )
        path = self._directory / name
        try:
            with path.open("rb") as file:
                found = file.read(MAX_FILE_BYTES + 1)
            text = found.decode().strip()
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise InvalidSetting(f"secret {FILE}{name}: {path} cannot be read: {why}") from None
        if not text or len(found) > MAX_FILE_BYTES:
            raise InvalidSetting(f"secret {FILE}{name}: {path} is empty or too large")
        return text

    def _write(self, directory: Path, name: str, secret: str) -> None:
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            path = directory / name
            number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(number, "w", encoding="ascii") as file:
                file.write(secret + "\n")
                file.flush()
                os.fsync(number)
        except OSError as error:
            raise StorageFailed(
                f"the new secret cannot be stored in {directory}: {error.strerror}; make that "
                "directory writable, or set webhooks.secrets"
            ) from None

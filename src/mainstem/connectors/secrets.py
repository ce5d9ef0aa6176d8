"""Passwords of connectors: settings only name them; they are read when connecting."""

import re
from collections.abc import Mapping
from pathlib import Path

from mainstem.connectors.errors import SourceRefused
from mainstem.connectors.settings import ConnectorSettings
from mainstem.core.errors import InvalidSetting

_VARIABLE = re.compile(r"MAINSTEM_SECRET_[A-Z0-9_]+")


class Secrets:
    """Reads passwords from the server's environment, or from files of one directory."""

    def __init__(self, directory: Path, environ: Mapping[str, str]) -> None:
        self._directory = directory
        self._environ = environ

    def check(self, settings: ConnectorSettings) -> None:
        """Raise InvalidSetting if settings name a variable or file that connectors may not read."""
        name = settings.password_env
        # Otherwise whoever adds connectors could send any variable or file to a server of their
        # own.
        if name and not _VARIABLE.fullmatch(name):
            raise InvalidSetting(
                f"password_env {name!r:.100}: the name must begin with MAINSTEM_SECRET_"
            )
        if settings.password_file:
            self._path(settings.password_file)

    def password(self, settings: ConnectorSettings) -> str | None:
        """Return the connector's password, None if it has none; raises SourceRefused."""
        if settings.password_env:
            found = self._environ.get(settings.password_env)
            if found is None:
                raise SourceRefused(
                    f"the server's environment has no variable {settings.password_env}: set it, "
                    "and restart the server"
                )
            return found
        if not settings.password_file:
            return None
        path = self._path(settings.password_file)
        try:
            return path.read_text("utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            raise SourceRefused(f"the password file {path} cannot be read: {error}") from None

    def _path(self, name: str) -> Path:
        directory = self._directory.resolve()
        path = (directory / name).resolve()
        if not path.is_relative_to(directory):
            raise InvalidSetting(
                f"password_file {name!r:.200} is not in {directory}, the directory of the setting "
                "connectors.secrets_dir"
            )
        return path

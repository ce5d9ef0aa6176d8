"""The signers of one endpoint: of its current secret, and of replaced secrets still in use."""

from typing import TYPE_CHECKING

from mainstem.heads.webhooks.endpoints import Endpoint
from mainstem.heads.webhooks.signatures import Ed25519Signer, Signer, signer_of

if TYPE_CHECKING:
    from mainstem.heads.webhooks.secret_store import SecretStore


class Signing:
    """The signers of an endpoint; its secrets are read once."""

    def __init__(self, endpoint: Endpoint, store: "SecretStore", now_ms: int) -> None:
        """Raise InvalidSetting if a secret that is still used cannot be read or is malformed."""
        self._signers: list[tuple[int | None, Signer]] = []
        self.public_keys: list[str] = []
        """The public keys of ed25519 secrets, the newest first."""
        for secret in endpoint.secrets:
            if secret.until_ms is not None and secret.until_ms <= now_ms:
                continue
            signer = signer_of(store.read(secret.reference))
            self._signers.append((secret.until_ms, signer))
            if isinstance(signer, Ed25519Signer):
                self.public_keys.append(signer.public_key)

    def signers(self, now_ms: int) -> list[Signer]:
        """Return the signers for a request at this time."""
        return [it for until, it in self._signers if until is None or now_ms < until]

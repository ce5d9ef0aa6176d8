"""Signatures of Standard Webhooks: HMAC-SHA256 (``whsec_``, v1) and ed25519 (``whsk_``, v1a).

The signed text is ``ID.TIMESTAMP.BODY``. While a secret is being replaced, the header has two
signatures, of the old and of the new secret, separated by a space.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Iterable
from typing import Protocol

from mainstem.core.errors import InvalidSetting, Unsupported

SYMMETRIC, PRIVATE, PUBLIC = "whsec_", "whsk_", "whpk_"
MIN_BYTES, MAX_BYTES = 24, 64
"""Limits on the length of a symmetric secret [Standard Webhooks, Signature scheme]."""
SEED_BYTES = 32


class Signer(Protocol):
    """Signs content with one secret."""

    def sign(self, content: bytes) -> str:
        """Return the signature with its version, such as ``v1,…``."""


class HmacSigner:
    """Signs by HMAC-SHA256."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def sign(self, content: bytes) -> str:
        """Return the signature, version v1."""
        digest = hmac.digest(self._key, content, hashlib.sha256)
        return "v1," + base64.b64encode(digest).decode()


class Ed25519Signer:
    """Signs by ed25519."""

    def __init__(self, seed: bytes) -> None:
        try:
            from cryptography.hazmat.primitives import (  # noqa: PLC0415 - optional
                serialization,
            )
            from cryptography.hazmat.primitives.asymmetric import (  # noqa: PLC0415 - optional
                ed25519,
            )
        except ImportError:
            raise Unsupported(
                f"a {PRIVATE} secret needs the package cryptography: "
                "pip install 'mainstem[webhooks]'"
            ) from None
        self._key = ed25519.Ed25519PrivateKey.from_private_bytes(seed)
        raw = serialization.Encoding.Raw, serialization.PublicFormat.Raw
        self.public_key = (
            PUBLIC + base64.b64encode(self._key.public_key().public_bytes(*raw)).decode()
        )
        """The key with which receivers verify; it is not secret."""

    def sign(self, content: bytes) -> str:
        """Return the signature, version v1a."""
        return "v1a," + base64.b64encode(self._key.sign(content)).decode()


def signer_of(secret: str) -> HmacSigner | Ed25519Signer:
    """Return the signer for a secret; raises InvalidSetting, whose text omits the secret."""
    if secret.startswith(SYMMETRIC):
        key = _decoded(secret.removeprefix(SYMMETRIC))
        if not MIN_BYTES <= len(key) <= MAX_BYTES:
            raise InvalidSetting(
                f"a {SYMMETRIC} secret must have {MIN_BYTES} to {MAX_BYTES} bytes, not {len(key)}"
            )
        return HmacSigner(key)
    if secret.startswith(PRIVATE):
        seed = _decoded(secret.removeprefix(PRIVATE))
        # Some tools append the public key to the seed.
        if len(seed) not in (SEED_BYTES, 2 * SEED_BYTES):
            raise InvalidSetting(
                f"a {PRIVATE} secret must have {SEED_BYTES} bytes, not {len(seed)}"
            )
        return Ed25519Signer(seed[:SEED_BYTES])
    raise InvalidSetting(
        f"a signing secret must begin with {SYMMETRIC} (HMAC-SHA256) or {PRIVATE} (ed25519), "
        "followed by base64"
    )


def new_secret(prefix: str, random: bytes) -> str:
    """Return a secret made of random bytes."""
    return prefix + base64.b64encode(random).decode()


def signed_content(message_id: str, timestamp_s: int, body: bytes) -> bytes:
    """Return the bytes that a signature signs."""
    return b"%s.%d.%s" % (message_id.encode(), timestamp_s, body)


def signature_header(signers: Iterable[Signer], content: bytes) -> str:
    """Return the value of ``webhook-signature``: one signature for each signer."""
    return " ".join(each.sign(content) for each in signers)


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidSetting("a signing secret must be base64 after its prefix") from None

"""Signatures, as the package of Standard Webhooks and cryptography verify them."""

import base64
import secrets
from datetime import UTC, datetime

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook, WebhookVerificationError

from mainstem.core.errors import InvalidSetting
from mainstem.heads.webhooks.signatures import (
    PRIVATE,
    PUBLIC,
    SYMMETRIC,
    Ed25519Signer,
    new_secret,
    signature_header,
    signed_content,
    signer_of,
)

SECRET = new_secret(SYMMETRIC, bytes(range(32)))


def headers(signature: str) -> dict[str, str]:
    return {
        "webhook-id": "msg_1",
        "webhook-timestamp": str(int(datetime.now(UTC).timestamp())),
        "webhook-signature": signature,
    }


def now_s() -> int:
    return int(datetime.now(UTC).timestamp())


@given(st.text(min_size=1, max_size=200))
def test_the_package_of_standard_webhooks_accepts_our_signature(text: str) -> None:
    body = text.encode()
    at_s = now_s()
    signed = signature_header([signer_of(SECRET)], signed_content("msg_1", at_s, body))

    theirs = Webhook(SECRET).sign("msg_1", datetime.fromtimestamp(at_s, UTC), text)

    assert signed == theirs


def test_the_package_refuses_another_body() -> None:
    at_s = now_s()
    signed = signature_header([signer_of(SECRET)], signed_content("msg_1", at_s, b'{"a": 1}'))
    sent = headers(signed) | {"webhook-timestamp": str(at_s)}

    assert Webhook(SECRET).verify(b'{"a": 1}', sent) == {"a": 1}
    with pytest.raises(WebhookVerificationError):
        Webhook(SECRET).verify(b'{"a": 2}', sent)


def test_while_a_secret_is_replaced_receivers_with_either_accept_the_signature() -> None:
    new, at_s = new_secret(SYMMETRIC, secrets.token_bytes(32)), now_s()
    signers = [signer_of(new), signer_of(SECRET)]
    signed = signature_header(signers, signed_content("msg_1", at_s, b"{}"))
    sent = headers(signed) | {"webhook-timestamp": str(at_s)}

    assert Webhook(new).verify(b"{}", sent) == Webhook(SECRET).verify(b"{}", sent) == {}


def test_an_ed25519_signature_is_verified_with_the_public_key() -> None:
    signer = signer_of(new_secret(PRIVATE, secrets.token_bytes(32)))
    assert isinstance(signer, Ed25519Signer)
    content = signed_content("msg_1", now_s(), b"{}")

    version, _, signature = signer.sign(content).partition(",")

    key = Ed25519PublicKey.from_public_bytes(
        base64.b64decode(signer.public_key.removeprefix(PUBLIC))
    )
    assert version == "v1a"
    key.verify(base64.b64decode(signature), content)
    with pytest.raises(InvalidSignature):
        key.verify(base64.b64decode(signature), content + b"x")


@pytest.mark.parametrize(
    "secret",
    [
        "",
        "secret",
        "whsec_",
        "whsec_not base64!",
        new_secret(SYMMETRIC, b"short"),
        new_secret(SYMMETRIC, bytes(65)),
        new_secret(PRIVATE, bytes(31)),
        new_secret(PUBLIC, bytes(32)),
    ],
)
def test_what_is_not_a_secret_is_refused_without_quoting_it(secret: str) -> None:
    with pytest.raises(InvalidSetting) as refused:
        signer_of(secret)

    assert len(secret) < 8 or secret.partition("_")[2] not in str(refused.value)

"""Verifies received webhooks: signature, timestamp and token, by the scheme of their source.

A refusal has one of a few fixed reasons, which is counted and returned; none reveals a secret. All
secrets are compared in constant time.
"""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum

import msgspec

from mainstem.core.errors import InvalidSetting, Unsupported
from mainstem.heads.webhooks.signatures import PUBLIC, SYMMETRIC, signed_content, signer_of
from mainstem.heads.webhooks.sources import Scheme, Source

MAX_ID = 500
_MAX_SIGNATURES = 20
_TIME = re.compile(r"[0-9]{1,12}", re.ASCII)


class Reason(StrEnum):
    """Why a received webhook is refused."""

    NO_SIGNATURE = "no signature"
    WRONG_SIGNATURE = "wrong signature"
    NO_TIMESTAMP = "no timestamp"
    OLD = "too old"
    """The timestamp is further in the past than the tolerance: perhaps a replay."""
    EARLY = "from the future"
    NO_ID = "no id"
    MALFORMED = "malformed"


class NotVerified(Exception):
    """A request cannot be proved to come from its source."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason = reason


class Received(msgspec.Struct, frozen=True):
    """A verified request: the id of its message, or the challenge that must be answered."""

    id: str = ""
    """The message's id; empty if it has none, so that duplicates cannot be found."""
    challenge: str | None = None


class _Named(msgspec.Struct):
    """The members of a JSON body that some schemes use."""

    id: str = ""
    event_id: str = ""
    type: str = ""
    challenge: str = ""


_decode_named = msgspec.json.Decoder(_Named).decode
Headers = Mapping[str, str]
Verify = Callable[[Source, Sequence[str], Headers, bytes, int], Received]


def verify(
    source: Source, secrets: Sequence[str], headers: Headers, body: bytes, now_ms: int
) -> Received:
    """Verify a request, and return its id; raises NotVerified. ``headers``: names in lower case."""
    found = _SCHEMES[source.scheme](source, secrets, headers, body, now_ms)
    if len(found.id) > MAX_ID or not found.id.isprintable():
        raise NotVerified(Reason.MALFORMED)
    return found


def check_secret(scheme: Scheme, secret: str) -> None:
    """Raise InvalidSetting if a secret is malformed for this scheme."""
    if scheme is not Scheme.STANDARD:
        if len(secret) < 8:
            raise InvalidSetting("a secret must have at least 8 characters")
    elif secret.startswith(PUBLIC):
        _public_key(secret)
    else:
        signer_of(secret)


def _standard(
    source: Source, secrets: Sequence[str], headers: Headers, body: bytes, now_ms: int
) -> Received:
    message_id = headers.get("webhook-id", "")
    if not message_id:
        raise NotVerified(Reason.NO_ID)
    at_s = _checked_time(source, headers.get("webhook-timestamp", ""), now_ms)
    # Surrogates cannot be signed.
    content = signed_content(message_id, at_s, body)
    given = headers.get("webhook-signature", "").split(" ")[:_MAX_SIGNATURES]
    _any([_standard_matches(secret, content) for secret in secrets], given)
    return Received(message_id)


def _standard_matches(secret: str, content: bytes) -> Callable[[str], bool]:
    if not secret.startswith(PUBLIC):
        wanted = signer_of(secret).sign(content) if secret.startswith(SYMMETRIC) else ""
        return lambda given: bool(wanted) and _equal(given, wanted)

    def matches(given: str) -> bool:
        version, _, signature = given.partition(",")
        return version == "v1a" and _ed25519_matches(secret, signature, content)

    return matches


def _ed25519_matches(public: str, signature: str, content: bytes) -> bool:
    try:
        given = base64.b64decode(signature, validate=True)
    except (binascii.Error, ValueError):
        return False
    return _public_key(public)(given, content)


def _public_key(public: str) -> Callable[[bytes, bytes], bool]:
    try:
        from cryptography.exceptions import InvalidSignature  # noqa: PLC0415 - optional
        from cryptography.hazmat.primitives.asymmetric import (  # noqa: PLC0415 - optional
            ed25519,
        )
    except ImportError:
        raise Unsupported(
            f"a {PUBLIC} key needs the package cryptography: pip install 'mainstem[webhooks]'"
        ) from None
    try:
        raw = base64.b64decode(public.removeprefix(PUBLIC), validate=True)
        key = ed25519.Ed25519PublicKey.from_public_bytes(raw)
    except (binascii.Error, ValueError):
        raise InvalidSetting(f"a {PUBLIC} key must be 32 bytes in base64") from None

    def matches(signature: bytes, content: bytes) -> bool:
        try:
            key.verify(signature, content)
        except InvalidSignature:
            return False
        return True

    return matches


def _github(
    _source: Source, secrets: Sequence[str], headers: Headers, body: bytes, _now_ms: int
) -> Received:
    wanted = [f"sha256={_hex(secret, body)}" for secret in secrets]
    _any([_is(each) for each in wanted], [headers.get("x-hub-signature-256", "")])
    return Received(headers.get("x-github-delivery", ""))


def _stripe(
    source: Source, secrets: Sequence[str], headers: Headers, body: bytes, now_ms: int
) -> Received:
    given = [each.strip().partition("=") for each in headers.get("stripe-signature", "").split(",")]
    at_s = _checked_time(source, next((it for name, _, it in given if name == "t"), ""), now_ms)
    wanted = [_hex(secret, b"%d.%s" % (at_s, body)) for secret in secrets]
    signatures = [it for name, _, it in given if name == "v1"][:_MAX_SIGNATURES]
    _any([_is(each) for each in wanted], signatures)
    return Received(_named(body).id)


def _slack(
    source: Source, secrets: Sequence[str], headers: Headers, body: bytes, now_ms: int
) -> Received:
    at_s = _checked_time(source, headers.get("x-slack-request-timestamp", ""), now_ms)
    wanted = [f"v0={_hex(secret, b'v0:%d:%s' % (at_s, body))}" for secret in secrets]
    _any([_is(each) for each in wanted], [headers.get("x-slack-signature", "")])
    named = _named(body)
    if named.type == "url_verification":
        return Received(challenge=named.challenge)
    return Received(named.event_id)


def _hmac(
    source: Source, secrets: Sequence[str], headers: Headers, body: bytes, _now_ms: int
) -> Received:
    given = headers.get(source.signature_header, "").removeprefix("sha256=")
    digests = [hmac.digest(secret.encode(), body, hashlib.sha256) for secret in secrets]
    in_hex = [_is_hex(each) for each in digests]
    in_base64 = [_is(base64.b64encode(each).decode()) for each in digests]
    _any([*in_hex, *in_base64], [given])
    return Received(headers.get(source.id_header.lower(), "") if source.id_header else "")


def _token(
    source: Source, secrets: Sequence[str], headers: Headers, _body: bytes, _now_ms: int
) -> Received:
    given = headers.get(source.signature_header, "")
    if source.signature_header == "authorization":
        scheme, _, given = given.partition(" ")
        given = given.strip() if scheme.lower() == "bearer" else ""
    _any([_is(each) for each in secrets], [given])
    return Received(headers.get(source.id_header.lower(), "") if source.id_header else "")


_SCHEMES: Mapping[Scheme, Verify] = {
    Scheme.STANDARD: _standard,
    Scheme.GITHUB: _github,
    Scheme.STRIPE: _stripe,
    Scheme.SLACK: _slack,
    Scheme.HMAC: _hmac,
    Scheme.TOKEN: _token,
}


def _checked_time(source: Source, text: str, now_ms: int) -> int:
    """Return a timestamp in seconds; raises NotVerified if it is invalid or not close to now."""
    if not text:
        raise NotVerified(Reason.NO_TIMESTAMP)
    if not _TIME.fullmatch(text):
        raise NotVerified(Reason.MALFORMED)
    at_s = int(text)
    if now_ms - at_s * 1000 > source.tolerance_ms:
        raise NotVerified(Reason.OLD)
    if at_s * 1000 - now_ms > source.tolerance_ms:
        raise NotVerified(Reason.EARLY)
    return at_s


def _any(matches: Sequence[Callable[[str], bool]], given: Sequence[str]) -> None:
    """Raise NotVerified unless one of the signatures matches."""
    signatures = [each for each in given if each]
    if not signatures:
        raise NotVerified(Reason.NO_SIGNATURE)
    if not any(each(signature) for signature in signatures for each in matches):
        raise NotVerified(Reason.WRONG_SIGNATURE)


def _is(wanted: str) -> Callable[[str], bool]:
    return lambda given: _equal(given, wanted)


def _is_hex(digest: bytes) -> Callable[[str], bool]:
    return lambda given: _equal(given.lower(), digest.hex())


def _equal(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), wanted.encode())


def _hex(secret: str, content: bytes) -> str:
    return hmac.new(secret.encode(), content, hashlib.sha256).hexdigest()


def _named(body: bytes) -> _Named:
    try:
        return _decode_named(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _Named()

"""How received webhooks are verified: each scheme as its senders sign, and what is refused."""

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook

from mainstem.core.errors import InvalidName, InvalidSetting
from mainstem.heads.webhooks.endpoints import SigningSecret
from mainstem.heads.webhooks.signatures import (
    PRIVATE,
    SYMMETRIC,
    Ed25519Signer,
    new_secret,
    signed_content,
    signer_of,
)
from mainstem.heads.webhooks.sources import Scheme, Source
from mainstem.heads.webhooks.verification import (
    NotVerified,
    Reason,
    Received,
    check_secret,
    verify,
)

NOW_MS = 1_700_000_000_000
NOW_S = NOW_MS // 1000
BODY = b'{"id": "evt_1", "event_id": "Ev1", "n": 1}'
STANDARD = new_secret(SYMMETRIC, bytes(range(32)))
OTHER = new_secret(SYMMETRIC, bytes(32))
PLAIN, OTHER_PLAIN = "a-secret-of-theirs", "another-secret"
ED25519 = new_secret(PRIVATE, bytes(range(32)))


def digest(secret: str, content: bytes) -> str:
    return hmac.new(secret.encode(), content, hashlib.sha256).hexdigest()


def standard(secret: str = STANDARD, at_s: int = NOW_S, body: bytes = BODY) -> dict[str, str]:
    signature = Webhook(secret).sign("msg_1", datetime.fromtimestamp(at_s, UTC), body.decode())
    return {"webhook-id": "msg_1", "webhook-timestamp": str(at_s), "webhook-signature": signature}


def ed25519(at_s: int = NOW_S) -> dict[str, str]:
    signature = signer_of(ED25519).sign(signed_content("msg_1", at_s, BODY))
    return {"webhook-id": "msg_1", "webhook-timestamp": str(at_s), "webhook-signature": signature}


def github(secret: str = PLAIN) -> dict[str, str]:
    return {"x-hub-signature-256": f"sha256={digest(secret, BODY)}", "x-github-delivery": "d-1"}


def stripe(secret: str = PLAIN, at_s: int = NOW_S) -> dict[str, str]:
    signed = digest(secret, b"%d.%s" % (at_s, BODY))
    return {"stripe-signature": f"t={at_s},v1={'0' * 64},v1={signed},v0=ignored"}


def slack(secret: str = PLAIN, at_s: int = NOW_S, body: bytes = BODY) -> dict[str, str]:
    signed = digest(secret, b"v0:%d:%s" % (at_s, body))
    return {"x-slack-signature": f"v0={signed}", "x-slack-request-timestamp": str(at_s)}


def public_key() -> str:
    signer = signer_of(ED25519)
    assert isinstance(signer, Ed25519Signer)
    return signer.public_key


def source(scheme: Scheme, header: str = "", id_header: str = "") -> Source:
    secrets = (SigningSecret("file:x"),)
    found = Source(
        name="shop", topic="t", scheme=scheme, secrets=secrets, header=header, id_header=id_header
    )
    found.check()
    return found


def received(
    scheme: Scheme, headers: Mapping[str, str], *secrets: str, body: bytes = BODY, **named: str
) -> Received:
    default = STANDARD if scheme is Scheme.STANDARD else PLAIN
    return verify(source(scheme, **named), secrets or (default,), headers, body, NOW_MS)


def refusal(
    scheme: Scheme, headers: Mapping[str, str], *secrets: str, body: bytes = BODY, **named: str
) -> Reason:
    with pytest.raises(NotVerified) as refused:
        received(scheme, headers, *secrets, body=body, **named)
    return refused.value.reason


def test_each_scheme_accepts_what_its_senders_sign_and_knows_the_id() -> None:
    binary = base64.b64encode(bytes.fromhex(digest(PLAIN, BODY))).decode()
    named = {"x-sign": digest(PLAIN, BODY).upper(), "x-id": "7"}

    assert received(Scheme.STANDARD, standard()).id == "msg_1"
    assert received(Scheme.STANDARD, ed25519(), public_key()).id == "msg_1"
    assert received(Scheme.GITHUB, github()).id == "d-1"
    assert received(Scheme.STRIPE, stripe()).id == "evt_1"
    assert received(Scheme.SLACK, slack()).id == "Ev1"
    assert received(Scheme.HMAC, {"x-signature": f"sha256={digest(PLAIN, BODY)}"}).id == ""
    assert received(Scheme.HMAC, {"x-signature": binary}).id == ""
    assert received(Scheme.HMAC, named, header="X-Sign", id_header="X-Id").id == "7"
    assert received(Scheme.TOKEN, {"authorization": f"Bearer {PLAIN}"}).id == ""
    assert received(Scheme.TOKEN, {"x-t": PLAIN, "x-id": "7"}, header="X-T", id_header="X-Id").id


def test_either_secret_is_accepted_while_one_is_replaced() -> None:
    assert received(Scheme.STANDARD, standard(), OTHER, STANDARD).id == "msg_1"
    assert received(Scheme.GITHUB, github(), OTHER_PLAIN, PLAIN).id == "d-1"
    assert received(Scheme.STRIPE, stripe(), OTHER_PLAIN, PLAIN).id == "evt_1"
    assert received(Scheme.TOKEN, {"authorization": f"Bearer {PLAIN}"}, OTHER_PLAIN, PLAIN)


SIGNED = {
    Scheme.STANDARD: (standard(), standard(OTHER)),
    Scheme.GITHUB: (github(), github(OTHER_PLAIN)),
    Scheme.STRIPE: (stripe(), stripe(OTHER_PLAIN)),
    Scheme.SLACK: (slack(), slack(OTHER_PLAIN)),
    Scheme.HMAC: (
        {"x-signature": digest(PLAIN, BODY)},
        {"x-signature": digest(OTHER_PLAIN, BODY)},
    ),
    Scheme.TOKEN: ({"authorization": f"Bearer {PLAIN}"}, {"authorization": "Bearer no"}),
}


@pytest.mark.parametrize("scheme", Scheme)
def test_a_signature_that_is_missing_or_wrong_is_refused(scheme: Scheme) -> None:
    right, wrong = SIGNED[scheme]
    signatures = ("webhook-signature", "x-hub-signature-256", "x-slack-signature", "x-signature")
    without = {name: it for name, it in right.items() if name not in signatures}
    if scheme is Scheme.STRIPE:
        without = {"stripe-signature": f"t={NOW_S}"}
    without.pop("authorization", None)

    assert refusal(scheme, wrong) is Reason.WRONG_SIGNATURE
    assert refusal(scheme, without) is Reason.NO_SIGNATURE
    if scheme is not Scheme.TOKEN:
        assert refusal(scheme, right, body=BODY + b" ") is Reason.WRONG_SIGNATURE


@pytest.mark.parametrize(
    ("scheme", "signed"),
    [(Scheme.STANDARD, standard), (Scheme.STRIPE, stripe), (Scheme.SLACK, slack)],
)
def test_a_timestamp_further_from_now_than_five_minutes_is_refused(
    scheme: Scheme, signed: object
) -> None:
    assert callable(signed)

    assert received(scheme, signed(at_s=NOW_S - 300))
    assert received(scheme, signed(at_s=NOW_S + 300))
    assert refusal(scheme, signed(at_s=NOW_S - 301)) is Reason.OLD
    assert refusal(scheme, signed(at_s=NOW_S + 301)) is Reason.EARLY


def test_an_old_signature_with_a_new_timestamp_is_wrong() -> None:
    replayed = standard(at_s=NOW_S - 3600) | {"webhook-timestamp": str(NOW_S)}

    assert refusal(Scheme.STANDARD, replayed) is Reason.WRONG_SIGNATURE


@pytest.mark.parametrize("text", ["x", "1e9", "-1", "1 700", "٣", "9" * 13])
def test_a_timestamp_that_is_no_number_is_malformed(text: str) -> None:
    assert refusal(Scheme.STANDARD, standard() | {"webhook-timestamp": text}) is Reason.MALFORMED


def test_what_lacks_its_id_or_timestamp_is_refused() -> None:
    assert refusal(Scheme.STANDARD, standard() | {"webhook-id": ""}) is Reason.NO_ID
    assert refusal(Scheme.STANDARD, standard() | {"webhook-timestamp": ""}) is Reason.NO_TIMESTAMP
    long = {"x-signature": digest(PLAIN, BODY), "x-id": "x" * 501}
    assert refusal(Scheme.HMAC, long, id_header="X-Id") is Reason.MALFORMED


def test_slacks_question_is_answered_and_is_no_event() -> None:
    body = json.dumps({"type": "url_verification", "challenge": "c4"}).encode()

    assert received(Scheme.SLACK, slack(body=body), body=body) == Received(challenge="c4")
    assert refusal(Scheme.SLACK, slack(OTHER_PLAIN, body=body), body=body)


_HEADERS = st.sampled_from(
    [
        "webhook-id",
        "webhook-timestamp",
        "webhook-signature",
        "x-hub-signature-256",
        "stripe-signature",
        "x-slack-signature",
        "x-slack-request-timestamp",
        "x-signature",
        "authorization",
    ]
)


@given(
    st.sampled_from(Scheme),
    st.dictionaries(_HEADERS, st.text(max_size=60) | st.just(str(NOW_S))),
    st.binary(max_size=60),
)
def test_no_other_request_is_accepted(scheme: Scheme, headers: dict[str, str], body: bytes) -> None:
    assert refusal(scheme, headers, body=body) in Reason
    if scheme is Scheme.STANDARD:
        assert refusal(scheme, headers, public_key(), body=body) in Reason


@pytest.mark.parametrize(
    ("scheme", "secret"),
    [
        (Scheme.STANDARD, "whsec_short"),
        (Scheme.STANDARD, "plain-text-secret"),
        (Scheme.STANDARD, "whpk_AAAA"),
        (Scheme.GITHUB, "short"),
        (Scheme.TOKEN, ""),
    ],
)
def test_a_secret_that_cannot_be_one_is_refused(scheme: Scheme, secret: str) -> None:
    with pytest.raises(InvalidSetting):
        check_secret(scheme, secret)


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "../x"},
        {"topic": ""},
        {"topic": "webhooks.received"},
        {"secrets": ()},
        {"header": "X-Y"},
        {"scheme": Scheme.HMAC, "header": "X Y"},
        {"scheme": Scheme.TOKEN, "id_header": "X:Y"},
        {"tolerance_ms": 0},
        {"window_ms": -1},
        {"window_ms": 8 * 86_400_000},
    ],
)
def test_a_source_out_of_range_is_refused(changes: dict[str, object]) -> None:
    given: dict[str, object] = {
        "name": "shop",
        "topic": "t",
        "secrets": (SigningSecret("file:x"),),
    }
    with pytest.raises((InvalidSetting, InvalidName)):
        Source(**given | changes).check()  # type: ignore[arg-type]  # drawn

"""Deliveries that are signed by ed25519 (v1a), to a receiver that has the public keys only."""

import base64
from typing import Any

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from standardwebhooks import Webhook, WebhookVerificationError
from tests.heads.webhooks.receiver import Receiver, receiving
from tests.heads.webhooks.served import Served, serving, until

from mainstem.heads.webhooks.signatures import PUBLIC

OVERLAP_MS = 60_000


async def delivered(served: Served, receiver: Receiver, value: bytes) -> tuple[dict[str, str], str]:
    """Publish an event; return the headers of its request, and its body as text."""
    came = len(receiver.came)
    served.publish(value)
    await receiver.got(came + 1)
    headers, body = receiver.came[came]
    assert body == value
    return headers, body.decode()


def signatures(headers: dict[str, str], version: str) -> list[bytes]:
    """Return the signatures of one version."""
    found = [each.partition(",") for each in headers["webhook-signature"].split(" ")]
    return [base64.b64decode(each) for it, _, each in found if it == version]


def verifies(public_key: str, headers: dict[str, str], body: str) -> bool:
    """Tell whether one of the signatures is of this key, as a receiver does."""
    key = Ed25519PublicKey.from_public_bytes(base64.b64decode(public_key.removeprefix(PUBLIC)))
    content = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.{body}".encode()
    for each in signatures(headers, "v1a"):
        try:
            key.verify(each, content)
        except InvalidSignature:
            continue
        return True
    return False


def newest_key(secured: dict[str, Any]) -> str:
    """Return the public key of the endpoint's newest secret."""
    found = secured["endpoint"]["public_keys"][0]
    assert isinstance(found, str)
    assert found.startswith(PUBLIC)
    return found


async def test_a_receiver_verifies_deliveries_with_the_public_key() -> None:
    async with receiving() as receiver, serving() as served:
        added = await served.add(receiver.url, algorithm="ed25519")
        # The private key is nobody's business: there is nothing to show once.
        assert added["secret"] == ""

        headers, body = await delivered(served, receiver, b'{"id": 1}')

        assert verifies(newest_key(added), headers, body)
        assert not verifies(newest_key(added), headers, body.replace("1", "2"))
        assert not verifies(newest_key(added), headers | {"webhook-id": "msg_1"}, body)
        assert not verifies(newest_key(added), headers | {"webhook-timestamp": "1"}, body)
        assert signatures(headers, "v1") == []


async def test_a_new_ed25519_key_overlaps_with_the_secret_before() -> None:
    async with receiving() as receiver, serving() as served:
        old = (await served.add(receiver.url))["secret"]
        rotated = await served.call(
            "rotate", name="shop", algorithm="ed25519", overlap_ms=OVERLAP_MS
        )

        headers, body = await delivered(served, receiver, b'{"id": 1}')

        assert verifies(newest_key(rotated), headers, body)
        assert Webhook(old).verify(body, headers) == {"id": 1}
        with pytest.raises(WebhookVerificationError):
            Webhook(old).verify(body + " ", headers)


async def test_a_new_ed25519_key_overlaps_with_the_key_before_until_that_ends() -> None:
    async with receiving() as receiver, serving() as served:
        old = newest_key(await served.add(receiver.url, algorithm="ed25519"))
        rotated = await served.call(
            "rotate", name="shop", algorithm="ed25519", overlap_ms=OVERLAP_MS
        )
        new = newest_key(rotated)
        assert rotated["endpoint"]["public_keys"] == (new, old)

        headers, body = await delivered(served, receiver, b"1")
        assert verifies(new, headers, body)
        assert verifies(old, headers, body)

        newest = newest_key(
            await served.call("rotate", name="shop", algorithm="ed25519", overlap_ms=0)
        )
        headers, body = await delivered(served, receiver, b"2")
        assert verifies(newest, headers, body)
        assert not verifies(new, headers, body)
        assert len(signatures(headers, "v1a")) == 1


async def test_a_rate_limits_the_requests_per_second() -> None:
    per_s, events = 100.0, 60
    async with receiving() as receiver, serving() as served:
        times = list[float]()
        clock = served.context.now_ms
        receiver_answer = receiver.answering

        async def timed(request: Any, body: bytes) -> Any:
            times.append(clock())
            return await receiver_answer(request, body)

        receiver.answering = timed
        await served.add(receiver.url, max_per_s=per_s, max_in_flight=50)
        served.publish(*[b"%d" % number for number in range(events)])

        await receiver.got(events)
        await until(lambda: served.unsettled() == 0)

        # What the rate allows within 100 ms may come at once; never more than that.
        least_ms = (events - per_s * 0.1) / per_s * 1000
        assert times[-1] - times[0] >= least_ms * 0.95
        assert sorted(receiver.bodies()) == sorted(b"%d" % number for number in range(events))

"""Webhooks for the laws of every head."""

import base64
from pathlib import Path

import msgspec
from hypothesis import strategies as st
from tests.heads.started import TOPIC
from tests.laws.heads.examples import Examples, Law
from tests.laws.heads.http_peers import HTTP, http_outcomes
from tests.laws.heads.values import WORD

from mainstem.broker.broker import Broker
from mainstem.core.event import Event
from mainstem.heads.webhooks.endpoints import Payload, SigningSecret
from mainstem.heads.webhooks.payloads import message as webhook_message
from mainstem.heads.webhooks.settings import WebhooksSettings
from mainstem.heads.webhooks.sources import Scheme, Source


def _hook(token: str, message_id: str = "") -> bytes:
    """Send a webhook; those with one id are one message."""
    lines = [
        "POST /hooks/shop HTTP/1.1",
        "Host: localhost",
        f"X-Token: {token}",
        *([f"X-Id: {message_id}"] if message_id else []),
        "Content-Length: 2",
        "",
        "{}",
    ]
    return "\r\n".join(lines).encode()


_TOKEN = "correct-horse-battery"
_HOOK = _hook(_TOKEN)


def _define_source(broker: Broker) -> None:
    source = Source(
        name="shop",
        topic=TOPIC,
        scheme=Scheme.TOKEN,
        secrets=(SigningSecret("file:token"),),
        header="x-token",
        id_header="x-id",
    )
    broker.definitions.open("webhooks").set("source", "shop", msgspec.json.encode(source))


def _envelope_there_and_back(message: Event) -> Event:
    sent = webhook_message(Payload.ENVELOPE, "t", [message], batch=False)
    found = msgspec.json.decode(sent.body)
    key = found.get("key")
    return Event(
        base64.b64decode(found["base64"]) if "base64" in found else found["text"].encode(),
        None if key is None else key.encode(),
        tuple((name, value.encode()) for name, value in found["headers"].items()),
        topic=found["topic"],
        partition=found["partition"],
        offset=found["offset"],
    )


EXAMPLES = Examples(
    settings=WebhooksSettings(secrets=str(Path(__file__).parents[2] / "heads/webhooks/secrets")),
    prepare=_define_source,
    # Short, as it is cut at every place.
    stream=_hook(_TOKEN, "1") + _hook(_TOKEN, "1"),
    ask=_HOOK,
    outcomes=http_outcomes(done=204),
    publishes=True,
    messages=st.builds(
        Event,
        WORD.map(lambda word: f"/{word}".encode()) | st.binary(max_size=50).map(b"\xff".__add__),
        st.none() | WORD.map(str.encode),
        st.dictionaries(WORD, WORD.map(str.encode), min_size=1).map(
            lambda headers: tuple(headers.items())
        ),
        topic=WORD,
        partition=st.integers(0, 10),
        offset=st.integers(0, 2**53),
    ),
    there_and_back=_envelope_there_and_back,
    **HTTP,
    login=_hook("wrong"),
    unread=_HOOK * 1_000,
    not_applicable={
        Law.SETTLING: "what endpoints are sent is settled by their answers, not by connections",
        Law.WAITING: "no request waits for anything but the disk",
    },
)

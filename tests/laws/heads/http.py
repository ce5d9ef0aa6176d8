"""HTTP for the laws of every head."""

import msgspec
from hypothesis import strategies as st
from tests.heads.started import TOPIC
from tests.laws.heads.examples import Examples, Law
from tests.laws.heads.http_peers import HTTP, http_outcomes
from tests.laws.heads.values import TEXT

from mainstem.core.event import Event
from mainstem.heads.http.formats.event_json import event_json, read_event
from mainstem.heads.http.settings import HttpSettings


def _request(first: str, *headers: str, body: bytes = b"") -> bytes:
    length = [f"Content-Length: {len(body)}"] if body else []
    lines = [f"{first} HTTP/1.1", "Host: localhost", *length, *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def _there_and_back(message: Event) -> Event:
    found, partition = read_event(event_json(message))
    assert partition == message.partition
    offset = msgspec.json.decode(event_json(message))["offset"]
    # Only the client's own programs know their topic.
    return msgspec.structs.replace(found, partition=partition, offset=offset)


_EVENTS = f"/topics/{TOPIC}/events"
_PUBLISH_JSON = _request(f"POST {_EVENTS}", "Content-Type: application/json", body=b'{"id":1}')
EXAMPLES = Examples(
    settings=HttpSettings(),
    stream=_PUBLISH_JSON
    + _request(f"POST {_EVENTS}", "Content-Type: application/x-ndjson", body=b"1\n2\n")
    + _request(f"GET {_EVENTS}?from=1"),
    ask=_PUBLISH_JSON,
    outcomes=http_outcomes(),
    publishes=True,
    messages=st.builds(
        Event,
        st.none() | st.binary(max_size=50) | TEXT.map(str.encode) | st.just(b'{"a":[1,null]}'),
        st.none() | st.binary(max_size=20),
        st.dictionaries(TEXT, st.none() | st.binary(max_size=20), max_size=4).map(
            lambda named: tuple(named.items())
        ),
        st.integers(0, 2**62),
        partition=st.integers(0, 100),
        offset=st.integers(0, 2**62),
    ),
    there_and_back=_there_and_back,
    **HTTP,
    login=_PUBLISH_JSON.replace(b"\r\n\r\n", b"\r\nAuthorization: Basic YW5uOm5v\r\n\r\n", 1),
    wait=_request(f"GET {_EVENTS}?wait_s=300"),
    unread=_request(f"GET {_EVENTS}") * 400,
    not_applicable={
        Law.SETTLING: "leases belong to no connection, and a client of a WebSocket must wait for "
        "the upgrade before it says more; heads/http has a test of its own",
    },
)

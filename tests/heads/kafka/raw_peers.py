"""Kafka clients over raw sockets, request by request, and a well-behaved one to compare with."""

import contextlib
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Self, TypeVar

from tests.heads.server_process import connected
from tests.in_process_server import server
from tests.kafka_protocol.frames import whole

from mainstem.core.event import Event
from mainstem.core.records import build
from mainstem.kafka_protocol.api import Api
from mainstem.kafka_protocol.client_codec import decode_response, encode_request
from mainstem.kafka_protocol.fields import Wire
from mainstem.kafka_protocol.messages.fetch import (
    FETCH,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from mainstem.kafka_protocol.messages.produce import (
    PRODUCE,
    ProducedPartition,
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
    ProduceTopic,
)

NEVER = 2**31 - 1

R = TypeVar("R", bound=Wire)


class Peer:
    """A connection that sends any bytes, and reads answers."""

    def __init__(self, address: str, *, receive_buffer: int = 0) -> None:
        self.socket = connected(address, receive_buffer)
        self.name = "{}:{}".format(*self.socket.getsockname())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def ask(self, api: Api, version: int, body: Wire, expected: type[R]) -> R:
        self.send(request(api, version, body))
        return self.answer(api, version, expected)

    def answer(self, api: Api, version: int, expected: type[R]) -> R:
        found = decode_response(api, version, memoryview(self.frame())).body
        assert isinstance(found, expected)
        return found

    def frame(self) -> bytes:
        (length,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(length)

    def is_cut_off(self) -> bool:
        """Tell whether the server closes without an answer."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def reset(self) -> None:
        """Reset the connection."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def _exactly(self, length: int) -> bytes:
        found = bytearray()
        while len(found) < length:
            more = self.socket.recv(min(length - len(found), 1 << 20))
            if not more:
                raise EOFError(f"closed after {len(found)} of {length} bytes")
            found += more
        return bytes(found)


def request(api: Api, version: int, body: Wire, correlation_id: int = 7) -> bytes:
    """Return a request as a frame, length included."""
    frame = whole(encode_request(api, version, correlation_id, "me", body))
    return struct.pack(">i", len(frame)) + frame


def production(
    topic: str, batch: bytes, partition: int = 0, acks: int = -1, timeout_ms: int = 1000
) -> ProduceRequest:
    data = ProducePartition(partition, memoryview(batch))
    topics = (ProduceTopic(name=topic, partition_data=(data,)),)
    return ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=topics)


def produce(peer: Peer, topic: str, batch: bytes, partition: int = 0) -> ProducedPartition:
    """Produce one batch; return the answer for its partition."""
    answer = peer.ask(PRODUCE, 9, production(topic, batch, partition), ProduceResponse)
    return answer.responses[0].partition_responses[0]


def fetching(
    topic: str,
    offset: int = 0,
    *,
    partition: int = 0,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 1 << 20,
    isolation: int = 0,
) -> FetchRequest:
    place = FetchPartition(partition, fetch_offset=offset, partition_max_bytes=max_bytes)
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation,
        topics=(FetchTopic(topic=topic, partitions=(place,)),),
    )


class Healthy:
    """A well-behaved client: what was acknowledged to it must be readable at once."""

    def __init__(self, address: str) -> None:
        self._peer = Peer(address)
        self.topic = "healthy." + self._peer.name.replace(":", ".")
        self._acknowledged = 0
        self.check()

    def check(self) -> None:
        """Produce an event, and read it back."""
        event = Event(value=b"%d" % self._acknowledged, key=b"k")
        produced = produce(self._peer, self.topic, bytes(build([event], now_ms=1)))
        assert produced.error_code == 0
        assert produced.base_offset == self._acknowledged
        fetched = self._peer.ask(FETCH, 12, fetching(self.topic, self._acknowledged), FetchResponse)
        assert fetched.responses[0].partitions[0].high_watermark == self._acknowledged + 1
        self._acknowledged += 1

    def close(self) -> None:
        self._peer.socket.close()


@contextlib.contextmanager
def served(path: Path | None) -> Iterator[str]:
    """Serve in a thread of this process; yields host:port."""
    with server(path) as found:
        yield str(found.kafka)

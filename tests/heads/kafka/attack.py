"""A server, peers that speak to it byte by byte, and a healthy client beside them."""

import asyncio
import contextlib
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Self, TypeVar

from tests.heads.kafka.frames import whole

from mainstem.core.event import Event
from mainstem.core.records import build
from mainstem.heads.kafka.adapter.service import KafkaSettings
from mainstem.heads.kafka.api import Api
from mainstem.heads.kafka.codec import decode_response, encode_request
from mainstem.heads.kafka.fields import Wire
from mainstem.heads.kafka.messages.fetch import (
    FETCH,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from mainstem.heads.kafka.messages.produce import (
    PRODUCE,
    ProducedPartition,
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
    ProduceTopic,
)
from mainstem.node.config import Config
from mainstem.node.server import Address, running

PATIENCE_S = 20
"""How long anything may take on a machine that others use too; nothing here waits this long."""

R = TypeVar("R", bound=Wire)


class Peer:
    """A socket, and as much of the protocol as whoever holds it wants to respect."""

    def __init__(self, address: str, *, receive_buffer: int = 0) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.socket()
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(PATIENCE_S)
        self.socket.connect((host, int(port)))
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
        found = decode_response(api.key, version, memoryview(self.frame())).body
        assert isinstance(found, expected)
        return found

    def frame(self) -> bytes:
        (length,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(length)

    def is_cut_off(self) -> bool:
        """Tell whether the server closes, without having said anything."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def reset(self) -> None:
        """Go away without a goodbye."""
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
    """Return a request as a frame with its length."""
    frame = whole(encode_request(api.key, version, correlation_id, "me", body))
    return struct.pack(">i", len(frame)) + frame


def production(
    topic: str, batch: bytes, partition: int = 0, acks: int = -1, timeout_ms: int = 1000
) -> ProduceRequest:
    data = ProducePartition(partition, memoryview(batch))
    topics = (ProduceTopic(name=topic, partition_data=(data,)),)
    return ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=topics)


def produce(peer: Peer, topic: str, batch: bytes, partition: int = 0) -> ProducedPartition:
    """Produce one batch; return what became of it."""
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
) -> FetchRequest:
    place = FetchPartition(partition, fetch_offset=offset, partition_max_bytes=max_bytes)
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        topics=(FetchTopic(topic=topic, partitions=(place,)),),
    )


class Healthy:
    """A client that does nothing wrong: what it was acknowledged must be there, and at once."""

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
def served(path: Path | None, settings: KafkaSettings | None = None) -> Iterator[str]:
    """Serve in a thread of this process; yields host:port."""
    addresses: list[str] = []
    ready = threading.Event()
    stop: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def main() -> None:
        told = asyncio.Event()
        stop.append((asyncio.get_running_loop(), told))
        async with running(path, Config(), Address("127.0.0.1", 0), settings) as server:
            addresses.append(str(server.kafka))
            ready.set()
            await told.wait()

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    assert ready.wait(PATIENCE_S)
    try:
        yield addresses[0]
    finally:
        loop, told = stop[0]
        loop.call_soon_threadsafe(told.set)
        thread.join(PATIENCE_S)


class Process:
    """A server in a process of its own, so that its memory can be told from the attacker's."""

    _CODE = """
import resource, sys
from pathlib import Path
from mainstem.node.config import Config
from mainstem.node.server import Address, serve
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
serve(Path(sys.argv[1]), Config(), Address("127.0.0.1", 0), lambda it: print(it.kafka, flush=True))
"""

    def __init__(self, path: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", self._CODE, str(path)], stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self.address = self._process.stdout.readline().strip()

    def memory_mb(self) -> float:
        """Return what it holds now."""
        return self._status("VmRSS")

    def peak_mb(self) -> float:
        """Return the most that it held since ``forget_peak``."""
        return self._status("VmHWM")

    def forget_peak(self) -> None:
        Path(f"/proc/{self._process.pid}/clear_refs").write_text("5")

    def cpu_s(self) -> float:
        """Return the processor time that it used."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / 100

    def close(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.communicate(timeout=PATIENCE_S)

    def _status(self, name: str) -> float:
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        line = next(each for each in status.splitlines() if each.startswith(name + ":"))
        return int(line.split()[1]) / 1024

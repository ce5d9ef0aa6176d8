"""A server, peers that speak to it byte by byte, and a healthy client beside them."""

import contextlib
import json
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol, Self, TypeVar

from tests.heads.admin.web import get
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

PATIENCE_S = 60
"""How long anything may take on a machine that others use too; nothing here waits this long."""
GROWTH_MB = 64
"""By how much the memory of a server may grow, whatever is done to it."""
NEVER = 2**31 - 1

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
        found = decode_response(api, version, memoryview(self.frame())).body
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
    frame = whole(encode_request(api, version, correlation_id, "me", body))
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


class Checks(Protocol):
    """A client that does nothing wrong, of any protocol."""

    def check(self) -> None:
        """Be served once; raises if that is not so."""


@contextlib.contextmanager
def beside(healthy: Checks) -> Iterator[None]:
    """Let a healthy client be served again and again for as long as the block lasts."""
    over = threading.Event()
    failed: list[BaseException] = []
    slowest = 0.0

    def go_on() -> None:
        nonlocal slowest
        try:
            while not over.is_set():
                began = time.monotonic()
                healthy.check()
                slowest = max(slowest, time.monotonic() - began)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(2 * PATIENCE_S)
    print(f"the slowest answer took {slowest * 1000:.0f} ms")  # noqa: T201 - for whoever asks with -s
    for error in failed:
        raise error


def until(condition: Callable[[], bool], meanwhile: Callable[[], object]) -> None:
    """Ask until it is so, and do something else meanwhile that takes its time."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        meanwhile()


@contextlib.contextmanager
def served(path: Path | None) -> Iterator[str]:
    """Serve in a thread of this process; yields host:port."""
    with server(path) as found:
        yield str(found.kafka)


class Process:
    """A server in a process of its own, so that its memory can be told from the attacker's."""

    _CODE = """
import json, resource, sys
from mainstem.heads.transport import server as transport
from pathlib import Path
from mainstem.node.config import load_config
from mainstem.node.server import serve
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
if sys.argv[3]:
    from tests.heads.kafka.packet_loss import lose_a_fifth
    bind = transport.bind
    def lossy(*arguments):
        listener = bind(*arguments)
        lose_a_fifth(listener)
        return listener
    transport.bind = lossy
free = "127.0.0.1:0"
settings = json.loads(sys.argv[2])
config = load_config(None, {}, settings).listening(kafka=free, admin=free)
say = lambda it: print(json.dumps({k: str(v) for k, v in it.addresses.items()}), flush=True)
serve(Path(sys.argv[1]), config, say)
"""

    def __init__(self, path: Path, *, loses_a_fifth: object = False, **settings: object) -> None:
        named = {name.replace("__", "."): value for name, value in settings.items()}
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                self._CODE,
                str(path),
                json.dumps(named),
                "yes" if loses_a_fifth else "",
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self.addresses: dict[str, str] = json.loads(self._process.stdout.readline())
        """Where each head listens."""
        self.address, self.admin = self.addresses["kafka"], self.addresses["admin"]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate(timeout=PATIENCE_S)

    def metric(self, name: str) -> float:
        """Return a number that it shows to whoever looks after it, 0 if it does not."""
        shown = get(self.admin, "/metrics").text.splitlines()
        lines = [line for line in shown if line.startswith(name)]
        return sum(float(line.rpartition(" ")[2]) for line in lines)

    @contextlib.contextmanager
    def within_bounds(self) -> Iterator[None]:
        """See to it that its memory does not grow by more than is allowed."""
        before = self.memory_mb()
        self.forget_peak()
        yield
        grown = self.peak_mb() - before
        print(f"memory grew by {grown:.1f} MB")  # noqa: T201 - a figure for whoever asks with -s
        assert grown < GROWTH_MB

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

    def tell(self, number: signal.Signals) -> None:
        """Send a signal."""
        self._process.send_signal(number)

    def wait(self) -> int:
        """Wait for its end; return its exit code."""
        self._process.communicate(timeout=PATIENCE_S)
        return self._process.returncode

    def close(self) -> None:
        self.tell(signal.SIGTERM)
        self.wait()

    def _status(self, name: str) -> float:
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        line = next(each for each in status.splitlines() if each.startswith(name + ":"))
        return int(line.split()[1]) / 1024

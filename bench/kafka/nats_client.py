"""A NATS client that does the least: commands encoded beforehand, answers counted, not parsed.

How this works: a NATS server is told ``PUB subject inbox length`` with a payload, and JetStream
answers each with a JSON text that holds ``"seq":``; what a consumer pulls comes as a ``MSG`` whose
reply begins with ``$JS.ACK.``. Payloads here are zeros, so that counting those words in whatever
was read counts answers and events. Nothing that a library does beyond it can then be the limit.
"""

import json
import select
import socket
from collections.abc import Sequence
from itertools import cycle
from uuid import uuid4

from bench.kafka.jobs import PATIENCE_S

ANSWER = b'"seq":'
EVENT = b"$JS.ACK."
AT_ONCE = 200
"""What is published with one call."""
_READ_BYTES = 256 * 1024
_GREETING = b'CONNECT {"verbose":false,"headers":true,"no_responders":true}\r\n'
_END = b"\r\n"


class NatsClient:
    """A connection."""

    def __init__(self, address: str) -> None:
        host, _, port = address.partition(":")
        self._socket = socket.create_connection((host, int(port)), PATIENCE_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._rest = b""
        """What was read and not understood yet."""
        # Whoever listens to a subject hears everybody's answers on it.
        self._inbox = f"_INBOX.{uuid4().hex}"
        self._socket.sendall(_GREETING + f"SUB {self._inbox} 1\r\nPING\r\n".encode())
        while not self._line().startswith(b"PONG"):
            pass

    def fileno(self) -> int:
        """Return the descriptor, to wait for."""
        return self._socket.fileno()

    def close(self) -> None:
        """End the connection."""
        self._socket.close()

    def ask(self, subject: str, question: object) -> dict[str, object]:
        """Ask JetStream's API, and wait for its answer."""
        self.send(self.command(subject, json.dumps(question).encode()))
        found: dict[str, object] = json.loads(self.receive())
        if "error" in found:
            raise SystemExit(f"NATS refuses {subject}: {found['error']}")
        return found

    def consumer(self, stream: str) -> str:
        """Make a consumer of all that is in a stream; return where to pull from."""
        settings = {
            "deliver_policy": "all",
            "ack_policy": "none",
            "mem_storage": True,
            # It is forgotten after five seconds without a pull otherwise.
            "inactive_threshold": 10 * PATIENCE_S * 10**9,
        }
        question = {"stream_name": stream, "config": settings}
        found = self.ask(f"$JS.API.CONSUMER.CREATE.{stream}", question)
        return f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{found['name']}"

    def pull(self, source: str, events: int) -> None:
        """Have up to so many events sent."""
        question = {"batch": events, "expires": PATIENCE_S * 10**9}
        self.send(self.command(source, json.dumps(question).encode()))

    def command(self, subject: str, payload: bytes) -> bytes:
        """Return the bytes that publish, with the answer to here."""
        return f"PUB {subject} {self._inbox} {len(payload)}\r\n".encode() + payload + _END

    def publish(self, commands: Sequence[bytes], events: int, window: int) -> None:
        """Send the commands over and over until it is enough, with so many unanswered at most."""
        size = min(AT_ONCE, window)
        repeated = [*commands] * -(-AT_ONCE // len(commands))
        slices = cycle([repeated[at : at + size] for at in range(0, len(repeated), size)])
        sent = answered = 0
        out = memoryview(b"")
        while answered < events:
            if not out and sent < events and sent - answered + size <= window:
                chosen = next(slices)[: events - sent]
                sent += len(chosen)
                out = memoryview(b"".join(chosen))
            readable, writable, _ = select.select([self], [self] if out else [], [], PATIENCE_S)
            if not readable and not writable:
                raise SystemExit(f"NATS left {sent - answered} events unanswered")
            if writable:
                out = out[self._socket.send(out) :]
            if readable:
                answered += self.answers()
                assert answered <= sent

    def send(self, given: bytes) -> None:
        """Send a command."""
        self._socket.sendall(given)

    def answers(self, *, wait: bool = True) -> int:
        """Read what there is, and return how many answers to publishing are in it."""
        try:
            return self._count(ANSWER, 0 if wait else socket.MSG_DONTWAIT)
        except BlockingIOError:
            return 0

    def events(self) -> int:
        """Read what there is, and return how many events are in it."""
        return self._count(EVENT)

    def _count(self, word: bytes, flags: int = 0) -> int:
        data = self._rest + self._read(flags)
        if word is ANSWER:
            _check(data)
        # A word may have been cut in two.
        self._rest = data[max(0, len(data) - len(word) + 1) :]
        return data.count(word)

    def receive(self) -> bytes:
        """Return the next payload."""
        while True:
            kind, *parts = self._line().split(b" ")
            if kind == b"HMSG":
                raise SystemExit(f"NATS says {self._exactly(int(parts[-1]) + 2)!r}")
            if kind == b"MSG":
                return self._exactly(int(parts[-1]) + 2)[:-2]
            if kind.startswith(b"PING"):
                self._socket.sendall(b"PONG\r\n")

    def _line(self) -> bytes:
        while _END not in self._rest:
            self._rest += self._read()
        line, _, self._rest = self._rest.partition(_END)
        _check(line)
        return line

    def _exactly(self, length: int) -> bytes:
        while len(self._rest) < length:
            self._rest += self._read()
        found, self._rest = self._rest[:length], self._rest[length:]
        return found

    def _read(self, flags: int = 0) -> bytes:
        data = self._socket.recv(_READ_BYTES, flags)
        if not data:
            raise SystemExit("NATS closed the connection")
        return data


def _check(data: bytes) -> None:
    for sign in (b"-ERR", b'"error"', b"NATS/1.0 "):
        if sign in data:
            at = data.index(sign)
            raise SystemExit(f"NATS says {data[at : at + 200]!r}")

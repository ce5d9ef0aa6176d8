"""Runs a connector in a process of its own, which publishes through a server by a lease.

How this works: the process takes the lease of the connector (``leases.py``), runs the connector as
a thread of the server would, and reports once a second that it is alive. When the lease has ended,
or an answer of the server was lost, the process stops the connector, takes a new lease, and begins
again with the progress that the server has stored.
"""

import os
import secrets as random
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol, TypeVar

import msgspec

from mainstem.broker.door import AT_ONCE, Durable, Duty, HeldPublish, TopicEvents
from mainstem.connectors.errors import ConnectorTaken, LeaseEnded, SourceFailed
from mainstem.connectors.running.lease_messages import (
    Append,
    Entry,
    PlainEvent,
    Status,
    StoredDefinition,
    Taken,
    TargetTopic,
)
from mainstem.connectors.running.progress import REQUEST
from mainstem.connectors.running.report import Report
from mainstem.connectors.running.target import Changes, Target
from mainstem.connectors.running.worker import Task, Worker
from mainstem.connectors.settings import ConnectorSettings
from mainstem.core.errors import Failure, MainstemError, TopicExists, UnknownTopic, Unreachable
from mainstem.core.topic_settings import TopicSettings

T = TypeVar("T")
_RENEW_S = 1.0
_AGAIN_S = 0.5
_PIECE_BYTES = 512 * 1024


class Server(Protocol):
    """The server that stores the connector.

    Methods raise Unreachable if the connection failed, when the request may have been done or not.
    """

    def take(self, name: str, holder: str) -> Taken:
        """Take the lease of a connector; raises ConnectorTaken."""

    def renew(self, name: str, token: str, status: Status) -> bytes | None:
        """Extend the lease; returns the request to read tables again, None if there is none."""

    def publish(self, name: str, token: str, piece: bytes, at: int, *, is_last: bool) -> str:
        """Send a piece of an append; returns "", "full" or "unknown TOPIC"."""

    def topic(
        self, name: str, token: str, topic: str, create: TopicSettings | None
    ) -> TargetTopic | None:
        """Return a topic, None if there is none; ``create`` has the settings to create it with."""

    def end(self, name: str, token: str) -> None:
        """End the lease, after the connector was stopped."""


class TargetBusy(MainstemError, failure=Failure.OVERLOADED, retriable=True):
    """Raised if a topic with backpressure is full; the connector tries again."""


class LeasedTarget:
    """Publishes through the server's broker, as long as one lease is valid."""

    def __init__(self, server: Server, name: str, taken: Taken) -> None:
        self._server = server
        self._name = name
        self._token = taken.token
        self._definitions = {(each.kind, each.key): each.value for each in taken.definitions}
        self._lock = threading.Lock()
        self.lost = threading.Event()
        """Set when the lease has ended, or an answer was lost."""

    def get(self, kind: str, key: str) -> bytes | None:
        """Return a stored definition of the connector, None if there is none."""
        return self._definitions.get((kind, key))

    def keys(self, kind: str, prefix: str) -> Sequence[str]:
        """Return the keys of the definitions of a kind that begin with a prefix."""
        return [
            key
            for (each, key), value in self._definitions.items()
            if each == kind and value is not None and key.startswith(prefix)
        ]

    def topic(self, name: str) -> TargetTopic:
        """Return a topic; raises UnknownTopic."""
        found = self._ask(lambda: self._server.topic(self._name, self._token, name, None))
        if found is None:
            raise UnknownTopic(name)
        return found

    def create_topic(self, name: str, settings: TopicSettings) -> None:
        """Create a topic; do nothing if it exists."""
        with suppress(TopicExists):
            self._ask(lambda: self._server.topic(self._name, self._token, name, settings))

    def publish(
        self, entries: Sequence[TopicEvents], changes: Changes, held: HeldPublish | None
    ) -> Durable:
        """Append events and definitions, all or nothing; they are durable on return.

        Raises TargetBusy, UnknownTopic, and SourceFailed if the lease has ended.
        """
        data = msgspec.msgpack.encode(_append(entries, changes))
        with self._lock:
            for at in range(0, len(data), _PIECE_BYTES):
                why = self._send(data, at)
            if why == "full":
                raise TargetBusy("a topic with backpressure is full")
            if why:
                raise UnknownTopic(why.removeprefix("unknown "))
            self._definitions |= changes
        return AT_ONCE

    def _send(self, data: bytes, at: int) -> str:
        piece = data[at : at + _PIECE_BYTES]
        is_last = at + len(piece) == len(data)
        return self._ask(
            lambda: self._server.publish(self._name, self._token, piece, at, is_last=is_last)
        )

    def renew(self, report: Report) -> None:
        """Report to the server that the process is alive, and what the connector does."""
        fields = Status.__struct_fields__
        status = Status(**{each: getattr(report, each) for each in fields})
        with self._lock:
            self._definitions[REQUEST, self._name] = self._server.renew(
                self._name, self._token, status
            )

    def _ask(self, call: Callable[[], T]) -> T:
        if self.lost.is_set():
            raise SourceFailed("the lease of the connector has ended")
        try:
            return call()
        except (LeaseEnded, Unreachable) as error:
            # The server may have done it or not; the progress sent with the next lease shows that.
            self.lost.set()
            raise SourceFailed(str(error)) from None


class _Held:
    """The connector's duty, which the server holds while the lease lasts."""

    is_held = True

    def release(self) -> None:
        """Do nothing: the server releases the duty when the lease ends."""


class _HeldDuties:
    def hold(self, name: str, changed: Callable[[], None]) -> Duty:
        """Return the duty of the connector, which the server holds already."""
        return _Held()


class OwnProcess:
    """Runs one connector in this process until it is told to stop."""

    def __init__(
        self,
        name: str,
        connect: Callable[[], Server],
        make: Callable[[ConnectorSettings, Target, "_HeldDuties"], Task],
        say: Callable[[str], None],
    ) -> None:
        """``connect`` returns the server or raises Unreachable; ``say`` informs the user."""
        self._name = name
        self._connect = connect
        self._make = make
        self._say = say
        self._said = ""
        self._stop = threading.Event()
        # With random digits: after a crash another process may get the same number.
        self._holder = f"process {os.getpid()} on {socket.gethostname()} ({random.token_hex(3)})"

    def stop(self) -> None:
        """Tell ``run`` to return soon; does not wait."""
        self._stop.set()

    def run(self) -> None:
        """Run the connector until ``stop``; raises errors of the server: UnknownConnector etc."""
        while not self._stop.is_set():
            try:
                server = self._connect()
                taken = server.take(self._name, self._holder)
            except ConnectorTaken as error:
                self._tell(f"{error}: waiting for its end")
                self._stop.wait(_AGAIN_S)
                continue
            except Unreachable as error:
                self._tell(f"{error}; trying again")
                self._stop.wait(_AGAIN_S)
                continue
            self._tell(f"connector {self._name} runs in this process")
            self._run_leased(server, taken)

    def _run_leased(self, server: Server, taken: Taken) -> None:
        target = LeasedTarget(server, self._name, taken)
        worker = Worker(
            self._make(taken.settings, target, _HeldDuties()),
            paused=taken.paused,
        )
        worker.start()
        try:
            while not self._stop.is_set() and not target.lost.wait(_RENEW_S):
                with suppress(Unreachable):
                    target.renew(worker.report)
        except LeaseEnded:
            target.lost.set()
        finally:
            worker.stop()
        if self._stop.is_set():
            with suppress(MainstemError):
                server.end(self._name, taken.token)

    def _tell(self, text: str) -> None:
        if text != self._said:
            self._said = text
            self._say(text)


def _append(entries: Sequence[TopicEvents], changes: Changes) -> Append:
    return Append(
        [
            Entry(
                each.topic,
                [PlainEvent(it.value, it.key, it.headers, it.timestamp_ms) for it in each.events],
                each.partition,
            )
            for each in entries
        ],
        [StoredDefinition(kind, key, value) for (kind, key), value in changes.items()],
    )

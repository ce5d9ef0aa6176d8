"""Leases of connectors: a process of its own runs one, and publishes through the server.

How this works: ``mainstem connector run`` is a process that takes the lease of a connector from the
server. While the lease lasts, the server holds the connector's duty for it, so neither a thread of
the server nor another node runs the connector. With every append the process sends the token of its
lease. The token becomes invalid at once when the connector is changed (paused, restarted, removed),
when the process takes a new lease, or when it was silent for too long; an append that arrives later
is refused. A process that does not know whether an append was done takes a new lease, and continues
from the progress that the server has stored.

An append may be larger than one request, so it comes in pieces. Each says how many bytes came
before it, so that a missing or repeated piece is noticed.
"""

import secrets
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

import msgspec

from mainstem.broker.door import Door, Duty, HeldPublish, TopicEvents
from mainstem.connectors.errors import ConnectorTaken, LeaseEnded
from mainstem.connectors.running.lease_messages import (
    Append,
    Entry,
    Status,
    StoredDefinition,
    Taken,
    TargetTopic,
)
from mainstem.connectors.running.progress import CONFIG, HEAD, PAUSED, PROGRESS, REQUEST, SCHEMA
from mainstem.connectors.running.report import Report
from mainstem.connectors.running.target import DoorTarget
from mainstem.connectors.settings import ConnectorSettings
from mainstem.core.errors import EventTooLarge, TopicExists, UnknownTopic
from mainstem.core.event import Event
from mainstem.core.topic_settings import TopicSettings

LEASE_S = 5.0
"""For how long a process may be silent."""
_MOST_BEYOND_EVENTS = 64 * 1024 * 1024


class _Lease:
    """The lease of one connector."""

    def __init__(self, holder: str, duty: Duty) -> None:
        self.holder = holder
        self.duty = duty
        self.lock = threading.Lock()
        self.ended = threading.Event()
        self.token = ""
        """Empty while the holder has to take the lease anew."""
        self.until_s = 0.0
        self.pieces = bytearray()
        self.report = Report()

    def renew(self) -> None:
        self.until_s = time.monotonic() + LEASE_S

    def check(self, token: str) -> None:
        if not token or token != self.token or self.ended.is_set():
            raise LeaseEnded
        self.renew()


class Leases:
    """The leases of all connectors of a server."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._target = DoorTarget(door)
        self._definitions = door.definitions.open(HEAD)
        self._leases: dict[str, _Lease] = {}
        self._lock = threading.Lock()

    def take(self, name: str, holder: str, make_room: Callable[[], None]) -> Taken:
        """Give a process the lease of a connector, with a new token.

        ``make_room`` is called before to end the server's own thread. Raises ConnectorTaken while
        another process, or another node, runs the connector.
        """
        with self._lock:
            lease = self._leases.get(name)
            if lease is not None and lease.holder != holder:
                raise ConnectorTaken(f"connector {name} is run by {lease.holder}")
            if lease is None:
                make_room()
                duty = self._door.duties.hold(f"connector/{name}", lambda: None)
                if not duty.is_held:
                    duty.release()
                    raise ConnectorTaken(f"connector {name} is run by another node")
                lease = self._leases[name] = _Lease(holder, duty)
                lease.renew()
                threading.Thread(
                    target=self._expire, args=(name, lease), name=f"lease-{name}", daemon=True
                ).start()
        with lease.lock:
            lease.token = secrets.token_hex(8)
            lease.pieces.clear()
            lease.renew()
            return self._taken(name, lease.token)

    def _taken(self, name: str, token: str) -> Taken:
        definitions = self._definitions
        found = [
            StoredDefinition(kind, name, value)
            for kind in (PROGRESS, REQUEST)
            if (value := definitions.get(kind, name)) is not None
        ]
        found += [
            StoredDefinition(SCHEMA, key, value)
            for key, value in definitions.items(SCHEMA).items()
            if key.startswith(f"{name}/")
        ]
        config = definitions.get(CONFIG, name)
        assert config is not None
        settings = msgspec.json.decode(config, type=ConnectorSettings)
        return Taken(token, settings, definitions.get(PAUSED, name) is not None, found)

    def _expire(self, name: str, lease: _Lease) -> None:
        """Wait until the lease is ended, or its process was silent for too long; then remove it."""
        while True:
            with lease.lock:
                left_s = lease.until_s - time.monotonic()
                if left_s <= 0 or lease.ended.is_set():
                    lease.ended.set()
                    break
            lease.ended.wait(left_s)
        self._forget(name, lease)

    def _forget(self, name: str, lease: _Lease) -> None:
        with self._lock:
            if self._leases.get(name) is lease:
                del self._leases[name]
        lease.duty.release()

    def renew(self, name: str, token: str, status: Status) -> bytes | None:
        """Extend a lease and store the status that its process reports; raises LeaseEnded.

        Returns the list of tables that somebody has asked to be read again, None if nobody has.
        """
        lease = self._lease(name)
        with lease.lock:
            lease.check(token)
            report = lease.report
            for field in status.__struct_fields__:
                setattr(report, field, getattr(status, field))
            return self._definitions.get(REQUEST, name)

    def publish(self, name: str, token: str, piece: bytes, at: int, *, is_last: bool) -> str:
        """Take a piece of an append; with the last one, append it and wait until it is durable.

        ``at`` is the number of bytes in the pieces before. Returns "" if this succeeded, "full" if
        a topic with backpressure is full, or "unknown TOPIC". Raises LeaseEnded, EventTooLarge, and
        the errors of publishing.
        """
        lease = self._lease(name)
        with lease.lock:
            lease.check(token)
            if at != len(lease.pieces):
                # A piece is missing or was sent twice.
                lease.token = ""
                raise LeaseEnded
            settings = self._settings(name)
            if at + len(piece) > settings.max_event_bytes * 2 + _MOST_BEYOND_EVENTS:
                lease.token = ""
                raise EventTooLarge(name, at + len(piece), settings.max_event_bytes)
            lease.pieces += piece
            if not is_last:
                return ""
            asked = msgspec.msgpack.decode(bytes(lease.pieces), type=Append)
            lease.pieces.clear()
            try:
                answer = self._target.publish(_entries(asked.entries), _changes(asked), None)
            except UnknownTopic as error:
                return f"unknown {error.topic}"
            if isinstance(answer, HeldPublish):
                return "full"
        answer.wait()
        return ""

    def topic(
        self, name: str, token: str, topic: str, create: TopicSettings | None
    ) -> TargetTopic | None:
        """Return a topic, None if there is none; ``create`` has the settings to create it with."""
        lease = self._lease(name)
        with lease.lock:
            lease.check(token)
            if create is not None:
                with suppress(TopicExists):
                    self._target.create_topic(topic, create)
            try:
                return self._target.topic(topic)
            except UnknownTopic:
                return None

    def void(self, name: str) -> None:
        """Make the token invalid: the process must take a new lease before it can publish."""
        lease = self._leases.get(name)
        if lease is not None:
            with lease.lock:
                lease.token = ""

    def end(self, name: str, token: str | None = None) -> None:
        """End a lease, because its process has stopped or the connector is removed.

        Raises LeaseEnded if ``token`` is given and is not the current one.
        """
        lease = self._leases.get(name)
        if lease is None:
            return
        with lease.lock:
            if token is not None:
                lease.check(token)
            lease.ended.set()
        self._forget(name, lease)

    def close(self) -> None:
        """End all leases."""
        for name in list(self._leases):
            self.end(name)

    def report(self, name: str) -> tuple[Report, str] | None:
        """Return what a process reports of its connector, and the process; None without a lease."""
        lease = self._leases.get(name)
        return None if lease is None else (lease.report, lease.holder)

    def _lease(self, name: str) -> _Lease:
        lease = self._leases.get(name)
        if lease is None:
            raise LeaseEnded
        return lease

    def _settings(self, name: str) -> ConnectorSettings:
        found = self._definitions.get(CONFIG, name)
        if found is None:
            raise LeaseEnded
        return msgspec.json.decode(found, type=ConnectorSettings)


def _entries(entries: Sequence[Entry]) -> list[TopicEvents]:
    return [
        TopicEvents(
            each.topic,
            [Event(it.value, it.key, it.headers, it.timestamp_ms) for it in each.events],
            each.partition,
        )
        for each in entries
    ]


def _changes(asked: Append) -> dict[tuple[str, str], bytes | None]:
    return {(each.kind, each.key): each.value for each in asked.changes}

"""The queues on a server: open, list, show, peek, purge, move, delete."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import TypeVar

from mainstem.client.checks import check_limit, milliseconds
from mainstem.client.connected.admin_api import NotThere, change_at, events_at, queues_at
from mainstem.client.connected.queue import ConnectedQueue
from mainstem.client.info import QueuedEvent, QueueInfo
from mainstem.client.queue_options import QueueOptions, limits_of
from mainstem.client.reaper import Reaper
from mainstem.client.start_positions import check_start
from mainstem.core.errors import (
    InvalidName,
    InvalidSetting,
    MainstemError,
    UnknownQueue,
    UnknownTopic,
    Unsupported,
)
from mainstem.core.event import Position
from mainstem.core.names import check_group
from mainstem.node.api.queues import MOVE, PURGE, Moved, MoveEvents, Purged, PurgeQueue
from mainstem.remote.admin import Admin
from mainstem.remote.admin_address import AdminPort, admin_port
from mainstem.remote.share_groups import (
    ACQUIRE,
    DELIVERIES,
    ISOLATION,
    LIMITS,
    LOCK,
    START,
    ShareGroups,
)

Answer = TypeVar("Answer", Purged, Moved)

_LOCK_MS = 30_000
"""Lock duration in ms that is assumed if the server does not report it."""

_BEGIN_S = 2.0
"""Seconds to wait for a new queue if the server does not report when it is initialized."""


class ConnectedQueues:
    """Implements ``Queues`` through the Kafka protocol and the admin port of a mainstem server."""

    def __init__(
        self, administration: Admin, reaper: Reaper, check_open: Callable[[], None]
    ) -> None:
        self._administration = administration
        self._reaper = reaper
        self._check_open = check_open
        self._groups = ShareGroups(administration)

    def open(self, options: QueueOptions) -> ConnectedQueue:
        """Join a queue, creating it if necessary; sets the settings that ``options`` gives."""
        topic, name, lock_s = options.topic, options.name, options.lock_s
        self._check_open()
        if not isinstance(name, str):
            raise InvalidName("queue", name, "it is not text")
        check_group(name, "queue")
        wanted = _settings(options)
        partitions = range(self._administration.count(topic))
        now = self._groups.settings(name)
        if ACQUIRE in now:
            # Make fetches return no more than requested: prefetched events are locked, and each
            # expired lock counts as a delivery.
            wanted[ACQUIRE] = "record_limit"
        for limit, most in limits_of(options).items():
            if LIMITS[limit] not in now:
                raise Unsupported(
                    f"{self._administration.cluster.address} is no mainstem server, or an older "
                    "one, and has no ttl_s, max_length or max_bytes of queues: set the retention "
                    "of the topic instead"
                )
            wanted[LIMITS[limit]] = str(most or 0)
        self._groups.set(name, wanted, now)
        lock_s = self._lock_s(topic, name, now) if lock_s is None else lock_s
        made = ConnectedQueue(
            self._administration.cluster,
            topic,
            name,
            lock_s=lock_s,
            strict=ACQUIRE in now,
            follow=options.follow,
            unsettled=partial(self._unsettled, topic, name, partitions),
            ready=partial(self._ready, topic, name),
            reaper=self._reaper,
        )
        if options.start == "latest":
            # ``latest`` means from this call on, so wait until the server has initialized the
            # start.
            made.begin(partial(self._has_begun, topic, name, partitions), _BEGIN_S)
        return made

    def list(self) -> tuple[QueueInfo, ...]:
        """Return every queue, sorted by topic and name."""
        return queues_at(self._port(), self._administration.cluster.timeout_s)

    def show(self, topic: str, name: str) -> QueueInfo:
        """Return the settings, consumers and state of one queue."""
        for each in self.list():
            if (each.topic, each.name) == (topic, name):
                return each
        raise self._unknown(topic, name)

    def peek(
        self, topic: str, name: str, limit: int = 10, *, after: Position | None = None
    ) -> tuple[QueuedEvent, ...]:
        """Return the first unsettled events (after ``after``, if given) without delivering them."""
        check_limit(limit)
        port, timeout_s = self._port(), self._administration.cluster.timeout_s
        found: list[QueuedEvent] = []
        try:
            # A page may have fewer events than requested if they are large.
            while len(found) < limit:
                more = events_at(port, timeout_s, topic, name, limit - len(found), after)
                if not more:
                    break
                found += more
                after = more[-1].event.position
        except NotThere:
            raise self._unknown(topic, name) from None
        return tuple(found)

    def purge(self, topic: str, name: str) -> int:
        """Settle all events that no consumer has, so that none gets them; return their number."""
        return self._operate(PURGE, PurgeQueue(topic, name), Purged).purged

    def move(self, topic: str, name: str, to: str, *, limit: int = 1000) -> int:
        """Move up to ``limit`` waiting events to another topic in one append; return the number."""
        check_limit(limit)
        return self._operate(MOVE, MoveEvents(topic, name, to, limit), Moved).moved

    def _operate(
        self, operation: str, arguments: PurgeQueue | MoveEvents, kind: type[Answer]
    ) -> Answer:
        port, timeout_s = self._port(), self._administration.cluster.timeout_s
        try:
            return change_at(port, timeout_s, operation, arguments, kind)
        except NotThere:
            if isinstance(arguments, MoveEvents) and not self._administration.describe(
                [arguments.to]
            ):
                raise UnknownTopic(arguments.to) from None
            raise self._unknown(arguments.topic, arguments.queue) from None

    def delete(self, topic: str, name: str) -> None:
        """Delete a queue; refused for a share group with members. See ``Queues.delete``."""
        self._check_open()
        self._groups.forget(name, topic)

    def _port(self) -> AdminPort:
        self._check_open()
        # Asked for every time, as a restarted server may have another port.
        return admin_port(self._administration)

    def _unknown(self, topic: str, name: str) -> MainstemError:
        return (
            UnknownQueue(topic, name)
            if self._administration.describe([topic])
            else UnknownTopic(topic)
        )

    def close(self) -> None:
        """Close the connections to the server."""
        self._groups.close()

    def _lock_s(self, topic: str, name: str, settings: Mapping[str, str]) -> float:
        """Return the lock time of a queue in seconds: its own if set, else the group's."""
        if ACQUIRE in settings:
            with suppress(MainstemError):
                return self.show(topic, name).lock_s
        return int(settings.get(LOCK, _LOCK_MS)) / 1000

    def _ready(self, topic: str, name: str) -> int | None:
        """Return how many unsettled events no consumer has; None if unknown."""
        try:
            return self.show(topic, name).ready
        except MainstemError:
            return None

    def _has_begun(self, topic: str, name: str, partitions: range) -> bool:
        found = self._groups.standings(name, topic, partitions) or {}
        return all(number in found and found[number].start >= 0 for number in partitions)

    def _unsettled(self, topic: str, name: str, partitions: range) -> int | None:
        """Return how many events are not settled; None if unknown."""
        found = self._groups.standings(name, topic, partitions)
        if found is None:
            return None
        count = sum(max(0, each.lag) for each in found.values())
        open_ones = [
            number for number in partitions if number not in found or found[number].lag < 0
        ]
        if open_ones:
            # Kafka reports no state of a partition before the first settlement; an empty one has no
            # events.
            bounds = self._administration.bounds([(topic, number) for number in open_ones])
            if any(each.tail > each.start for each in bounds.values()):
                return None
        return count


def _settings(options: QueueOptions) -> dict[str, str]:
    """Return the options as share group configs; raises Unsupported for those that have none."""
    start, order, max_deliveries = options.start, options.order, options.max_deliveries
    check_start(start)
    if start not in ("earliest", "latest"):
        raise Unsupported(
            "over the network a queue begins at the earliest or the latest event; to put it "
            "elsewhere, use alterShareGroupOffsets of a Kafka admin client before it has members, "
            "or make it with mainstem.open"
        )
    if order not in (None, "none"):
        raise Unsupported(
            f"over the network a queue cannot be set to order={order!r:.100}; make it with "
            "mainstem.open where no server runs on the directory, and it keeps its order here"
        )
    # As in a queue of ``mainstem.open``, deliver only events of committed transactions.
    wanted = {START: str(start), ISOLATION: "read_committed"}
    if max_deliveries is not None:
        if not isinstance(max_deliveries, int) or max_deliveries < 0:
            raise InvalidSetting(
                f"max_deliveries must be a number from 2 on, or 0 to try for ever, "
                f"not {max_deliveries!r:.300}"
            )
        wanted[DELIVERIES] = str(int(max_deliveries))
    if options.lock_s is not None:
        wanted[LOCK] = str(milliseconds(options.lock_s, "lock_s"))
    return wanted

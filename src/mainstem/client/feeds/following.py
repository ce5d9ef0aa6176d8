"""Receives a topic that a server publishes live, and requests missed events from its log.

How this works: a live event comes with the offset after which it follows. If that is beyond the
next offset to return, events are missing: they are requested from the server's log, and live events
are kept meanwhile. If nothing has arrived for a moment, the log is asked for what follows, so that
events are received even while the live connection is broken. A ``Link`` has the connections, of
ZeroMQ or nng.
"""

import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypedDict

import msgspec

from mainstem.client.feeds.polled import PolledFeed
from mainstem.core.errors import MainstemError, MessagesLost, Unreachable
from mainstem.core.event import Event
from mainstem.heads.brokerless.codec import (
    Answer,
    BoundsOf,
    Events,
    Published,
    Refusal,
    Replay,
    Request,
    TopicBounds,
)

_FIRST_CHECK_S = 0.05

Start = Literal["earliest", "latest"] | Mapping[int, int]


class Link(Protocol):
    """The connections to a server: one for requests, one for live events."""

    @property
    def address(self) -> str:
        """The server's address for requests."""

    def ask(self, request: Request) -> None:
        """Send a request; if the server is not reachable, it is lost and must be repeated."""

    def subscribe(self, topic: str, port: int) -> None:
        """Receive a topic's live events, from another port of the server's host."""

    def receive(self, wait_s: float) -> Iterator[Answer | Published]:
        """Yield what has arrived, after waiting at most ``wait_s``; raises Unauthenticated."""

    def close(self) -> None:
        """Close the connections."""


class FeedPatience(msgspec.Struct, frozen=True, kw_only=True):
    """How long a feed waits before it sends requests, and how many events it keeps meanwhile."""

    answer_s: float = 1.0
    """How long an answer may take before the request is repeated."""
    check_s: float = 1.0
    """How long nothing may arrive before the log is asked for what follows."""
    max_held: int = 100_000
    """Live events of a partition that are held while earlier ones are requested."""


class TopicReport(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of what a feed has received and requested."""

    delivered: int
    recovered: int
    """Events that came as answers to requests."""
    duplicates: int
    """Live events that had been delivered before."""
    gaps: int
    """Times that live events were missing."""
    requests: int
    lost: int
    """Offsets that retention deleted, and that ``skip`` gave up."""


class FeedRefused(MainstemError):
    """Raised if the server refuses a request; ``failure_name`` is the class of failure."""

    def __init__(self, topic: str, refusal: Refusal) -> None:
        super().__init__(f"the server refuses topic {topic!r:.100}: {refusal.text}")
        self.failure_name = refusal.failure


class FeedArguments(TypedDict, total=False):
    """The options of a feed of a topic."""

    start: Start
    """Where: a mapping has the next offset of each partition, as ``positions`` returns it."""
    patience: FeedPatience | None
    timeout_s: float
    """Seconds (10 by default) after which a server that does not answer is Unreachable."""


@dataclass(slots=True)
class _Partition:
    number: int
    next: int
    """The offset of the next event to deliver."""
    check_s: float = _FIRST_CHECK_S
    """How long nothing may arrive,"""
    due_s: float = 0.0
    """and when that is over, or the next request is due."""
    asked: int | None = None
    """The offset of a request that was not answered yet."""
    is_behind: bool = True
    held: deque[Published] = field(default_factory=deque)


class TopicFeed(PolledFeed[Event]):
    """A receiver of a topic; for one thread at a time."""

    def __init__(
        self,
        link: Link,
        topic: str,
        *,
        start: Start = "earliest",
        patience: FeedPatience | None = None,
        timeout_s: float = 10.0,
    ) -> None:
        """Ask the server for the topic's offsets, and subscribe to its live events.

        ``start`` is where to begin; a mapping has the next offset of each partition, as
        ``positions`` returns it. Raises Unreachable if the server does not answer within
        ``timeout_s``, and FeedRefused.
        """
        self._topic, self._link = topic, link
        self._patience = patience or FeedPatience()
        self._partitions: dict[int, _Partition] = {}
        self._ready = deque[Event]()
        self._delivered = self._recovered = self._duplicates = self._gaps = 0
        self._requests = self._lost = 0
        self._missing: tuple[_Partition, int] | None = None
        try:
            self._begin(self._bounds(timeout_s), start)
        except BaseException:
            self.close()
            raise

    @property
    def positions(self) -> dict[int, int]:
        """The next offset of each partition: the ``start`` for a feed that continues this one."""
        found = {number: each.next for number, each in self._partitions.items()}
        for event in self._ready:
            found[event.partition] = min(found[event.partition], event.offset)
        return found

    def poll(self, timeout_s: float | None = None) -> Event | None:
        """Return the next event; None after ``timeout_s`` (without it, wait for one).

        Each partition's events come in order. Raises MessagesLost if retention has deleted the next
        ones (``skip`` continues after them), and FeedRefused.
        """
        if not self._ready:
            self._receive_until(None if timeout_s is None else time.monotonic() + timeout_s)
        if not self._ready:
            return None
        self._delivered += 1
        return self._ready.popleft()

    def skip(self) -> tuple[int, int, int] | None:
        """Continue after deleted events; return partition, first and last of their offsets.

        Returns None if no events were lost.
        """
        if self._missing is None:
            return None
        partition, first = self._missing
        self._missing = None
        skipped = partition.number, partition.next, first - 1
        self._lost += first - partition.next
        partition.next = first
        return skipped

    def report(self) -> TopicReport:
        """Return counts of what was received and requested so far."""
        return TopicReport(
            delivered=self._delivered,
            recovered=self._recovered,
            duplicates=self._duplicates,
            gaps=self._gaps,
            requests=self._requests,
            lost=self._lost,
        )

    def close(self) -> None:
        """Close the connections."""
        self._link.close()

    # Beginning

    def _bounds(self, timeout_s: float) -> TopicBounds:
        end_s = time.monotonic() + timeout_s
        while (left_s := end_s - time.monotonic()) > 0:
            self._link.ask(BoundsOf(self._topic))
            for found in self._link.receive(min(left_s, self._patience.answer_s / 10)):
                if isinstance(found, Refusal):
                    raise FeedRefused(self._topic, found)
                if isinstance(found, TopicBounds):
                    return found
        raise Unreachable(self._link.address, f"no answer within {timeout_s:g} s")

    def _begin(self, found: TopicBounds, start: Start) -> None:
        for number, (first, tail) in enumerate(found.partitions):
            if isinstance(start, Mapping):
                at = start.get(number, first)
            else:
                at = first if start == "earliest" else tail
            self._partitions[number] = _Partition(number, at)
        self._link.subscribe(self._topic, found.port)

    # Receiving

    def _receive_until(self, end_s: float | None) -> None:
        while not self._ready:
            now_s = time.monotonic()
            if end_s is not None and now_s >= end_s:
                return
            wait_s = self._request(now_s)
            if end_s is not None:
                wait_s = min(wait_s, end_s - now_s)
            for found in self._link.receive(wait_s):
                self._take(found)

    def _request(self, now_s: float) -> float:
        """Send the requests that are due; return for how many seconds no other one will be."""
        for each in self._partitions.values():
            is_late = now_s >= each.due_s
            if is_late or (each.is_behind and each.asked is None):
                each.asked = each.next
                each.due_s = now_s + self._patience.answer_s
                self._requests += 1
                self._link.ask(Replay(self._topic, each.number, each.next))
        return max(0.0, min(each.due_s for each in self._partitions.values()) - now_s)

    def _take(self, found: Answer | Published) -> None:
        if isinstance(found, Published):
            self._receive_live(found)
        elif isinstance(found, Refusal):
            raise FeedRefused(self._topic, found)
        elif isinstance(found, Events):
            self._take_events(self._partitions[found.partition], found)

    def _take_events(self, partition: _Partition, found: Events) -> None:
        if partition.asked is None or not partition.asked <= found.first <= partition.next:
            if partition.asked is None or found.first < partition.asked:
                # An earlier answer to a request that was repeated.
                return
            self._missing = partition, found.first
            partition.asked = None
            place = f"{self._topic}[{partition.number}]"
            raise MessagesLost(place, partition.next, found.first - 1, 1)
        partition.asked = None
        for each in found.events:
            if each.event.offset >= partition.next:
                self._recovered += 1
                self._ready.append(each.event)
        partition.next = max(partition.next, found.next)
        partition.is_behind = found.next < found.tail
        if found.events:
            partition.check_s = _FIRST_CHECK_S
        else:
            partition.check_s = min(self._patience.check_s, 2 * partition.check_s)
        partition.due_s = time.monotonic() + partition.check_s
        while partition.held and not partition.is_behind:
            self._take_live(partition, partition.held.popleft())

    def _receive_live(self, found: Published) -> None:
        number = found.event.partition
        partition = self._partitions.get(number)
        if partition is None:
            # It was added since.
            partition = self._partitions[number] = _Partition(number, 0)
        if not partition.is_behind:
            self._take_live(partition, found)
        elif len(partition.held) < self._patience.max_held:
            partition.held.append(found)

    def _take_live(self, partition: _Partition, found: Published) -> None:
        offset = found.event.offset
        if offset < partition.next:
            self._duplicates += 1
        elif found.after <= partition.next:
            self._ready.append(found.event)
            partition.next = offset + 1
            partition.due_s = time.monotonic() + self._patience.check_s
            partition.asked = None
        else:
            self._gaps += 1
            partition.held.appendleft(found)
            partition.is_behind = True
            partition.asked = None

"""Follows a topic through the server's ZeroMQ sockets, each event once.

How this works: SUB brings the live events, each with the offset after which it follows. Where that
is beyond the next offset to deliver, events are missing: they are requested from the log, through a
DEALER socket, and live events are held meanwhile. When nothing has come for a moment, the log is
asked for what follows, so that nothing stays unnoticed while the live stream is broken.
"""

import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Self

import msgspec
import zmq

from mainstem.core.errors import (
    InvalidSetting,
    MainstemError,
    MessagesLost,
    Unauthenticated,
    Unreachable,
)
from mainstem.core.event import Event
from mainstem.heads.zmq.codec import (
    BoundsOf,
    Events,
    Published,
    Refusal,
    Replay,
    TopicBounds,
    decode_answer,
    decode_event,
    encode_request,
)

if TYPE_CHECKING:
    from mainstem.heads.zmq.codec import Answer, Request

_MESSAGES_AT_ONCE = 1_000
_UNSENT_REQUESTS = 10
_FIRST_CHECK_S = 0.05

Start = Literal["earliest", "latest"] | Mapping[int, int]


class ZmqLogin(msgspec.Struct, frozen=True, kw_only=True):
    """How to log in: user and password for PLAIN, keys for CURVE (Z85, as zmq.auth writes them)."""

    user: str = ""
    password: str = ""
    server_key: bytes = b""
    public_key: bytes = b""
    secret_key: bytes = b""

    def __repr__(self) -> str:
        """Return a text without secrets."""
        return f"ZmqLogin(user={self.user!r})"


class ZmqPatience(msgspec.Struct, frozen=True, kw_only=True):
    """How a feed waits."""

    answer_s: float = 1.0
    """How long an answer may take before the request is repeated."""
    check_s: float = 1.0
    """How long nothing may arrive before the log is asked for what follows."""
    max_held: int = 100_000
    """Live events of a partition that are held while earlier ones are requested."""


class ZmqReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a feed has received, and what it had to ask for."""

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
    """The server refused a request; ``failure_name`` is the class of the failure."""

    def __init__(self, topic: str, refusal: Refusal) -> None:
        super().__init__(f"the server refuses topic {topic!r:.100}: {refusal.text}")
        self.failure_name = refusal.failure


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


class ZmqFeed:
    """A subscriber of a topic; for one thread at a time."""

    def __init__(
        self,
        address: str,
        topic: str,
        *,
        start: Start = "earliest",
        login: ZmqLogin | None = None,
        patience: ZmqPatience | None = None,
        timeout_s: float = 10.0,
    ) -> None:
        """Connect to the server's socket for replays, such as ``tcp://127.0.0.1:5556``.

        ``start``: where to begin; a mapping has the next offset of each partition, as ``positions``
        returns it. Raises Unreachable after ``timeout_s``, and FeedRefused.
        """
        self._topic, self._address = topic, address
        self._patience = patience or ZmqPatience()
        self._partitions: dict[int, _Partition] = {}
        self._ready = deque[Event]()
        self._delivered = self._recovered = self._duplicates = self._gaps = 0
        self._requests = self._lost = 0
        self._missing: tuple[_Partition, int] | None = None
        self._context = zmq.Context[zmq.Socket[bytes]]()
        self._login = login or ZmqLogin()
        self._log = self._open(zmq.DEALER)
        # Requests do not wait for a server that is away; they are repeated.
        self._log.setsockopt(zmq.IMMEDIATE, 1)
        self._log.setsockopt(zmq.SNDHWM, _UNSENT_REQUESTS)
        self._live = self._open(zmq.SUB)
        self._live.setsockopt(zmq.RCVHWM, self._patience.max_held)
        self._poller = zmq.Poller()
        for each in (self._log, self._live):
            self._poller.register(each, zmq.POLLIN)
        try:
            self._log.connect(_checked(address))
            self._begin(self._bounds(timeout_s), start)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Event]:
        while (event := self.poll()) is not None:
            yield event

    @property
    def positions(self) -> dict[int, int]:
        """The next offset of each partition: where another feed goes on."""
        found = {number: each.next for number, each in self._partitions.items()}
        for event in self._ready:
            found[event.partition] = min(found[event.partition], event.offset)
        return found

    def poll(self, timeout_s: float | None = None) -> Event | None:
        """Return the next event, None when the time is up.

        Each partition's events come in order. Raises MessagesLost if retention has deleted the next
        ones, and FeedRefused.
        """
        if not self._ready:
            self._receive_until(None if timeout_s is None else time.monotonic() + timeout_s)
        if not self._ready:
            return None
        self._delivered += 1
        return self._ready.popleft()

    def skip(self) -> tuple[int, int, int] | None:
        """Go on behind deleted events; return the partition, the first and the last offset."""
        if self._missing is None:
            return None
        partition, first = self._missing
        self._missing = None
        skipped = partition.number, partition.next, first - 1
        self._lost += first - partition.next
        partition.next = first
        return skipped

    def report(self) -> ZmqReport:
        """Return what was received and requested so far."""
        return ZmqReport(
            delivered=self._delivered,
            recovered=self._recovered,
            duplicates=self._duplicates,
            gaps=self._gaps,
            requests=self._requests,
            lost=self._lost,
        )

    def close(self) -> None:
        """Close the connections."""
        self._context.destroy(0)

    # Beginning

    def _open(self, kind: int) -> "zmq.Socket[bytes]":
        found, login = self._context.socket(kind), self._login
        found.setsockopt(zmq.LINGER, 0)
        found.setsockopt(zmq.RECONNECT_IVL_MAX, 1_000)
        if login.user:
            found.setsockopt(zmq.PLAIN_USERNAME, login.user.encode())
            found.setsockopt(zmq.PLAIN_PASSWORD, login.password.encode())
        if login.server_key:
            found.setsockopt(zmq.CURVE_SERVERKEY, login.server_key)
            found.setsockopt(zmq.CURVE_PUBLICKEY, login.public_key)
            found.setsockopt(zmq.CURVE_SECRETKEY, login.secret_key)
        return found

    def _bounds(self, timeout_s: float) -> TopicBounds:
        refused = self._log.get_monitor_socket(zmq.Event.HANDSHAKE_FAILED_AUTH)
        end_s = time.monotonic() + timeout_s
        try:
            while (left_s := end_s - time.monotonic()) > 0:
                if refused.poll(0):
                    raise Unauthenticated(self._address, "the server refuses the login")
                self._ask(BoundsOf(self._topic))
                if not self._log.poll(int(1000 * min(left_s, self._patience.answer_s / 10)) + 1):
                    continue
                found = self._answered(self._log.recv_multipart())
                if isinstance(found, TopicBounds):
                    return found
        finally:
            self._log.disable_monitor()
            refused.close(0)
        raise Unreachable(self._address, f"no answer within {timeout_s:g} s")

    def _begin(self, found: TopicBounds, start: Start) -> None:
        host, _, _ = self._address.rpartition(":")
        for number, (first, tail) in enumerate(found.partitions):
            if isinstance(start, Mapping):
                at = start.get(number, first)
            else:
                at = first if start == "earliest" else tail
            self._partitions[number] = _Partition(number, at)
        self._live.setsockopt(zmq.SUBSCRIBE, f"{self._topic}/".encode())
        self._live.connect(f"{host}:{found.port}")

    # Receiving

    def _receive_until(self, end_s: float | None) -> None:
        while not self._ready:
            now_s = time.monotonic()
            if end_s is not None and now_s >= end_s:
                return
            wait_s = self._request(now_s)
            if end_s is not None:
                wait_s = min(wait_s, end_s - now_s)
            # One more, as poll takes whole milliseconds.
            for found, _ in self._poller.poll(int(wait_s * 1000) + 1):
                if found is self._log:
                    self._read_answers()
                else:
                    self._read_live()

    def _request(self, now_s: float) -> float:
        """Send the requests that are due; return how long none will be."""
        for each in self._partitions.values():
            is_late = now_s >= each.due_s
            if is_late or (each.is_behind and each.asked is None):
                each.asked = each.next
                each.due_s = now_s + self._patience.answer_s
                self._requests += 1
                self._ask(Replay(self._topic, each.number, each.next))
        return max(0.0, min(each.due_s for each in self._partitions.values()) - now_s)

    def _ask(self, request: "Request") -> None:
        try:
            self._log.send_multipart(encode_request(request), zmq.DONTWAIT)
        except zmq.Again:
            # The server is away: asked again later.
            return

    def _answered(self, frames: list[bytes]) -> "Answer":
        found = decode_answer(frames)
        if isinstance(found, Refusal):
            raise FeedRefused(self._topic, found)
        return found

    def _read_answers(self) -> None:
        while True:
            try:
                frames = self._log.recv_multipart(zmq.DONTWAIT)
            except zmq.Again:
                return
            found = self._answered(frames)
            if isinstance(found, Events):
                self._take_events(self._partitions[found.partition], found)

    def _take_events(self, partition: _Partition, found: Events) -> None:
        if partition.asked is None or not partition.asked <= found.first <= partition.next:
            if partition.asked is None or found.first < partition.asked:
                # The answer to a request that was repeated.
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

    def _read_live(self) -> None:
        receive = self._live.recv_multipart
        try:
            for _ in range(_MESSAGES_AT_ONCE):
                frames = receive(zmq.DONTWAIT)
                found = decode_event(frames)
                number = found.event.partition
                partition = self._partitions.get(number)
                if partition is None:
                    # It was added since.
                    partition = self._partitions[number] = _Partition(number, 0)
                if not partition.is_behind:
                    self._take_live(partition, found)
                elif len(partition.held) < self._patience.max_held:
                    partition.held.append(found)
        except zmq.Again:
            return

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


def _checked(address: str) -> str:
    if not address.startswith("tcp://"):
        raise InvalidSetting(
            f"{address!r:.60}: ZmqFeed needs the address of the server's socket for replays, such "
            "as tcp://127.0.0.1:5556; pgm:// and epgm:// are not supported, use MulticastFeed"
        )
    return address

"""What every head is given: the broker, who may do what, the clock, the loop, when to stop.

How this works: a head is called by its sockets and by what it waits for, all in the thread of the
event loop. Others (the log's commit thread, programs that embed a node) reach it by ``on_loop``.
Whatever waits for something other than the disk is parked (``park``), or names a call that ends
the wait (``wait_with``), so that a server that stops answers everybody.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Protocol

from mainstem.auth import Auth, Peer
from mainstem.core.event import Position
from mainstem.core.topic_settings import TopicSettings
from mainstem.heads.dispatcher import Call, Dispatcher
from mainstem.heads.listen import Address
from mainstem.heads.parked import Over, Parked
from mainstem.heads.settlements import Settlements

if TYPE_CHECKING:
    from mainstem.broker.door import Door, HeldPublish

DEFAULTS = TopicSettings()


class Operations(Protocol):
    """What the node tells about itself to whoever operates it."""

    def not_ready(self) -> str | None:
        """Return why requests should go elsewhere, None if they may come."""

    def metrics(self) -> str:
        """Return all metrics, in the text format of Prometheus."""

    def queues(self) -> bytes:
        """Return how every queue stands, as JSON."""

    def peek(self, topic: str, name: str, limit: int, after: Position | None) -> bytes:
        """Return events of a queue as JSON."""

    def connections(self) -> bytes:
        """Return who is connected to which head, as JSON."""


class HeadContext:
    """Shared by all heads of a node; used in the thread of the event loop unless said otherwise."""

    broker: "Door"
    """Absent until the log is open; only heads that start first see that."""

    def __init__(
        self,
        now_ms: Callable[[], int],
        operations: Operations,
        *,
        defaults: TopicSettings = DEFAULTS,
        auto_create: bool = True,
        run_id: str = "",
        broker: "Door | None" = None,
        auth: Auth | None = None,
    ) -> None:
        if broker is not None:
            self.broker = broker
        self.auth = auth or Auth()
        """Tells who a peer is, and what it may do."""
        self.now_ms = now_ms
        self.operations = operations
        self.defaults = defaults
        """The settings of topics created without any."""
        self.auto_create = auto_create
        """Whether a topic is created when a client names it."""
        self.run_id = run_id
        """Tells this run of the server from all others."""
        self.addresses: dict[str, Address] = {}
        """Where each head listens, by its name."""
        self.draining = False
        """Whether the server stops: what waits is answered, and what is new is to come again."""
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self.parked: set[Parked] = set()
        """Requests that wait; each adds and removes itself."""
        self._waits: set[Callable[[], None]] = set()
        self._calls: deque[Callable[[], None]] = deque()
        self._woken = False
        self.dispatcher = Dispatcher(
            self._watch_queue,
            soon=self.on_loop,
            later=self._after_others,
            clock=self._loop.time,
        )
        """Hands events of queues to whoever consumes them, in whatever head."""
        self.settlements = Settlements(self.on_loop)
        """Acknowledgements of all heads that nobody waits for."""

    def door(self, peer: Peer) -> "Door":
        """Return the broker as a peer sees it: what it may not do raises Denied.

        The broker itself, for whatever the head does on its own, is ``broker``.
        """
        if self.auth.allows_all:
            return self.broker
        from mainstem.broker.door import guarded  # noqa: PLC0415 - the admin head starts without

        return guarded(self.broker, self.auth, peer)

    def drain(self) -> None:
        """Answer everybody who waits for something other than the disk."""
        self.draining = True
        self.dispatcher.stop()
        for parked in list(self.parked):
            parked.drain()
        for end in list(self._waits):
            end()

    def wait_with(self, end: Callable[[], None]) -> Callable[[], None]:
        """Name a call that ends a wait when the server stops; returns how to take it back."""
        self._waits.add(end)
        return lambda: self._waits.discard(end)

    def park(
        self, peer: set[Call], wait_ms: int, over: Callable[[Over], None], look: Call | None = None
    ) -> Parked:
        """Let a request wait: it looks when it is woken, until it ends that or it is over."""
        return Parked(self, peer, wait_ms, over, look or _nothing)

    def when_room(
        self, peer: set[Call], held: "HeldPublish", again: Callable[["HeldPublish"], None]
    ) -> None:
        """Publish again once a full topic has room, and for the last time when the wait is over."""

        def retry(held: "HeldPublish") -> None:
            parked.end()
            again(held)

        last = held._replace(until_ms=0)
        wait_ms = max(0, held.until_ms - self.now_ms())
        parked = self.park(peer, wait_ms, lambda _: retry(last), lambda: retry(held))
        held.room.then(lambda _: parked.wake())

    def after(self, delay_ms: int, call: Callable[[], None]) -> asyncio.TimerHandle:
        """Make a call after a while, unless it is cancelled."""
        return self._loop.call_later(delay_ms / 1000, call)

    def on_loop(self, call: Callable[[], None]) -> None:
        """Make a call in the loop's thread soon; many calls from other threads share one wake."""
        self._calls.append(call)
        if not self._woken:
            self._woken = True
            if threading.get_ident() == self._thread:
                # Awake as it is: to wake it would cost two calls of the kernel.
                self._loop.call_soon(self._make_calls)
                return
            try:
                self._loop.call_soon_threadsafe(self._make_calls)
            except RuntimeError:
                # The loop is closed, and with it everybody who waits.
                self._calls.clear()

    def _watch_queue(
        self, topic: str, name: str, wake: Call, partitions: Collection[int] | None
    ) -> Call:
        return self.broker.queues.watch(topic, name, wake, partitions)

    def _after_others(self, call: Callable[[], None]) -> None:
        self._loop.call_soon(call)

    def _make_calls(self) -> None:
        self._woken = False
        try:
            while self._calls:
                self._calls.popleft()()
        finally:
            # One that fails is reported by the loop, and the others are made all the same.
            if self._calls and not self._woken:
                self.on_loop(_nothing)


def _nothing() -> None:
    """Do nothing; as a call on the loop it only wakes it."""

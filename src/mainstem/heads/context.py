"""A head's access to the node: the broker, authorization, clock, event loop, and draining.

How this works: the event loop calls a head for sockets and timers. Other threads (the log's commit
thread, programs that embed a node) use ``on_loop``. A request that waits for anything but the disk
is parked (``park``), or registers a callback that ends its wait (``wait_with``), so that a stopping
server can answer all peers.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Collection
from concurrent import futures
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from mainstem.auth import Auth, Peer
from mainstem.core.errors import Failure
from mainstem.core.event import Position
from mainstem.core.topic_settings import TopicSettings
from mainstem.heads.addresses import Address
from mainstem.heads.admin_operations import Administration, OperationFailed
from mainstem.heads.dispatcher import Call, Dispatcher
from mainstem.heads.parked import Over, Parked
from mainstem.heads.settlements import Settlements

if TYPE_CHECKING:
    from mainstem.broker.door import Door, HeldPublish

DEFAULTS = TopicSettings()
LOOP_S = 10.0
"""How long another thread waits at most for its call in the event loop."""
T = TypeVar("T")


class Operations(Protocol):
    """What the node reports to the admin port."""

    def not_ready(self) -> str | None:
        """Return why the node is not ready to serve, None if it is ready."""

    def metrics(self) -> str:
        """Return the metrics of the node and all heads, in the text format of Prometheus."""

    def queues(self) -> bytes:
        """Return the state of every queue as JSON."""

    def peek(self, topic: str, name: str, limit: int, after: Position | None) -> bytes:
        """Return up to ``limit`` waiting events of a queue after a position, as JSON."""

    def connections(self) -> bytes:
        """Return the connected peers of every head, as JSON."""


class HeadContext:
    """What all heads of a node share; only the event loop may call it, unless stated otherwise."""

    broker: "Door"
    """The broker. Not set before the log is open, so heads with ``starts_first`` start without it.
    """

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
        directory: Path | None = None,
    ) -> None:
        if broker is not None:
            self.broker = broker
        self.auth = auth or Auth()
        """Authenticates and authorizes peers."""
        self.now_ms = now_ms
        self.operations = operations
        self.administration = Administration()
        """The operations that heads and the node offer on the admin port."""
        self.defaults = defaults
        """The settings of topics that are created without settings."""
        self.auto_create = auto_create
        """Whether a topic is created when a client names it."""
        self.run_id = run_id
        """Random id of this run of the server; another run has another id."""
        self.directory = directory
        """The data directory, for files that must not be in the log, such as secrets.

        None if the log is in memory.
        """
        self.addresses: dict[str, Address] = {}
        """The address at which each head listens, by the head's name."""
        self.draining = False
        """Whether the server is stopping: waiting requests are answered early, new ones refused."""
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self.parked: set[Parked] = set()
        """Requests that wait; each ``Parked`` adds itself, and removes itself at its end."""
        self._waits: set[Callable[[], None]] = set()
        self._calls: deque[Callable[[], None]] = deque()
        self._woken = False
        self.dispatcher = Dispatcher(
            self._watch_queue,
            soon=self.on_loop,
            later=self._after_others,
            clock=self._loop.time,
        )
        """Distributes the events of queues among their consumers, for all heads."""
        self.settlements = Settlements(self.on_loop, self.after)
        """Collects acknowledgements that need no response, for all heads."""
        self.dispatcher.dry = self.settlements.flush_soon

    def door(self, peer: Peer) -> "Door":
        """Return the broker's interface with a peer's permissions: other operations raise Denied.

        For its own operations, a head uses ``broker``.
        """
        if self.auth.allows_all:
            return self.broker
        from mainstem.broker.door import guarded  # noqa: PLC0415 - the admin head starts without

        return guarded(self.broker, self.auth, peer)

    def drain(self) -> None:
        """End all waits, except those for the disk, because the server stops."""
        self.draining = True
        self.settlements.wait_no_more()
        self.dispatcher.stop()
        for parked in list(self.parked):
            parked.drain()
        for end in list(self._waits):
            end()

    def wait_with(self, end: Callable[[], None]) -> Callable[[], None]:
        """Register a callback for the server's stop; return a function that unregisters it."""
        self._waits.add(end)
        return lambda: self._waits.discard(end)

    def park(
        self, peer: set[Call], wait_ms: int, over: Callable[[Over], None], look: Call | None = None
    ) -> Parked:
        """Make a request wait, as ``Parked`` describes; without ``look``, only for the end."""
        return Parked(self, peer, wait_ms, over, look or _nothing)

    def when_room(
        self, peer: set[Call], held: "HeldPublish", again: Callable[["HeldPublish"], None]
    ) -> None:
        """Call ``again`` to retry a held publish, when there is room or for the last time.

        The last time is when its time limit is over, the peer disconnects or the server stops.
        """

        def retry(held: "HeldPublish") -> None:
            parked.end()
            again(held)

        last = held._replace(until_ms=0)
        wait_ms = max(0, held.until_ms - self.now_ms())
        parked = self.park(peer, wait_ms, lambda _: retry(last), lambda: retry(held))
        held.room.then(lambda _: parked.wake())

    def after(self, delay_ms: int, call: Callable[[], None]) -> asyncio.TimerHandle:
        """Call ``call`` after a delay; the returned handle can cancel it."""
        return self._loop.call_later(delay_ms / 1000, call)

    def on_loop(self, call: Callable[[], None]) -> None:
        """Call ``call`` soon in the event loop; may be called from any thread.

        Many calls from other threads share one wake-up of the loop.
        """
        self._calls.append(call)
        if not self._woken:
            self._woken = True
            if threading.get_ident() == self._thread:
                # The loop is running; waking it would cost two system calls.
                self._loop.call_soon(self._make_calls)
                return
            try:
                self._loop.call_soon_threadsafe(self._make_calls)
            except RuntimeError:
                # The loop is closed, so all waiters are gone.
                self._calls.clear()

    def from_thread(self, call: Callable[[], T]) -> T:
        """Run ``call`` in the event loop and return its result; called from other threads."""
        called = futures.Future[T]()

        def settle() -> None:
            try:
                called.set_result(call())
            # Any exception is raised in the waiting thread.
            except Exception as error:
                called.set_exception(error)

        self.on_loop(settle)
        try:
            return called.result(LOOP_S)
        except futures.TimeoutError:
            why = f"the server did not get to it within {LOOP_S:g} s; look whether it was done"
            raise OperationFailed(Failure.UNAVAILABLE, why) from None

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
            # The loop reports a call that raises; the remaining ones are still called.
            if self._calls and not self._woken:
                self.on_loop(_nothing)


def _nothing() -> None:
    """Do nothing; scheduled only to wake the loop."""

"""What every request is answered from: the broker, who we are, time, and the event loop."""

import asyncio
import logging
import secrets
import threading
from collections import deque
from collections.abc import Callable

import msgspec

from mainstem.broker.broker import Broker
from mainstem.core.errors import MainstemError
from mainstem.core.policies import TopicSettings
from mainstem.heads.conversation import Later
from mainstem.heads.kafka.adapter.fetch_sessions import FetchSessions
from mainstem.heads.kafka.adapter.share_sessions import ShareSessions
from mainstem.heads.kafka.codec import RequestHeader
from mainstem.heads.kafka.counts import Counts
from mainstem.heads.kafka.fields import Wire
from mainstem.heads.kafka.settings import KafkaSettings

_logger = logging.getLogger("mainstem.heads.kafka")

_STOOD_STILL_S = 1.0
"""So late, a deadline is no longer only late because there is much to do."""
_LISTEN_S = 1.0

Reply = Callable[[Wire | None], None]
"""Answers a request, once, at once or later, from the loop's thread; None if none is wanted."""


class Service:
    """Shared by all conversations of the head."""

    def __init__(
        self,
        broker: Broker,
        now_ms: Callable[[], int],
        settings: KafkaSettings,
        defaults: TopicSettings,
        cluster_id: str,
    ) -> None:
        self.broker = broker
        self.now_ms = now_ms
        self.settings = settings
        self.defaults = defaults
        """The settings of topics created without any."""
        self.cluster_id = cluster_id
        self.counts = Counts()
        self.host, self.port = "127.0.0.1", 0
        """Where clients are told to connect; known once the head listens."""
        self.admin: str | None = None
        """Where the server is looked after, if anywhere."""
        self.run_id = ""
        """Tells this run of the server from all others."""
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self.fetch_sessions = FetchSessions(
            settings.max_fetch_sessions,
            settings.max_session_partitions,
            monotonic_ms=lambda: int(self._loop.time() * 1000),
            # Not to be guessed: nobody shall speak in another's session.
            new_id=lambda: secrets.randbelow(2**31 - 1) + 1,
        )
        self.share_sessions = ShareSessions(
            broker.subscriptions, self._topic_name, lambda: self.draining
        )
        self.draining = False
        """Whether the server stops: what waits is answered, and what is new is to come again."""
        self._patient: set[Callable[[], None]] = set()
        self._calls: deque[Callable[[], None]] = deque()
        self._woken = False
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        """When the timer is due; uvloop does not tell of one that is due at once."""
        self._listening_until = 0.0
        """Until when nobody is taken for silent: what was said while we stood still is read."""

    def _topic_name(self, topic_id: bytes) -> str | None:
        found = self.broker.topic_by_id(topic_id.hex())
        return None if found is None else found.name

    def drain(self) -> None:
        """Answer everybody who waits for something other than the disk."""
        self.draining = True
        for hurry in list(self._patient):
            hurry()

    def wait_with(self, hurry: Callable[[], None]) -> Callable[[], None]:
        """Name a call that ends a wait when the server stops; returns how to take it back."""
        self._patient.add(hurry)
        return lambda: self._patient.discard(hurry)

    def look_at_deadlines(self) -> None:
        """See to it that the broker is looked at when the next of its deadlines is due."""
        wait_ms = self.broker.wait_ms()
        if wait_ms is None:
            return
        due = max(self._loop.time() + wait_ms / 1000, self._listening_until)
        if self._timer is not None:
            if self._due <= due:
                return
            self._timer.cancel()
        self._due = due
        self._timer = self._loop.call_at(due, self._look)

    def _look(self) -> None:
        """Do what is due; after a pause of the whole process only once its sockets were read."""
        now = self._loop.time()
        if now - self._due > _STOOD_STILL_S and self._due > self._listening_until:
            self._timer = None
            self._listening_until = now + _LISTEN_S
            self.look_at_deadlines()
        else:
            self.catch_up()

    def catch_up(self) -> None:
        """Do what is due by now, and look again when the next deadline is."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.broker.tick()
        self.look_at_deadlines()

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

    def after(self, delay_ms: int, call: Callable[[], None]) -> asyncio.TimerHandle:
        """Make a call after a while, unless it is cancelled."""
        return self._loop.call_later(delay_ms / 1000, call)

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
    """Only wakes the loop."""


class Asked(msgspec.Struct, frozen=True):
    """A request with what its answer may depend on."""

    service: Service
    header: RequestHeader
    peer: str
    waiting: set[Callable[[], None]]
    """What to call when the peer has gone, so that nobody waits on its behalf."""
    later: Later
    """To read nothing more from the peer until this is answered, or to close instead."""


def log_refusal(asked: Asked, what: str, error: MainstemError) -> None:
    """Note why something was refused, for whoever looks after the server."""
    _logger.debug("%s from %s refused: %s", what, asked.peer, error)

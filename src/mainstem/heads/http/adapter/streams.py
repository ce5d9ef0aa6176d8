"""Shares broadcasts among the clients that follow topics, and ends the streams of slow clients."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from mainstem.heads.context import HeadContext
from mainstem.heads.http.adapter.broadcast import Broadcast, Call, Followed
from mainstem.heads.http.metrics import Counts

_logger = logging.getLogger("mainstem.heads.http")


class Sending:
    """The sends to one client; if one takes too long, the client's task is cancelled."""

    def __init__(self, peer: str) -> None:
        self.peer = peer
        self.since_s: float | None = None
        """When the send began that is in progress (loop time), None if none is."""
        self.is_slow = False
        """Whether the task was cancelled because the client does not read."""
        self.task = asyncio.current_task()


class Streams:
    """The broadcasts and slow clients of one head; only the event loop may call it."""

    def __init__(self, context: HeadContext, counts: Counts, slow_s: float) -> None:
        self._context, self._counts, self._slow_s = context, counts, slow_s
        self._broadcasts: dict[Followed, tuple[Broadcast, set[object]]] = {}
        self._open: set[Sending] = set()
        self._sweep: asyncio.TimerHandle | None = None
        self._unwatch: Call | None = None

    @contextmanager
    def following(self, followed: Followed) -> Iterator[Broadcast]:
        """Return the broadcast for these clients; it is closed when the last user's block ends."""
        broadcast, users = self._broadcasts.get(followed, (None, set()))
        if broadcast is None or broadcast.error is not None:
            broadcast, users = Broadcast(self._context, followed), set()
            self._broadcasts[followed] = broadcast, users
        user = object()
        users.add(user)
        self._watch_topics()
        try:
            yield broadcast
        finally:
            users.discard(user)
            if not users:
                broadcast.close()
                if self._broadcasts.get(followed, (None,))[0] is broadcast:
                    del self._broadcasts[followed]
                if not self._broadcasts and self._unwatch is not None:
                    self._unwatch()
                    self._unwatch = None

    @contextmanager
    def sending(self, peer: str) -> Iterator[Sending]:
        """Return the ``Sending`` of a client, which is checked for slow sends during the block."""
        sending = Sending(peer)
        self._open.add(sending)
        self._counts.streams += 1
        if self._sweep is None:
            self._look_for_slow_ones()
        try:
            yield sending
        finally:
            self._open.discard(sending)
            self._counts.streams -= 1

    def _look_for_slow_ones(self) -> None:
        loop = asyncio.get_running_loop()
        too_early = loop.time() - self._slow_s
        for each in self._open:
            if each.since_s is not None and each.since_s < too_early and not each.is_slow:
                each.is_slow = True
                self._counts.slow += 1
                _logger.warning(
                    "dropping the stream of %s: it has read nothing for %g s (http.slow_client_s)",
                    each.peer,
                    self._slow_s,
                )
                if each.task is not None:
                    each.task.cancel()
        self._sweep = (
            loop.call_later(min(1.0, self._slow_s / 4), self._look_for_slow_ones)
            if self._open
            else None
        )

    def _watch_topics(self) -> None:
        """Have broadcasts told when topics change, so that they follow new partitions."""
        if self._unwatch is None:
            on_loop: Callable[[Call], None] = self._context.on_loop
            self._unwatch = self._context.broker.watch_topics(lambda: on_loop(self._changed))

    def _changed(self) -> None:
        self._unwatch = None
        for broadcast, _ in list(self._broadcasts.values()):
            broadcast.look()
        if self._broadcasts:
            self._watch_topics()

"""Group commits of a server: in the event loop if it is idle and the disk fast, else in a thread.

How this works: an append that needs a sync begins a group, and schedules a callback in the loop, so
that appends of several clients that were read in one iteration share a commit. If the callback runs
at once, the loop is idle and syncs by itself: waking the committing thread, and being woken by it,
would take longer than the sync of a fast disk. If the loop was busy, or recent syncs were slow, the
thread commits, and the loop continues. Before it syncs, the loop runs what the same appends have
scheduled: queues deliver events before they are durable, so deliveries need not wait for the sync.
"""

import asyncio
import threading
from collections.abc import Callable
from time import perf_counter

from mainstem.log.commit.group_commit import Committer

AT_ONCE_S = 0.0003
"""Seconds within which a scheduled callback must run for the event loop to count as idle."""


class LoopCommitter:
    """Decides whether the loop or a thread syncs appends that were made in the loop."""

    def __init__(
        self,
        committer: Committer,
        loop: asyncio.AbstractEventLoop,
        timer: Callable[[], float] = perf_counter,
    ) -> None:
        self._committer = committer
        self._loop = loop
        self._thread = threading.get_ident()
        self._timer = timer
        self._begun = 0.0
        self._in_threads = committer.summon
        committer.summon = self._summon
        committer.loop_thread = self._thread

    def stop(self) -> None:
        """Let the committing thread do all commits again."""
        self._committer.summon = self._in_threads
        self._committer.loop_thread = None
        self._committer.wake()

    def _summon(self) -> None:
        if threading.get_ident() != self._thread:
            self._in_threads()
            return
        self._begun = self._timer()
        self._loop.call_soon(self._decide)

    def _decide(self) -> None:
        is_free = self._timer() - self._begun <= AT_ONCE_S
        if is_free and self._committer.is_quick:
            # Deliveries are made in this iteration and sent in the next one; the commit comes after
            # that.
            self._loop.call_soon(self._loop.call_soon, self._commit)
        else:
            self._committer.wake()

    def _commit(self) -> None:
        if not (self._committer.is_quick and self._committer.commit_here()):
            self._committer.wake()

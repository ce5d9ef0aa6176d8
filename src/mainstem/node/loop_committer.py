"""The commits of a server: by its event loop if that is free and the disk quick, else by a thread.

How this works: an append that has to wait for the disk begins a group, and the loop looks at it
once it has read what there was to read, so that appends of several peers share a commit. If it
comes to that at once, it has nothing else to do, and syncs by itself: to wake the thread that
commits, and to be woken by it, takes longer than the sync of a good disk. If there was more to do,
or the disk has been slow of late, the thread commits, and the loop goes on.
"""

import asyncio
import threading
from collections.abc import Callable
from time import perf_counter

from mainstem.log.group_commit import Committer

AT_ONCE_S = 0.0003
"""The loop has nothing else to do if it comes to a call so soon."""


class LoopCommitter:
    """Decides for a loop, in its thread, who commits what is appended there."""

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
        """Leave all commits to the thread again."""
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
        committer = self._committer
        is_free = self._timer() - self._begun <= AT_ONCE_S
        if not (is_free and committer.is_quick and committer.commit_here()):
            committer.wake()

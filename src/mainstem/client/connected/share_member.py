"""One member of a queue over the network: what it was given, and for how long it may have it."""

import threading
import time
from collections import deque
from collections.abc import Sequence

from mainstem.core.errors import Closed, MainstemError
from mainstem.core.event import Event, Position
from mainstem.remote.share_consumer import RemoteShareConsumer, Shared, Verdict


class Given:
    """An event that the caller has: from whom, and until when."""

    __slots__ = ("is_settled", "member", "shared", "until")

    def __init__(self, member: "ShareMember", shared: Shared) -> None:
        self.member = member
        self.shared = shared
        self.until = member.until
        """When its lock runs out."""
        self.is_settled = False


class ShareMember:
    """A member with the events of its last poll; those who ask see to it that one polls."""

    def __init__(self, sharing: RemoteShareConsumer) -> None:
        self._sharing = sharing
        self._lock = threading.Lock()
        """librdkafka's consumer is for one thread at a time."""
        self._empty_at: float | None = time.monotonic()
        """When it last asked in vain."""
        self._closed = False
        self.polled_at = 0.0
        self.is_polled = False
        """Whether somebody waits for more just now."""
        self.was_given = False
        """Whether it ever got anything."""
        self.waiting: deque[Shared] = deque()
        self.out: dict[Position, Given] = {}
        self.until = 0.0
        """When the locks of what it was given run out."""

    @property
    def most(self) -> int:
        """How many events it asks for at a time."""
        return self._sharing.most

    @property
    def gone(self) -> bool:
        """Whether nobody answers."""
        return self._sharing.gone

    @property
    def is_free(self) -> bool:
        """Whether everything that it was given is settled, so that it may ask for more."""
        return not self.waiting and not self.out and not self.is_polled

    @property
    def has_asked(self) -> bool:
        """Whether it asked in vain, so that a fetch may be on its way or has brought something."""
        return self._empty_at is not None and self.polled_at > 0

    def poll(self, timeout_s: float, lock_s: float) -> None:
        """Ask for events and wait a while for the first."""
        with self._lock:
            if self._closed:
                return
            # One that came back empty may have left a fetch on its way, and what that takes is
            # locked since then.
            since = time.monotonic() if self._empty_at is None else self._empty_at
            found = self._sharing.poll(timeout_s)
            self.polled_at = time.monotonic()
            self._empty_at = None if found else self.polled_at
        self.until = since + lock_s
        self.was_given = self.was_given or bool(found)
        self.waiting.extend(found)

    def settle(
        self, events: Sequence[Event], verdict: Verdict, *, wait: bool
    ) -> dict[Position, MainstemError]:
        """Say what becomes of events; return what did not count, as far as that is known.

        Raises Closed if it has left: nothing was said then.
        """
        with self._lock:
            if self._closed:
                # By another thread, after this one has seen the queue open.
                raise Closed(
                    "the queue was closed before this delivery was settled, so it comes again"
                )
            if wait:
                return self._sharing.settle(events, verdict)
            return self._sharing.settle_soon(events, verdict)

    def give_back(self, events: Sequence[Event]) -> None:
        """Let others have events, if they are still out here: nobody waits for an answer."""
        with self._lock:
            if not self._closed:
                self._sharing.give_back(events)

    def take_late(self) -> dict[Position, MainstemError]:
        """Return what did not count of what was said without waiting, once."""
        return self._sharing.take_late()

    def close(self) -> None:
        """Leave; what was not settled goes back."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._sharing.close()


class Leaving:
    """Members whose queue object was let go without being closed."""

    def __init__(self, members: Sequence[ShareMember]) -> None:
        self._members = members

    def close(self, *, finished: bool) -> None:
        """Leave the group; what was not settled goes back."""
        for each in self._members:
            each.close()

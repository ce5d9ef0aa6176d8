"""One share group member of a queue on a server: its deliveries and their locks."""

import threading
import time
from collections import deque
from collections.abc import Sequence

from mainstem.core.errors import Closed, MainstemError
from mainstem.core.event import Event, Position
from mainstem.remote.share_consumer import RemoteShareConsumer, Shared, Verdict


class Given:
    """A fetched event, the member that fetched it, and the time when its lock expires."""

    __slots__ = ("is_settled", "member", "shared", "until")

    def __init__(self, member: "ShareMember", shared: Shared) -> None:
        self.member = member
        self.shared = shared
        self.until = member.until
        """The time when the event's lock expires."""
        self.is_settled = False


class ShareMember:
    """A member of the share group, and the events of its last poll.

    Only one caller may poll it at a time.
    """

    def __init__(self, sharing: RemoteShareConsumer) -> None:
        self._sharing = sharing
        self._lock = threading.Lock()
        """Held during each call of librdkafka's share consumer, which is not thread-safe."""
        self._empty_at: float | None = time.monotonic()
        """The time of the last poll if that was empty, else None."""
        self._closed = False
        self.polled_at = 0.0
        self.is_polled = False
        """Whether a caller is polling this member now."""
        self.was_given = False
        """Whether this member ever got events."""
        self.waiting: deque[Shared] = deque()
        self.out: dict[Position, Given] = {}
        self.until = 0.0
        """The time when the locks of this member's events expire."""

    @property
    def most(self) -> int:
        """Maximum number of events per fetch."""
        return self._sharing.most

    @property
    def gone(self) -> bool:
        """Whether the server did not respond to the last poll."""
        return self._sharing.gone

    @property
    def is_free(self) -> bool:
        """Whether this member has no unsettled events and may fetch again."""
        return not self.waiting and not self.out and not self.is_polled

    @property
    def has_asked(self) -> bool:
        """Whether the last poll returned nothing, so that its fetch may still be running."""
        return self._empty_at is not None and self.polled_at > 0

    def poll(self, timeout_s: float, lock_s: float) -> None:
        """Poll for new events, for ``timeout_s`` at most; their locks last ``lock_s``."""
        with self._lock:
            if self._closed:
                return
            # If the last poll returned nothing, its fetch went on, and these events may be locked
            # since then.
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
        """Settle events; return the errors of those that were refused, by position.

        Without ``wait``, ``take_late`` returns the errors that are not known yet on return.
        Raises Closed if the member has left the group; then nothing was settled.
        """
        with self._lock:
            if self._closed:
                # Another thread has closed the member since the caller found the queue open.
                raise Closed(
                    "the queue was closed before this delivery was settled; it is redelivered"
                )
            if wait:
                return self._sharing.settle(events, verdict)
            return self._sharing.settle_soon(events, verdict)

    def give_back(self, events: Sequence[Event]) -> None:
        """Release events, or tell librdkafka that their locks have expired; does not wait."""
        with self._lock:
            if not self._closed:
                self._sharing.give_back(events)

    def take_late(self) -> dict[Position, MainstemError]:
        """Return the new errors of settlements made with ``wait=False``, by position."""
        return self._sharing.take_late()

    def close(self) -> None:
        """Leave the group, which releases unsettled events."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._sharing.close()


class Leaving:
    """Closes the members of a queue object that was garbage-collected without ``close``."""

    def __init__(self, members: Sequence[ShareMember]) -> None:
        self._members = members

    def close(self, *, finished: bool) -> None:
        """Let the members leave the group, which releases their unsettled events."""
        for each in self._members:
            each.close()

"""Subscriptions that read from a feed, wherever their log is: what they have in common."""

import threading
from abc import abstractmethod
from typing import Generic, Protocol, TypeVar

from mainstem.client.contexts import Closing
from mainstem.client.reaper import Closable, Reaper
from mainstem.client.subscription import SubscriptionOptions
from mainstem.core.errors import Closed


class SubscriptionFeed(Closable, Protocol):
    """Where the events of a subscription come from."""

    @property
    def closed(self) -> bool:
        """Whether it was closed."""

    @property
    def assignment(self) -> tuple[tuple[str, int], ...]:
        """The partitions (topic, number) read now."""

    @property
    def missed(self) -> int:
        """Events that were deleted before they could be read."""


F = TypeVar("F", bound=SubscriptionFeed)


class FeedSubscription(Generic[F]):
    """A subscription with its feed, which must not refer to it, or it would never be let go."""

    feed: F
    """Set last by a constructor; one that raised has none."""

    def __init__(self, options: SubscriptionOptions, reaper: Reaper) -> None:
        self._reaper = reaper
        self._ended = False
        # Who commits by hand may do so after the last event as well.
        self._by_hand = options.group is not None and options.commit == "manual"

    @property
    def assignment(self) -> tuple[tuple[str, int], ...]:
        """The partitions (topic, number) read now; over the network, known after the first poll."""
        return self.feed.assignment

    @property
    def missed(self) -> int:
        """Events that were deleted before this subscription could read them."""
        return self.feed.missed

    def __del__(self) -> None:
        # This may run at any point of any thread, even one that holds the broker's lock: so it
        # only leaves a note, for the stem to act on.
        feed = getattr(self, "feed", None)
        if feed is not None and not feed.closed:
            self._reaper.note(feed)

    def _check_open(self) -> None:
        if self.feed.closed and not self._ended:
            raise Closed("the subscription has been closed; subscribe again")


class BlockingSubscription(FeedSubscription[F], Closing):
    """A subscription that waits in the thread of its consumer."""

    def __init__(self, options: SubscriptionOptions, reaper: Reaper) -> None:
        super().__init__(options, reaper)
        self._reader = threading.get_ident()

    def close(self) -> None:
        """Leave the group; what was returned and finished is committed if commits are automatic."""
        self.close_now(finished=threading.get_ident() == self._reader)

    def stem_closes(self, *, failed: bool) -> None:
        """Be closed by the stem, as its consumer would have done."""
        self.close_now(finished=not failed and threading.get_ident() == self._reader)

    @abstractmethod
    def close_now(self, *, finished: bool) -> None:
        """Close, saying whether the events returned last are finished."""

    def _leave(self, error: BaseException | None) -> None:
        self.close_now(finished=error is None)

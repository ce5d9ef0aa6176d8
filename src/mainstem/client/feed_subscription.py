"""The common part of embedded and connected subscriptions, both of which read from a feed."""

import threading
from abc import abstractmethod
from typing import Generic, Protocol, TypeVar

from mainstem.client.contexts import Closing
from mainstem.client.reaper import Closable, Reaper
from mainstem.client.subscription import SubscriptionOptions
from mainstem.core.errors import Closed


class SubscriptionFeed(Closable, Protocol):
    """What a subscription needs of its feed, the source of its events."""

    @property
    def closed(self) -> bool:
        """Whether the feed was closed."""

    @property
    def assignment(self) -> tuple[tuple[str, int], ...]:
        """The partitions (topic, number) that are being read."""

    @property
    def missed(self) -> int:
        """Number of events that were deleted before they could be read."""


F = TypeVar("F", bound=SubscriptionFeed)


class FeedSubscription(Generic[F]):
    """A subscription that reads from a feed.

    The feed must not refer to the subscription, or that would never be garbage-collected.
    """

    feed: F
    """Set last by the constructor; missing if the constructor raised."""

    def __init__(self, options: SubscriptionOptions, reaper: Reaper) -> None:
        self._reaper = reaper
        self._ended = False
        # With manual commits, the last event may be committed after the end, too.
        self._by_hand = options.group is not None and options.commit == "manual"

    @property
    def assignment(self) -> tuple[tuple[str, int], ...]:
        """The partitions (topic, number) read now; over the network, known after the first poll."""
        return self.feed.assignment

    @property
    def missed(self) -> int:
        """Number of events that were deleted before this subscription could read them."""
        return self.feed.missed

    def __del__(self) -> None:
        # A finalizer may run at any point of any thread, even while that holds the broker's lock,
        # so it only leaves a note for the stem.
        feed = getattr(self, "feed", None)
        if feed is not None and not feed.closed:
            self._reaper.note(feed)

    def _closes_at_end(self) -> bool:
        """Tell whether the subscription closes itself now that its feed has ended."""
        self._ended = self._ended or not self.feed.closed
        return not self._by_hand

    def _check_open(self) -> None:
        if self.feed.closed and not self._ended:
            raise Closed("the subscription has been closed; subscribe again")


class BlockingSubscription(FeedSubscription[F], Closing):
    """Base class of subscriptions with blocking calls."""

    def __init__(self, options: SubscriptionOptions, reaper: Reaper) -> None:
        super().__init__(options, reaper)
        self._reader = threading.get_ident()

    def close(self) -> None:
        """Leave the group; auto-commit commits the offsets of finished events."""
        self.close_now(finished=threading.get_ident() == self._reader)

    def stem_closes(self, *, failed: bool) -> None:
        """Close because the stem closes; unless ``failed``, as if the consumer had closed."""
        self.close_now(finished=not failed and threading.get_ident() == self._reader)

    @abstractmethod
    def close_now(self, *, finished: bool) -> None:
        """Close; with ``finished``, the events returned last count as processed."""

    def _leave(self, error: BaseException | None) -> None:
        self.close_now(finished=error is None)

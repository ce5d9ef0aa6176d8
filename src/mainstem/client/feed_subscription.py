"""The common part of subscriptions, of a log in this process or on a server.

Both read from a feed, which is the source of their events.
"""

import threading
from abc import abstractmethod
from typing import Generic, Protocol, TypeVar

from mainstem.client.contexts import Closing
from mainstem.client.reaper import Closable, Reaper
from mainstem.client.subscription import SubscriptionOptions
from mainstem.core.errors import Closed


class SubscriptionFeed(Closable, Protocol):
    """What a subscription needs of its feed, besides events."""

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
    """Base class of subscriptions: assignment, missed events, and leaving the group.

    The feed must not refer to the subscription, or that would never be garbage-collected.
    """

    feed: F
    """Set last by the constructor; missing if the constructor raised."""

    def __init__(self, options: SubscriptionOptions, reaper: Reaper) -> None:
        self._reaper = reaper
        self._ended = False
        # With manual commits the subscription stays open at its end, to commit the last event.
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
        # A finalizer may run in any thread at any point, even while that holds the broker's lock,
        # so it only registers the feed for closing.
        feed = getattr(self, "feed", None)
        if feed is not None and not feed.closed:
            self._reaper.note(feed)

    def _closes_at_end(self) -> bool:
        """Return whether the subscription closes itself, now that its feed has ended."""
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
        """Close because the stem closes; unless ``failed``, as if the consumer had closed it."""
        self.close_now(finished=not failed and threading.get_ident() == self._reader)

    @abstractmethod
    def close_now(self, *, finished: bool) -> None:
        """Close; with ``finished``, the events returned last count as processed."""

    def _leave(self, error: BaseException | None) -> None:
        self.close_now(finished=error is None)

"""The common part of feeds: iterating polls."""

from abc import abstractmethod
from collections.abc import Iterator
from typing import Generic, TypeVar

from mainstem.client.contexts import Closing

Item = TypeVar("Item")


class PolledFeed(Closing, Generic[Item]):
    """Base class of feeds, which give what they receive by ``poll``, or as an iterator."""

    def __iter__(self) -> Iterator[Item]:
        while (item := self.poll()) is not None:
            yield item

    @abstractmethod
    def poll(self, timeout_s: float | None = None) -> Item | None:
        """Return the next item; None at the end, or when the time is up."""

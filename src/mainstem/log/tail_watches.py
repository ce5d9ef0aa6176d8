"""Who waits at the tail of a partition, and until which offset."""

import logging
from collections.abc import Callable, Iterable

_logger = logging.getLogger("mainstem.log")

Wake = Callable[[], None]


class TailWatches:
    """Calls to make once, as soon as the tail is past an offset; used under the log's lock."""

    __slots__ = ("_next_token", "_waiting")

    def __init__(self) -> None:
        self._waiting: dict[int, tuple[int, Wake]] = {}
        self._next_token = 0

    def add(self, offset: int, wake: Wake) -> int:
        """Keep ``wake`` until the tail is past ``offset``; return a token to take it back by."""
        self._next_token += 1
        self._waiting[self._next_token] = (offset, wake)
        return self._next_token

    def remove(self, token: int) -> None:
        """Take a watch back, unless it was handed out already."""
        self._waiting.pop(token, None)

    def due(self, tail: int) -> list[Wake]:
        """Hand out the watches that the tail has passed."""
        if not self._waiting:
            return []
        tokens = [token for token, (offset, _) in self._waiting.items() if offset < tail]
        return [self._waiting.pop(token)[1] for token in tokens]

    def all(self) -> list[Wake]:
        """Hand out every watch, since nothing will come any more."""
        wakes = [wake for _, wake in self._waiting.values()]
        self._waiting.clear()
        return wakes


def call_all(wakes: Iterable[Wake]) -> None:
    """Make the calls; never under the log's lock, as they may call the log.

    One that fails keeps no other from being made, nor whoever commits from going on: that would
    be the end of all writing. The log says where the bug is.
    """
    for wake in wakes:
        try:
            wake()
        except Exception as error:
            _logger.error("a call of somebody who waited has failed", exc_info=error)


def already_woken() -> None:
    """Take back a watch that was called at once."""

"""Watches at the tail of a partition: called once the tail is past an offset."""

import logging
from collections.abc import Callable, Iterable

_logger = logging.getLogger("mainstem.log")

Wake = Callable[[], None]


class TailWatches:
    """Callbacks that wait for a partition's tail to pass an offset; used under the log's lock."""

    __slots__ = ("_next_token", "_waiting")

    def __init__(self) -> None:
        self._waiting: dict[int, tuple[int, Wake]] = {}
        self._next_token = 0

    def __bool__(self) -> bool:
        """Return whether anybody waits."""
        return bool(self._waiting)

    def add(self, offset: int, wake: Wake) -> int:
        """Add a watch: call ``wake`` when the tail is past ``offset``.

        Return a token to remove it.
        """
        self._next_token += 1
        self._waiting[self._next_token] = (offset, wake)
        return self._next_token

    def remove(self, token: int) -> None:
        """Remove a watch by its token, unless it was already called."""
        self._waiting.pop(token, None)

    def due(self, tail: int) -> list[Wake]:
        """Remove and return the watches that the tail has passed."""
        if not self._waiting:
            return []
        tokens = [token for token, (offset, _) in self._waiting.items() if offset < tail]
        return [self._waiting.pop(token)[1] for token in tokens]

    def all(self) -> list[Wake]:
        """Remove and return all watches, when the partition is closed."""
        wakes = [wake for _, wake in self._waiting.values()]
        self._waiting.clear()
        return wakes


def call_all(wakes: Iterable[Wake]) -> None:
    """Call all callbacks; never under the log's lock, since a callback may call the log.

    A callback that raises must not prevent the others, nor stop the committing thread, which would
    end all writing; the error is logged.
    """
    for wake in wakes:
        try:
            wake()
        except Exception as error:
            _logger.error("a callback waiting for new events failed", exc_info=error)


def already_woken() -> None:
    """Do nothing: the cancel function of a watch that was called at once."""

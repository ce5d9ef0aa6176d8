"""Exponential backoff for failed tasks of upkeep, counted in its rounds."""

from collections.abc import Hashable

MOST_ROUNDS = 64
"""The longest backoff in rounds: with one round a second, about a minute."""


class Backoff:
    """Skips failed tasks for one round, then for two, four and so on."""

    def __init__(self) -> None:
        self._round = 0
        self._failed: dict[Hashable, tuple[int, int]] = {}
        """For each failed task: until which round it is skipped, and the length of that backoff."""
        self.left_out = False
        """Whether a task was skipped in this round."""

    def begin_round(self, *, at_once: bool) -> None:
        """Begin the next round; ``at_once``: skip no task in it."""
        self._round += 1
        self.left_out = False
        if at_once:
            self._failed.clear()

    def rests(self, what: Hashable) -> bool:
        """Tell whether the task must be skipped in this round."""
        known = self._failed.get(what)
        if known is None or known[0] < self._round:
            return False
        self.left_out = True
        return True

    def failed(self, what: Hashable) -> None:
        """Skip the task twice as long as after its last failure."""
        _, rounds = self._failed.get(what, (0, 0))
        rounds = min(2 * rounds or 1, MOST_ROUNDS)
        self._failed[what] = (self._round + rounds, rounds)

    def forget(self, what: Hashable) -> None:
        """Reset the backoff: the task succeeded, or no longer exists."""
        self._failed.pop(what, None)

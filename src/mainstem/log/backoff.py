"""When to try again what failed: each time later, so that failing does not cost all the time."""

from collections.abc import Hashable

MOST_ROUNDS = 64
"""With a round a second this is a minute, and what can be done again waits no longer for it."""


class Backoff:
    """Counts rounds: what failed is left out of the next one, then of two, four and so on."""

    def __init__(self) -> None:
        self._round = 0
        self._failed: dict[Hashable, tuple[int, int]] = {}
        """Up to which round it rests, and for how many."""
        self.left_out = False
        """Whether something was left out of this round."""

    def begin_round(self, *, at_once: bool) -> None:
        """Begin the next round, in which nothing rests if all is to be tried at once."""
        self._round += 1
        self.left_out = False
        if at_once:
            self._failed.clear()

    def rests(self, what: Hashable) -> bool:
        """Tell whether it is left out of this round."""
        known = self._failed.get(what)
        if known is None or known[0] < self._round:
            return False
        self.left_out = True
        return True

    def failed(self, what: Hashable) -> None:
        """Let it rest, twice as long as after its last failure."""
        _, rounds = self._failed.get(what, (0, 0))
        rounds = min(2 * rounds or 1, MOST_ROUNDS)
        self._failed[what] = (self._round + rounds, rounds)

    def forget(self, what: Hashable) -> None:
        """Take note that it works again, or is not there any more."""
        self._failed.pop(what, None)

"""Limits how many events are sent per second: a sub0 socket drops what its buffer cannot hold."""


class Pace:
    """Tells how many events may be sent: first a burst, then ``rate`` per second."""

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self.burst = max(32, rate // 50)
        """How many events may be sent at once; a default sub0 has room for 128."""
        self._spent = 0
        self._since_ms: int | None = None
        self._earned = 0.0

    @property
    def is_spent(self) -> bool:
        """Whether events were sent whose permissions ``granted`` has not given back yet."""
        return self._spent > 0

    def spend(self, count: int) -> None:
        """Record that ``count`` events were sent."""
        self._spent += count

    def granted(self, now_ms: int) -> int:
        """Return how many more events may be sent than at the last call; ``now_ms``: monotonic."""
        if not self._spent:
            self._since_ms = None
            return 0
        if self._since_ms is None:
            self._since_ms, self._earned = now_ms, 0.0
            return 0
        self._earned += self._rate * (now_ms - self._since_ms) / 1000
        self._since_ms = now_ms
        found = min(self._spent, int(self._earned))
        # Unused permissions are not saved: there is never more than one burst.
        self._earned = self._earned - found if found < self._spent else 0.0
        self._spent -= found
        return found

"""When a session may send a packet, when a heartbeat is due, and who may request messages."""

from mainstem.heads.moldudp64.codec import Packet


class Pace:
    """Limits how many packets are sent in a second, with short bursts (a token bucket)."""

    def __init__(self, per_s: float, burst: float) -> None:
        self._per_ms, self._burst = per_s / 1000, burst
        self._left, self._at_ms = burst, 0.0

    def left(self, now_ms: float) -> float:
        """Return how many packets may be sent now (a fraction; below 1: none)."""
        self._left = min(self._burst, self._left + max(0.0, now_ms - self._at_ms) * self._per_ms)
        self._at_ms = now_ms
        return self._left

    def take(self, count: float = 1) -> None:
        """Record that ``count`` packets were sent."""
        self._left -= count

    def is_full(self, now_ms: float) -> bool:
        """Tell whether the full burst is available again, as with a new ``Pace``."""
        return self.left(now_ms) >= self._burst


class Silence:
    """Decides which packet to send when there are no messages: a heartbeat, or end of session."""

    def __init__(self, session: str, heartbeat_ms: int, end_ms: int, now_ms: float) -> None:
        """``end_ms``: for how long the end of the session is repeated."""
        self._session, self._heartbeat_ms, self._end_ms = session, heartbeat_ms, end_ms
        # The first heartbeat is sent at once, so that receivers learn the next sequence number.
        self._due_ms = now_ms
        self._ended_ms: float | None = None

    def sent(self, now_ms: float) -> None:
        """Postpone the next heartbeat, because a packet was sent."""
        self._due_ms = now_ms + self._heartbeat_ms

    def end(self, now_ms: float) -> None:
        """Send end-of-session packets from now on."""
        if self._ended_ms is None:
            self._ended_ms = self._due_ms = now_ms

    def due(self, next_sequence: int, now_ms: float) -> Packet | None:
        """Return the heartbeat or end-of-session packet that is due, None if there is none."""
        if now_ms < self._due_ms:
            return None
        if self._ended_ms is None:
            return Packet(self._session, next_sequence)
        if now_ms - self._ended_ms > self._end_ms:
            self._due_ms = float("inf")
            return None
        return Packet(self._session, next_sequence, is_end=True)

    def wait_ms(self, now_ms: float) -> float | None:
        """Return in how many ms a packet is due, None if never again."""
        return None if self._due_ms == float("inf") else max(0.0, self._due_ms - now_ms)


class RequestLimits:
    """Limits the requests per address, so that requests with a forged sender flood nobody."""

    MAX_ADDRESSES = 1_000

    def __init__(self, per_s: float) -> None:
        self._per_s = per_s
        self._paces: dict[str, Pace] = {}
        self._others = Pace(per_s, per_s)
        """The limit that all further addresses share if there are ``MAX_ADDRESSES``."""

    def may_ask(self, host: str, now_ms: float) -> Pace | None:
        """Return the ``Pace`` to charge for a request; None if the address has sent too many."""
        pace = self._paces.get(host)
        if pace is None:
            if len(self._paces) >= self.MAX_ADDRESSES:
                self._forget(now_ms)
            if len(self._paces) >= self.MAX_ADDRESSES:
                pace = self._others
            else:
                pace = self._paces[host] = Pace(self._per_s, self._per_s)
        return pace if pace.left(now_ms) >= 1 else None

    def _forget(self, now_ms: float) -> None:
        idle = [host for host, pace in self._paces.items() if pace.is_full(now_ms)]
        for host in idle:
            del self._paces[host]

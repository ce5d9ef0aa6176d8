"""The sending side of a session: when a packet may be sent, and when a heartbeat is due."""

from mainstem.heads.moldudp64.codec import Packet


class Pace:
    """Limits how many packets are sent in a second, with short bursts (a token bucket)."""

    def __init__(self, per_s: float, burst: float) -> None:
        self._per_ms, self._burst = per_s / 1000, burst
        self._left, self._at_ms = burst, 0.0

    def left(self, now_ms: float) -> float:
        """Return how many packets may be sent now."""
        self._left = min(self._burst, self._left + max(0.0, now_ms - self._at_ms) * self._per_ms)
        self._at_ms = now_ms
        return self._left

    def take(self, count: float = 1) -> None:
        """Subtract sent packets from the allowance."""
        self._left -= count

    def is_full(self, now_ms: float) -> bool:
        """Tell whether the full burst is available again, so that this limit can be dropped."""
        return self.left(now_ms) >= self._burst


class Silence:
    """Decides what is sent when there are no messages: heartbeats, then the end of the session."""

    def __init__(self, session: str, heartbeat_ms: int, end_ms: int, now_ms: float) -> None:
        """``end_ms``: for how long the end of the session is repeated."""
        self._session, self._heartbeat_ms, self._end_ms = session, heartbeat_ms, end_ms
        # At once, so that receivers that are there learn the next sequence number.
        self._due_ms = now_ms
        self._ended_ms: float | None = None

    def sent(self, now_ms: float) -> None:
        """Postpone the next heartbeat, as a packet was sent."""
        self._due_ms = now_ms + self._heartbeat_ms

    def end(self, now_ms: float) -> None:
        """Announce the end of the session from now on."""
        if self._ended_ms is None:
            self._ended_ms = self._due_ms = now_ms

    def due(self, next_sequence: int, now_ms: float) -> Packet | None:
        """Return the packet that is due, None if there is none."""
        if now_ms < self._due_ms:
            return None
        if self._ended_ms is None:
            return Packet(self._session, next_sequence)
        if now_ms - self._ended_ms > self._end_ms:
            self._due_ms = float("inf")
            return None
        return Packet(self._session, next_sequence, is_end=True)

    def wait_ms(self, now_ms: float) -> float | None:
        """Return how long nothing is due, None if nothing will ever be."""
        return None if self._due_ms == float("inf") else max(0.0, self._due_ms - now_ms)


class RequestLimits:
    """Limits the requests of each address, so that forged ones flood nobody with answers."""

    MAX_ADDRESSES = 1_000

    def __init__(self, per_s: float) -> None:
        self._per_s = per_s
        self._paces: dict[str, Pace] = {}
        self._others = Pace(per_s, per_s)
        """Shared by the addresses beyond ``MAX_ADDRESSES``."""

    def may_ask(self, host: str, now_ms: float) -> Pace | None:
        """Return what to charge the answer to; None if the address has asked too often."""
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

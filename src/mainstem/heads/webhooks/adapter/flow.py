"""Limits the requests to an endpoint: in flight, per second, and after failures.

How this works: at first an endpoint may have one request in flight; every success doubles that
number, up to its limit. A failure of the endpoint itself (no answer, 429, 5xx) sets the number back
to one, so that an endpoint that hangs occupies one connection. A receiver that answers 429 or 503
with Retry-After gets no request until then.
"""

from mainstem.heads.webhooks.endpoints import Endpoint, Order
from mainstem.heads.webhooks.schedule import Answer

_BURST_MS = 100
"""Requests that the rate allows within this time may be sent at once."""


class Flow:
    """The limits on the requests of one endpoint; all times are arguments (monotonic ms)."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._most = 1 if endpoint.order is Order.ENDPOINT else endpoint.max_in_flight
        self._per_ms = None if endpoint.max_per_s is None else endpoint.max_per_s / 1000
        self._burst = 1.0 if self._per_ms is None else max(1.0, self._per_ms * _BURST_MS)
        self._tokens, self._filled_ms = self._burst, 0
        self._allowed = 1
        self._held_until_ms = 0
        self.busy = 0
        """Number of requests in flight, and with order ``endpoint`` of the one that waits for its
        retry.
        """

    def room(self, now_ms: int) -> int:
        """Return how many requests may be sent now."""
        if now_ms < self._held_until_ms:
            return 0
        room = self._allowed - self.busy
        if self._per_ms is None:
            return room
        filled = self._tokens + (now_ms - self._filled_ms) * self._per_ms
        self._tokens, self._filled_ms = min(self._burst, filled), now_ms
        return min(room, int(self._tokens))

    def wait_ms(self, now_ms: int) -> int | None:
        """Return in how many ms a request may be sent; None if one in flight must end before."""
        if self.busy >= self._allowed:
            return None
        if now_ms < self._held_until_ms:
            return self._held_until_ms - now_ms
        if self._per_ms is None or self._tokens >= 1:
            return 0
        return int((1 - self._tokens) / self._per_ms) + 1

    def sent(self) -> None:
        """Record that a request was sent."""
        self.busy += 1
        if self._per_ms is not None:
            self._tokens -= 1

    def answered(self, answer: Answer, now_ms: int) -> None:
        """Record the answer to a request."""
        self.busy -= 1
        status = answer.status
        if answer.is_success:
            self._allowed = min(self._most, 2 * self._allowed)
        elif status is None or status == 429 or status >= 500:
            self._allowed = 1
        if answer.hold_ms:
            self._held_until_ms = max(self._held_until_ms, now_ms + answer.hold_ms)

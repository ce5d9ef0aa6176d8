"""Decides, from a receiver's answer, whether an event is delivered, retried, or a dead letter."""

from collections.abc import Callable
from email.utils import parsedate_to_datetime
from enum import StrEnum, auto
from typing import NamedTuple

import msgspec

from mainstem.heads.webhooks.endpoints import DAY, Endpoint

GONE = 410
MAX_RETRY_AFTER_MS = 7 * DAY
_HOLDS = (429, 503)
"""With these statuses, Retry-After applies to all requests to the endpoint, not only to this one.
"""


class Answer(msgspec.Struct, frozen=True):
    """The result of a request: an HTTP status, or an error if there was none."""

    status: int | None = None
    error: str = ""
    retry_after_ms: int | None = None

    @property
    def is_success(self) -> bool:
        """Whether the receiver has accepted the events: a status of 200 to 299."""
        return self.status is not None and 200 <= self.status <= 299

    @property
    def hold_ms(self) -> int:
        """For how many ms the receiver has asked for no requests at all."""
        return (self.retry_after_ms or 0) if self.status in _HOLDS else 0

    @property
    def text(self) -> str:
        """The status or error as text."""
        return self.error or f"status {self.status}"


class Verdict(StrEnum):
    """What is done with an event after an attempt."""

    DELIVERED = auto()
    RETRY = auto()
    DEAD = auto()
    """The last retry has failed: the event becomes a dead letter."""
    GONE = auto()
    """The receiver wants no more events: the event stays in the queue of the disabled endpoint."""


class Decision(NamedTuple):
    """What is done with an event after an attempt; for a retry, with the delay."""

    verdict: Verdict
    delay_ms: int = 0


def decide(
    endpoint: Endpoint, answer: Answer, attempt: int, chance: Callable[[], float]
) -> Decision:
    """Decide what is done with an event after attempt number ``attempt`` (the first is 1).

    ``chance``: returns a random number from 0 to 1, for the jitter.
    """
    if answer.is_success:
        return Decision(Verdict.DELIVERED)
    if answer.status == GONE:
        return Decision(Verdict.GONE)
    if attempt > len(endpoint.retries_ms):
        return Decision(Verdict.DEAD)
    delay_ms = endpoint.retries_ms[attempt - 1]
    # The jitter only adds to the delay: a retry is never earlier than schedule and receiver say.
    delay_ms = max(delay_ms, answer.retry_after_ms or 0)
    return Decision(Verdict.RETRY, delay_ms + int(delay_ms * endpoint.jitter * chance()))


def retry_after_ms(header: str | None, now_ms: int) -> int | None:
    """Return the delay in a Retry-After header, which has seconds or a date; None if it is invalid.

    At most a week.
    """
    text = (header or "").strip()
    if text.isascii() and text.isdigit():
        return min(int(text[:12]) * 1000, MAX_RETRY_AFTER_MS)
    try:
        due_ms = int(parsedate_to_datetime(text).timestamp() * 1000)
    except (ValueError, OverflowError, IndexError, TypeError):
        return None
    return min(max(0, due_ms - now_ms), MAX_RETRY_AFTER_MS)

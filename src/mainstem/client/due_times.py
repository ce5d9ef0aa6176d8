"""The time at which a scheduled event is to be published."""

from datetime import datetime
from typing import Unpack

import msgspec

from mainstem.client.values import EventParts, Value, make_event
from mainstem.core.errors import InvalidSetting
from mainstem.core.event import Event

_MAX_DELAY_S = 100 * 366 * 86_400


class DueEvent(EventParts, total=False):
    """The parts of a scheduled event, and when it is due: one of ``delay_s`` and ``at``."""

    delay_s: float | None
    """Seconds from now."""
    at: datetime | None
    """A time with a time zone."""


class DueTime(msgspec.Struct, frozen=True):
    """The time at which a scheduled event is to be published: a delay from now, or a date."""

    delay_s: float | None
    at: datetime | None

    def to_ms(self, now_ms: int) -> int:
        """Return the due time in ms since 1970; raises InvalidSetting unless exactly one is given.

        A time without a time zone is refused, because it is ambiguous.
        """
        if (self.delay_s is None) == (self.at is None):
            raise InvalidSetting("schedule(...) takes either delay_s=… or at=…: give one of them")
        if self.at is not None:
            if self.at.tzinfo is None:
                raise InvalidSetting(
                    f"at={self.at.isoformat()} has no time zone: use datetime.now(UTC) + …, or "
                    ".astimezone()"
                )
            return int(self.at.timestamp() * 1000)
        if self.delay_s is None or not 0 <= self.delay_s < _MAX_DELAY_S:
            raise InvalidSetting(f"delay_s={self.delay_s}: give seconds from 0 to {_MAX_DELAY_S}")
        return now_ms + round(self.delay_s * 1000)


def make_due_event(
    value: Value,
    *,
    delay_s: float | None = None,
    at: datetime | None = None,
    **event: Unpack[EventParts],
) -> tuple[Event, DueTime]:
    """Make an event from its value and other parts, and say when it is due."""
    return make_event(value, **event), DueTime(delay_s, at)

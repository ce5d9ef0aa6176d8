"""When a scheduled event is due."""

from datetime import datetime

from mainstem.core.errors import InvalidSetting


def due_time_ms(delay_s: float | None, at: datetime | None, now_ms: int) -> int:
    """Return the time at which an event is due; raises InvalidSetting unless one of both is given.

    A time without a time zone is refused, as it could mean several.
    """
    if (delay_s is None) == (at is None):
        raise InvalidSetting("schedule(...) takes either delay_s=… or at=…: give one of them")
    if at is not None:
        if at.tzinfo is None:
            raise InvalidSetting(
                f"at={at.isoformat()} has no time zone: use datetime.now(UTC) + …, or .astimezone()"
            )
        return int(at.timestamp() * 1000)
    if delay_s is None or not 0 <= delay_s < _MAX_DELAY_S:
        raise InvalidSetting(f"delay_s={delay_s}: give seconds from 0 to {_MAX_DELAY_S}")
    return now_ms + round(delay_s * 1000)


_MAX_DELAY_S = 100 * 366 * 86_400

"""Argument checks that several classes of the API use."""

from mainstem.core.errors import InvalidSetting

_MAX_S = 10 * 365 * 86_400


def milliseconds(seconds: float, name: str) -> int:
    """Convert seconds to milliseconds; raises InvalidSetting if out of range."""
    if not isinstance(seconds, int | float) or not 0 <= seconds <= _MAX_S:
        raise InvalidSetting(f"{name} must be 0 to {_MAX_S} seconds, not {seconds!r:.300}")
    return round(seconds * 1000)


def check_limit(limit: int) -> None:
    """Raise InvalidSetting unless the limit is a positive number."""
    if not isinstance(limit, int) or limit < 1:
        raise InvalidSetting(f"limit must be a number from 1 on, not {limit!r:.300}")

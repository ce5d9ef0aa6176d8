"""Where reading starts: earliest, latest, an offset, a time, or an offset for each partition."""

from collections.abc import Mapping
from datetime import datetime
from typing import Literal

from mainstem.core.errors import InvalidSetting

Start = Literal["earliest", "latest"] | int | datetime | Mapping[int, int]
"""Earliest or latest, one offset for every partition, a time, or offsets by partition."""

_MAX_OFFSET = 2**63 - 1


def check_start(start: Start) -> None:
    """Raise InvalidSetting if ``start`` is invalid."""
    if start in ("earliest", "latest") or isinstance(start, datetime):
        return
    numbers = start.values() if isinstance(start, Mapping) else (start,)
    for number in numbers:
        if not isinstance(number, int) or isinstance(number, bool):
            raise InvalidSetting(
                f"cannot begin at {number!r}: give 'earliest', 'latest', an offset, a datetime, "
                "or a mapping of partitions to offsets"
            )
        if not 0 <= number <= _MAX_OFFSET:
            raise InvalidSetting(f"cannot begin at offset {number}; offsets begin at 0")

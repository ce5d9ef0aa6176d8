"""Where reading begins: an end of the log, an offset, a time, or offsets by partition."""

from collections.abc import Mapping
from datetime import datetime
from typing import Literal

from mainstem.core.errors import InvalidSetting

Start = Literal["earliest", "latest"] | int | datetime | Mapping[int, int]
"""Where to begin: an end of the log, an offset in every partition, a time, offsets by partition."""

_MAX_OFFSET = 2**63 - 1


def check_start(start: Start) -> None:
    """Refuse what is no place to begin."""
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

"""The two clocks of a broker."""

from collections.abc import Callable
from typing import NamedTuple


class Clocks(NamedTuple):
    """The time of day is for what is stored, the monotonic clock for deadlines; in milliseconds."""

    now_ms: Callable[[], int]
    monotonic_ms: Callable[[], int]

"""The two clocks of a broker."""

from collections.abc import Callable
from typing import NamedTuple


class Clocks(NamedTuple):
    """The time of day (for stored times) and the monotonic clock (for deadlines); both in ms."""

    now_ms: Callable[[], int]
    monotonic_ms: Callable[[], int]

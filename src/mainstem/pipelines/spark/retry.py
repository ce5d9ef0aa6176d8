"""What fails on a busy machine, or while a server starts again, is tried again for a while.

Spark asks a Python process about every source, and gives up on one that takes more than 10 s to
come up, which on a busy machine some do.
"""

import time
from collections.abc import Callable
from typing import TypeVar

from pyspark.errors import PySparkException

T = TypeVar("T")

_BUSY, _AWAY = "Python worker failed to connect back", "no answer from "
_ATTEMPTS = 10
_LONGEST_S = 8.0


def is_transient(failure: str) -> bool:
    """Tell whether a query that failed so may go on when it is started again."""
    return _BUSY in failure or _AWAY in failure


def with_retries(ask: Callable[[], T], wait: Callable[[float], None] = time.sleep) -> T:
    """Ask Spark for something, and again if its Python did not come up in time."""
    for attempt in range(_ATTEMPTS):
        try:
            return ask()
        except PySparkException as error:
            if _BUSY not in str(error):
                raise
        wait(min(2.0**attempt, _LONGEST_S))
    return ask()

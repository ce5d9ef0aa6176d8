"""Retries of transient errors: a slow Python worker, or a broker or a sink's store that is away.

Spark starts a Python process for every data source and gives up if that takes more than 10 s, which
happens on a busy machine.
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
    """Return whether a query that failed with this error message may succeed when restarted."""
    return _BUSY in failure or _AWAY in failure


def is_away(failure: str) -> bool:
    """Return whether a query failed as the broker, or its sink's store, did not answer."""
    return _AWAY in failure


def with_retries(ask: Callable[[], T], wait: Callable[[float], None] = time.sleep) -> T:
    """Call ``ask``, which calls Spark; repeat it while a Python worker does not start in time.

    ``wait`` sleeps between the attempts; the last one raises Spark's error.
    """
    for attempt in range(_ATTEMPTS):
        try:
            return ask()
        except PySparkException as error:
            if _BUSY not in str(error):
                raise
        wait(min(2.0**attempt, _LONGEST_S))
    return ask()

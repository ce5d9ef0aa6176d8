"""Logs that a test opens, in memory and on disk."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.laws.log_implementations import OpenQuiet, QuietLog, open_quiet_log


@pytest.fixture(params=["memory", "disk"])
def open_quiet(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenQuiet]:
    with ExitStack() as stack:

        def opened(now_ms: Callable[[], int]) -> QuietLog:
            found = open_quiet_log(request.param, tmp_path, now_ms)
            stack.callback(found.log.close)
            return found

        yield opened

"""Waits while consumers poll, as only a consumer that polls stays in its group."""

import time
from collections.abc import Callable
from typing import Protocol

PATIENCE_S = 60


class Polls(Protocol):
    """A consumer; as text it says how far it is."""

    def poll(self) -> None:
        """Read what is there."""


def until(condition: Callable[[], bool], *readers: Polls) -> None:
    """Let consumers poll until something holds, or fail."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, [str(each) for each in readers]
        for reader in readers:
            reader.poll()

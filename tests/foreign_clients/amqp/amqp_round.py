"""A round of AMQP 0-9-1: programs of clients in other languages run it and print what they saw."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.foreign_clients.amqp.pika_client import CONFIG
from tests.in_process_server import server

CACHE = Path(__file__).parents[3] / ".cache"

SAID = [
    "confirmed 100",
    "returned 312 NO_ROUTE",
    "consumed in order 100",
    "dead 0:rejected 25:rejected 50:rejected 75:rejected",
    "left 0",
]
COMMITTED = ["transaction committed", "then nothing"]


@contextmanager
def amqp_port(directory: Path) -> Iterator[str]:
    """Serve a fresh directory; gives the port."""
    with server(directory, config=CONFIG) as running:
        yield str(running.addresses["amqp"].port)


def shows_a_round(test: Callable[..., None]) -> Callable[..., None]:
    """Mark a test with what its program shows."""
    for mark in (
        pytest.mark.shows("declare", "exchanges, queues, bindings, queue arguments"),
        pytest.mark.shows("publish", "confirms; returns"),
        pytest.mark.shows("consume", "acks; prefetch; headers"),
        pytest.mark.shows("dead letters", "rejected, with x-death"),
    ):
        test = mark(test)
    return test

"""Series, tags, members and values without end: memory is bounded, what is refused is counted."""

import contextlib
import socket
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from tests.heads.kafka.raw_peers import Healthy
from tests.heads.server_process import Process, beside, until

import mainstem

LINES = 40
"""In a packet."""


def packed(lines: Iterator[str], count: int = LINES) -> Iterator[bytes]:
    """Yield packets of so many lines."""
    some = list[str]()
    for line in lines:
        some.append(line)
        if len(some) == count:
            yield "\n".join(some).encode()
            some.clear()


ATTACKS: dict[str, Callable[[], Iterator[bytes]]] = {
    "100,000 timers": lambda: packed(f"timer.{each}:1|ms" for each in range(100_000)),
    "100,000 gauges": lambda: packed(f"gauge.{each}:1|g" for each in range(100_000)),
    "60 KB of tags": lambda: (
        f"tagged.{each}:1|c|#{'x' * 60_000}{each}".encode() for each in range(2_000)
    ),
    "4 KB of tags": lambda: (
        f"tagged.{each}:1|ms|#{'x' * 3_900}{each}".encode() for each in range(10_000)
    ),
    "members of sets": lambda: packed(
        (f"set.{each % 40}:{each:0400d}|s" for each in range(150_000)), 100
    ),
    "many values of a line, with tags": lambda: (
        f"many.{each}:{'1:' * 20_000}1|ms|#{'x' * 3_000}".encode() for each in range(100)
    ),
}


LEFT_OUT = ("100,000 timers", "100,000 gauges", "4 KB of tags", "members of sets")
"""Those that get beyond ``statsd.max_bytes``; of the others, lines are refused."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    path: Path = tmp_path_factory.mktemp("cardinality")
    with mainstem.open(path) as stem:
        stem.topics.create("trades", partitions=1)
    with Process(
        path,
        statsd__listen="127.0.0.1:0",
        statsd__flush_ms=5_000,
        # Gauges of one attack are not in the way of the next one.
        statsd__gauge_idle_ms=1,
        # The test itself reads /metrics all the time.
        statsd__max_scraped_series=500,
    ) as found:
        yield found


@pytest.mark.parametrize("name", ATTACKS)
def test_memory_is_bounded_and_a_kafka_client_answered(server: Process, name: str) -> None:
    host, _, port = server.addresses["statsd"].rpartition(":")

    def told() -> float:
        return server.metric("mainstem_statsd_packets") + server.metric("mainstem_statsd_kernel")

    before, sent = told(), 0
    with (
        contextlib.closing(Healthy(server.address)) as healthy,
        server.within_bounds(),
        beside(healthy, server),
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
    ):
        for packet in ATTACKS[name]():
            sender.sendto(packet, (host, int(port)))
            sent += 1
            if sent % 100 == 0:
                # So that the kernel drops few, and what comes is attacked with.
                until(partial(_reached, told, before + sent - 50), lambda: None)
        until(partial(_reached, told, before + sent), lambda: None)
        # That interval ends, too, and all of it is appended.
        intervals = partial(server.metric, "mainstem_statsd_intervals_total")
        until(partial(_reached, intervals, intervals() + 2), lambda: None)
    refused = "left_out" if name in LEFT_OUT else "bad_lines"
    assert server.metric(f"mainstem_statsd_{refused}_total") > 0


def _reached(count: Callable[[], float], wanted: float) -> bool:
    return count() >= wanted

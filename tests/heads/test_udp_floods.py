"""Floods of UDP packets: a Kafka client beside them is answered within a second."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.heads.kafka.raw_peers import Healthy
from tests.heads.moldudp64.feed_head import new_group, store_trades
from tests.heads.server_process import Process, beside

from mainstem.heads.moldudp64.codec import Request, encode_request

PACKETS = 200_000
FLOOD = """
import socket, sys
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sender.connect(("127.0.0.1", int(sys.argv[1])))
packets = [bytes.fromhex(line) for line in sys.stdin.read().split()]
for number in range(int(sys.argv[2])):
    try:
        sender.send(packets[number % len(packets)])
    except OSError:
        pass
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    path: Path = tmp_path_factory.mktemp("flooded")
    store_trades(path)
    with Process(
        path,
        durability="disk",
        moldudp64__listen="127.0.0.1:0",
        moldudp64__feeds=f"S1=trades/0@{new_group()}",
        statsd__listen="127.0.0.1:0",
    ) as found:
        yield found


FLOODS = {
    "requests for all there is": ("moldudp64", [encode_request(Request("S1", 1, 65_534))]),
    "noise to moldudp64": ("moldudp64", [bytes(range(200))]),
    "a counter": ("statsd", [b"page.views:1|c"]),
    "many names": ("statsd", [b"name.%d:1|c" % number for number in range(5_000)]),
    "64 KiB of colons": ("statsd", [b":" * 65_000]),
    "noise to statsd": ("statsd", [bytes(range(200))]),
}


@contextlib.contextmanager
def flooded(server: Process, name: str) -> Iterator[None]:
    """Send packets from another process while the block lasts, and until all are sent."""
    head, packets = FLOODS[name]
    port = server.addresses[head].rpartition(":")[2]
    command = [sys.executable, "-c", FLOOD, port, str(PACKETS)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, text=True) as flood:
        assert flood.stdin is not None
        flood.stdin.write("\n".join(each.hex() for each in packets))
        flood.stdin.close()
        yield
        assert flood.wait(120) == 0


@pytest.mark.parametrize("name", FLOODS)
def test_a_kafka_client_beside_a_flood_is_answered(server: Process, name: str) -> None:
    with contextlib.closing(Healthy(server.address)) as healthy:
        with server.within_bounds(), beside(healthy, server), flooded(server, name):
            pass
        healthy.check()


def test_a_kafka_client_beside_floods_of_both_is_answered(server: Process) -> None:
    with (
        contextlib.closing(Healthy(server.address)) as healthy,
        server.within_bounds(),
        beside(healthy, server),
        flooded(server, "requests for all there is"),
        flooded(server, "many names"),
    ):
        pass

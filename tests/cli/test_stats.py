"""StatsD metrics from the command line."""

import json
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from tests.cli.conftest import Run
from tests.in_process_server import server
from tests.processes import wait_until

import mainstem
from mainstem.cli.exit_codes import Exit
from mainstem.cli.output.metric_trends import Trends, sparkline
from mainstem.heads.statsd.aggregates import Aggregate
from mainstem.heads.statsd.settings import StatsdSettings
from mainstem.node.config import Config

STATSD = StatsdSettings(listen="127.0.0.1:0", flush_ms=100)
CONFIG = msgspec.structs.replace(Config(), heads=Config().heads | {"statsd": STATSD})
Send = Callable[[bytes], None]


@pytest.fixture
def send(own_directory: Path) -> Iterator[Send]:
    """Sends a packet to a server of the default directory, so that commands need no ``--at``."""
    with (
        server(own_directory / "mainstem-data", config=CONFIG) as running,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
    ):

        def to_server(packet: bytes) -> None:
            sender.sendto(packet, running.addresses["statsd"].pair)

        yield to_server


def shown(run: Run, *arguments: str) -> dict[str, dict[str, object]]:
    lines = run("stats", *arguments, "--format", "jsonl").out.splitlines()
    return {row["metric"]: row for row in map(json.loads, lines)}


def test_metrics_are_listed_with_what_happened_to_them(run: Run, send: Send) -> None:
    send(b"shop.orders:3|c|#env:test\nshop.page:20|ms\nshop.page:40|ms\nshop.heat:7|g\nnonsense")
    send(b"shop.users:ann|s\nother.jobs:1|c")
    wait_until(lambda: len(shown(run)) == 5, "the metrics are not shown")

    found = shown(run, "shop.*")
    assert found.keys() == {"shop.orders", "shop.page", "shop.heat", "shop.users"}
    assert found["shop.orders"]["tags"] == ["env:test"]
    assert (found["shop.page"]["mean"], found["shop.page"]["max"]) == (30, 40)
    points = found["shop.heat"]["points"]
    assert isinstance(points, list)
    assert {each["value"] for each in points} == {7}

    table = run("stats", "shop.heat", "--format", "table")
    title, heat = table.out.decode().splitlines()
    assert title.split() == ["METRIC", "TAGS", "TYPE", "LAST", "TREND"]
    assert heat.split()[:4] == ["shop.heat", "-", "gauge", "7"]
    assert "2 packets arrived; 0 were dropped (0.00%); 1 lines were not metrics" in table.err


def test_intervals_are_followed_as_they_end(send: Send) -> None:
    command = [sys.executable, "-m", "mainstem", "stats", "shop.orders", "--follow"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as following:
        try:
            assert following.stdout is not None
            send(b"shop.orders:3|c")
            first = json.loads(following.stdout.readline())
            send(b"shop.orders:4|c")
            second = json.loads(following.stdout.readline())
        finally:
            following.terminate()

    assert (first["count"], second["count"]) == (3, 4)
    assert first["end_ms"] <= second["start_ms"]


def test_nothing_to_show_is_told(run: Run, send: Send) -> None:
    send(b"a:1|c")
    none = run("stats", "b", "--format", "table")
    assert (none.code, none.out) == (Exit.OK, b"")
    assert "no metrics of this name" in none.err

    missing = run("stats", "--topic", "nothing")
    assert missing.code == Exit.NOT_FOUND
    assert "--statsd" in missing.err


def test_events_that_are_no_aggregates_are_counted(run: Run, own_directory: Path) -> None:
    with mainstem.open(own_directory / "mainstem-data") as stem:
        stem.publish("orders", {"id": 1})
        stem.publish("orders", b"\xff")

    found = run("stats", "--topic", "orders")

    assert (found.code, found.out) == (Exit.OK, b"")
    assert "2 events of the topic are not aggregates" in found.err


def test_a_trend_shows_how_numbers_compare_and_where_there_are_none() -> None:
    assert sparkline([]) == sparkline([None]) == ""
    assert sparkline([5, 5]) == "▁▁"
    assert sparkline([0, None, 50, 100]) == "▁ ▅█"
    assert sparkline([1e308, -1e308]) == "█▁"


def test_the_trends_of_all_metrics_are_of_the_same_intervals() -> None:
    trends = Trends(())
    for end_ms, name, value in ((10, "a", 1.0), (20, "b", 5.0), (30, "a", 2.0), (30, "b", 5.0)):
        gauge = Aggregate(name, "gauge", end_ms - 10, end_ms, value=value)
        trends.add(msgspec.json.encode(gauge))

    assert [row["trend"] for row in trends.rows()] == ["▁ █", " ▁▁"]

"""The comparison with Apache Kafka and NATS: its page, and a small run of it."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from xml.etree import ElementTree

import pytest
from bench.apache_kafka import missing as missing_kafka
from bench.kafka.measuring import Delay, Process, Taken, Taking, loading
from bench.kafka.nats import Nats
from bench.kafka.nats import missing as missing_nats
from bench.kafka.nats_client import NatsClient
from bench.kafka.peers_page import KAFKA, NATS, OURS, Row, Standing, Turn, draw, page
from bench.kafka.plan import DEFAULTS, QUICK, ROUND_TRIPS, Cell, Way

ROOT = Path(__file__).parents[2]
needs_nats = pytest.mark.skipif(bool(missing_nats()), reason=missing_nats())


def measured(what: str, way: Way, **rates: float) -> Row:
    row = Row(what, Cell(1000, way, 1, 100))
    for name, rate in ((OURS, rates["ours"]), (KAFKA, rates["kafka"]), (NATS, rates.get("nats"))):
        if rate:
            for share in (0.9, 1.0, 3.0):
                row.add(name, Turn(rate * share, 1.0, 2.0))
    return row


@pytest.fixture
def standing() -> Standing:
    """Two rows that meet their aims, and two that do not; slow to start, but small."""
    return Standing(
        "about",
        "4.3",
        "2.9",
        rows=[
            measured("produce, disk", DEFAULTS, ours=300, kafka=100, nats=200),
            measured("produce, disk", ROUND_TRIPS, ours=300, kafka=100, nats=400),
            measured("produce, synced", DEFAULTS, ours=250, kafka=100),
            measured("produce, synced", ROUND_TRIPS, ours=150, kafka=100),
        ],
        delays=[Delay(OURS, [1.0], [2.0]), Delay(KAFKA, [2.0], [4.0]), Delay(NATS, [2.0], [2.0])],
        processes=[
            Process(OURS, 500, 40, 50),
            Process(KAFKA, 4000, 400, 1200),
            Process(NATS, 1000, 80, 100),
        ],
    )


def test_what_falls_short_of_its_aim_is_said(standing: Standing) -> None:
    text = page(standing)

    short = [line for line in text.splitlines() if line.startswith("- ")]
    assert short == [
        "- produce, disk: 1000 B, one event per request, one in flight, 1 partition: "
        "0.75 of NATS JetStream (aim: 1.0)",
        "- produce, synced: 1000 B, one event per request, one in flight, 1 partition: "
        "1.50 of Apache Kafka (aim: 2.0)",
        "- process: start-up: 8.00 of Apache Kafka (aim: 10.0)",
    ]


def test_a_ratio_is_the_median_of_the_rounds_and_stands_in_the_table(standing: Standing) -> None:
    text = page(standing)

    assert "| 1000 B | librdkafka's defaults | 1 | 300 | 100 | 3.00 | 200 | 1.50 |" in text


def test_the_chart_has_a_bar_for_each_ratio(standing: Standing) -> None:
    drawn = ElementTree.fromstring(draw(standing))

    texts = [each.text for each in drawn.iter() if each.tag.endswith("text")]
    bars = [each for each in drawn.iter() if each.get("height") == "8"]
    assert len(bars) == 2 + 2 + 1 + 1 + 2 + 2 + 3 * 2
    assert {"produce, disk", "produce, synced", "latency at 1,000/s", "process"} < set(texts)


def test_an_event_that_comes_in_two_pieces_is_counted_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as other:
        port = listener.getsockname()[1]
        connecting = other.submit(NatsClient, f"127.0.0.1:{port}")
        peer, _ = listener.accept()
        peer.sendall(b"INFO {}\r\nPONG\r\n")
        client = connecting.result()
        counts = []
        for piece in (b"MSG a 1 $JS.A", b"CK.b 1\r\n\0\r\nMSG a 1 $JS.ACK.c 1\r\n\0\r\n", b"MSG"):
            peer.sendall(piece)
            counts.append(client.events())
        client.close()
        peer.close()

    assert counts == [0, 2, 0]


@pytest.fixture
def nats(tmp_path: Path) -> Iterator[Nats]:
    """A server."""
    server = Nats(tmp_path / "nats")
    server.start()
    yield server
    server.stop()


@needs_nats
@pytest.mark.parametrize("way", [DEFAULTS, ROUND_TRIPS])
def test_nats_gets_and_gives_what_is_asked_for(nats: Nats, way: Way) -> None:
    cell = Cell(100, way, 3, 12_345 if way is DEFAULTS else 50)
    written, read = Taken(), Taken()

    with loading("bench.kafka.nats_load") as load:
        Taking(load).fill(nats, cell, written)
        held = nats.count(cell.topic, cell.partitions)
        Taking(load).read(nats, cell, 2, read)

    # One is sent to connect.
    assert held == cell.events + 1
    assert written.per_second[0] > 0
    assert read.per_second[0] > 0


@needs_nats
def test_events_of_nats_are_timed_from_one_process_to_another(nats: Nats) -> None:
    delay = Delay(nats.name)

    with loading("bench.kafka.nats_load") as load, loading("bench.kafka.nats_load") as reader:
        Taking(load).pace(nats, reader, "pace-1", QUICK, delay)

    assert 0 < delay.p50_ms[0] <= delay.p99_ms[0] <= delay.highest_ms[0]


@pytest.mark.peers
@pytest.mark.skipif(bool(missing_kafka()), reason=missing_kafka())
@needs_nats
def test_everything_is_measured_beside_apache_kafka_and_nats(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench.kafka.peers", "--quick", "--dir", str(tmp_path)]

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    rows = [line.split(" | ") for line in done.stdout.splitlines() if line.startswith("| 1000 B")]
    # Produced on disk, synced, read; and by many readers.
    assert len(rows) == 2 + 2 + 1 + 1
    for system in (OURS, KAFKA, NATS):
        # How old events are, and what the process takes.
        assert done.stdout.count(f"\n| {system} |") == 2
    assert not list(tmp_path.iterdir())

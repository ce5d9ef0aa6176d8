"""ZmqFeed: every event once and in order, whatever is away; the same without a broker loses."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq
from tests.faults.killable_server import free_port
from tests.heads.server_process import Process
from tests.processes import wait_until

import mainstem
from mainstem.core.errors import InvalidSetting, MessagesLost, Unreachable
from mainstem.feeds import FeedRefused, ZmqFeed, ZmqPatience

COUNT = 20_000
QUICK = ZmqPatience(answer_s=0.2, check_s=0.2)
PATIENCE_S = 120


def words(first: int, end: int) -> list[bytes]:
    return [b"message %07d" % each for each in range(first, end)]


def settings(**more: object) -> dict[str, object]:
    return {
        "zmq__listen": f"127.0.0.1:{free_port()}",
        "zmq__publish": f"127.0.0.1:{free_port()}",
    } | more


@pytest.fixture
def data(tmp_path: Path) -> Path:
    with mainstem.open(tmp_path / "data") as stem:
        stem.topics.create("trades", partitions=1)
    return tmp_path / "data"


def publish(server: Process, first: int, end: int) -> None:
    with mainstem.connect(server.address) as stem:
        stem.publish_many("trades", words(first, end))


def take(feed: ZmqFeed, count: int) -> list[bytes | None]:
    """Return so many values; fails if the next event is late."""
    found = list[bytes | None]()
    while len(found) < count:
        event = feed.poll(PATIENCE_S)
        assert event is not None, f"nothing comes after {len(found)} of {count}"
        found.append(event.value)
    return found


def test_a_subscriber_that_was_away_catches_up_though_the_server_is_killed(data: Path) -> None:
    asked = settings()
    third = COUNT // 3
    url = f"tcp://{asked['zmq__listen']}"
    with (
        Process(data, **asked) as server,
        ZmqFeed(url, "trades", patience=QUICK) as feed,
        ZmqFeed(url, "trades", patience=QUICK) as steady,
    ):
        publisher = threading.Thread(target=publish, args=(server, 0, third))
        publisher.start()
        received = take(feed, third // 2)
        position = feed.positions
        publisher.join()
        followed = take(steady, third)

        # It is away, and the server is killed -9 twice.
        feed.close()
        server.__exit__()
        with Process(data, **asked) as again:
            publish(again, third, 2 * third)
            followed += take(steady, third // 2)
        with Process(data, **asked) as last:
            with ZmqFeed(url, "trades", start=position, patience=QUICK) as back:
                received += take(back, third)
                publish(last, 2 * third, COUNT)
                received += take(back, COUNT - len(received))
                report = back.report()
            followed += take(steady, COUNT - len(followed))
            steady_report = steady.report()

    print(report, steady_report)  # noqa: T201 - figures for whoever asks with -s
    assert received == words(0, COUNT)
    assert followed == words(0, COUNT)
    assert report.recovered > third
    assert report.lost == steady_report.lost == 0


BROKERLESS = """
import sys, zmq
publisher = zmq.Context().socket(zmq.XPUB)
publisher.setsockopt(zmq.SNDHWM, 0)
publisher.bind(sys.argv[1])
first, end = int(sys.argv[2]), int(sys.argv[3])
print("bound", flush=True)
if sys.argv[4] == "waits":
    publisher.recv()
for number in range(first, end):
    publisher.send(b"message %07d" % number)
print("sent", flush=True)
sys.stdin.read()
"""


def test_without_the_log_the_same_programs_lose_what_was_sent_meanwhile() -> None:
    url = f"tcp://127.0.0.1:{free_port()}"
    third = COUNT // 3
    peers = zmq.Context[zmq.Socket[bytes]]()
    received = list[bytes]()

    def publisher(first: int, end: int, waits: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-c", BROKERLESS, url, str(first), str(end), waits]
        started = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert started.stdout is not None
        assert started.stdout.readline() == "bound\n"
        return started

    def subscriber() -> "zmq.Socket[bytes]":
        found = peers.socket(zmq.SUB)
        found.setsockopt(zmq.RCVHWM, 0)
        found.subscribe(b"")
        found.connect(url)
        return found

    def sent(program: "subprocess.Popen[str]") -> None:
        assert program.stdout is not None
        assert program.stdout.readline() == "sent\n"

    with peers:
        with publisher(0, third, "waits") as first:
            before = subscriber()
            sent(first)
            received += [before.recv() for _ in range(third // 2)]
            # The subscriber is away; the publisher is killed -9 with what it has queued.
            before.close(0)
            first.kill()
        with publisher(third, 2 * third, "at once") as second:
            sent(second)
            second.kill()
        with publisher(2 * third, COUNT, "waits") as last:
            back = subscriber()
            sent(last)
            received += [back.recv() for _ in range(COUNT - 2 * third)]
            back.close(0)
            last.kill()

    lost = sorted(set(words(0, COUNT)) - set(received))
    print(f"lost without the log: {len(lost)} of {COUNT}")  # noqa: T201 - for whoever asks with -s
    assert lost == words(third // 2, 2 * third)


@pytest.fixture
def url(data: Path) -> Iterator[tuple[Process, str]]:
    asked = settings()
    with Process(data, **asked) as server:
        yield server, f"tcp://{asked['zmq__listen']}"


def test_a_feed_begins_where_it_is_told_to(url: tuple[Process, str]) -> None:
    server, address = url
    publish(server, 0, 10)

    with ZmqFeed(address, "trades", start="latest", patience=QUICK) as latest:
        publish(server, 10, 12)
        with ZmqFeed(address, "trades", start={0: 8}, patience=QUICK) as middle:
            assert take(latest, 2) == words(10, 12)
            assert take(middle, 4) == words(8, 12)
            assert middle.positions == {0: 12}
            assert middle.poll(0) is None


def test_what_retention_has_deleted_is_told_and_can_be_skipped(url: tuple[Process, str]) -> None:
    server, address = url
    publish(server, 0, 10)
    with mainstem.connect(server.address) as stem:
        stem.topics.trim("trades", 6, partition=0)

    with ZmqFeed(address, "trades", start={0: 2}, patience=QUICK) as feed:
        with pytest.raises(MessagesLost, match="2 to 5"):
            feed.poll(PATIENCE_S)
        assert feed.skip() == (0, 2, 5)
        assert take(feed, 4) == words(6, 10)
        assert feed.report().lost == 4


def test_a_stopped_subscriber_gets_what_pub_dropped_for_it(data: Path) -> None:
    asked = settings(zmq__high_water_mark=10)
    with (
        Process(data, **asked) as server,
        ZmqFeed(
            f"tcp://{asked['zmq__listen']}",
            "trades",
            patience=ZmqPatience(answer_s=0.2, check_s=0.2, max_held=10),
        ) as feed,
        # One that reads nothing holds up nobody.
        zmq.Context[zmq.Socket[bytes]]() as peers,
        peers.socket(zmq.SUB) as stopped,
    ):
        stopped.set(zmq.RCVBUF, 4096)
        stopped.set(zmq.RCVHWM, 1)
        stopped.subscribe(b"")
        stopped.connect(f"tcp://{asked['zmq__publish']}")
        publish(server, 0, 10)
        assert take(feed, 10) == words(0, 10)

        publish(server, 10, COUNT)
        wait_until(lambda: server.metric("mainstem_zmq_dropped_total") > 0, "nothing is dropped")

        assert take(feed, COUNT - 10) == words(10, COUNT)
        assert feed.report().recovered > 10


def test_refusals_say_what_to_do(url: tuple[Process, str]) -> None:
    _, address = url

    with pytest.raises(FeedRefused, match="nobody"):
        ZmqFeed(address, "nobody")
    with pytest.raises(Unreachable, match="mainstem serve"):
        ZmqFeed(f"tcp://127.0.0.1:{free_port()}", "trades", timeout_s=0.2)
    with pytest.raises(InvalidSetting, match="MulticastFeed"):
        ZmqFeed("epgm://eth0;239.1.1.1:5555", "trades")


@pytest.mark.parametrize(
    ("setting", "value", "words"),
    [
        ("zmq.pull", "orders=epgm://239.1.1.1:5555", "epgm:// is not supported"),
        ("zmq.collect", "orders=pgm://239.1.1.1:5555", "multicast feed"),
        ("zmq.collect", "orders=ipc:///tmp/x", "only tcp://"),
        ("zmq.push", "orders=127.0.0.1:0", "TOPIC/NAME=HOST:PORT"),
        ("zmq.push", "nobody/queue=127.0.0.1:0", "nobody"),
        ("zmq.security", "curve", "curve_key"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(
    tmp_path: Path, setting: str, value: str, words: str
) -> None:
    command = [sys.executable, "-m", "mainstem", "serve", str(tmp_path), "--kafka", "off"]
    command += ["--admin", "off", "--zmq", "127.0.0.1:0", "--set", f"{setting}={value}"]
    ran = subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE_S, env=os.environ, check=False
    )

    assert ran.returncode != 0
    assert words in ran.stderr
    assert "Traceback" not in ran.stderr

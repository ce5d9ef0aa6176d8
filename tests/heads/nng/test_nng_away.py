"""Plain subscribers of pynng and nngcat that are away, or killed, while the server is killed, too.

What the same programs lose without the log: ``tests/client/feeds/test_topic_feeds.py``.
"""

import contextlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pynng
import pytest
from tests.faults.killable_server import free_port
from tests.heads.server_process import Process, connected
from tests.processes import wait_until

import mainstem
from mainstem.core.errors import MessagesLost
from mainstem.core.event import Event
from mainstem.feeds import FeedPatience, NngFeed
from mainstem.heads.nng import sp

NAME, TOPIC, COUNT = "desk", "trades", 6_000
BUFFER = 8_192
"""A sub0 that drops nothing itself: it has room for everything."""
PATIENCE_MS = 60_000
_WORD = re.compile(rb"message (\d{7})")


def numbers(data: bytes) -> list[int]:
    return [int(each) for each in _WORD.findall(data)]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    with mainstem.open(tmp_path / "data") as stem:
        stem.topics.create(TOPIC, partitions=1)
    return tmp_path / "data"


@pytest.fixture
def asked() -> dict[str, object]:
    return {
        "nng__listen": "127.0.0.1:0",
        "nng__subscribers": f"{TOPIC}/{NAME}=127.0.0.1:{free_port()}",
        "nng__subscriber_rate": 20_000,
    }


def url(asked: dict[str, object]) -> str:
    return "tcp://" + str(asked["nng__subscribers"]).partition("=")[2]


def publish(server: Process, first: int, end: int) -> None:
    with mainstem.connect(server.address) as stem:
        stem.publish_many(TOPIC, [Event(b"message %07d" % each) for each in range(first, end)])


@contextlib.contextmanager
def subscribed(address: str) -> "Iterator[pynng.Sub0]":
    with pynng.Sub0(topics=[b""], recv_buffer_size=BUFFER, recv_timeout=PATIENCE_MS) as found:
        found.dial(address, block=False)
        yield found


def take_until(subscriber: "pynng.Sub0", last: int) -> list[int]:
    """Return what comes up to an event."""
    found = list[int]()
    while not found or found[-1] != last:
        found += numbers(subscriber.recv())
    return found


def behind(server: Process) -> int:
    with mainstem.connect(server.address) as stem:
        known = [each for each in stem.groups.list() if each.name == NAME]
        return sum(each.lag for each in known) if known else COUNT


def test_a_plain_sub0_that_was_away_gets_everything_though_the_server_is_killed(
    data: Path, asked: dict[str, object]
) -> None:
    third = COUNT // 3
    with Process(data, **asked) as server:
        publish(server, 0, third)
        with subscribed(url(asked)) as subscriber:
            assert take_until(subscriber, third - 1) == list(range(third))
            wait_until(lambda: behind(server) <= 128, "the cursor does not move")
        # It is away; leaving the block kills the server with SIGKILL.
        publish(server, third, 2 * third)
    with Process(data, **asked) as again:
        publish(again, 2 * third, COUNT)
        with subscribed(url(asked)) as subscriber:
            found = take_until(subscriber, COUNT - 1)

    # In order, from the cursor on: the last events before it was away come again.
    assert found == list(range(third - 128, COUNT))


def test_a_sub0_that_stays_gets_everything_though_the_server_is_killed(
    data: Path, asked: dict[str, object]
) -> None:
    half = COUNT // 2
    found = list[int]()
    with subscribed(url(asked)) as subscriber:
        with Process(data, **asked) as server:
            publish(server, 0, half)
            while len(found) < half // 2:
                found += numbers(subscriber.recv())
        with Process(data, **asked) as again:
            publish(again, half, COUNT)
            found += take_until(subscriber, COUNT - 1)

    assert sorted(set(found)) == list(range(COUNT))


SUBSCRIBER = """
import pynng, sys
with pynng.Sub0(topics=[b""], recv_buffer_size=512, recv_timeout=20_000) as found:
    found.dial(sys.argv[1], block=False)
    for _ in range(int(sys.argv[2])):
        sys.stdout.buffer.write(found.recv()[-15:] + b"\\n")
    sys.stdout.buffer.flush()
    sys.stdin.read()
"""


def test_a_subscriber_that_is_killed_gets_again_what_its_buffer_held(
    data: Path, asked: dict[str, object]
) -> None:
    asked |= {"nng__subscriber_rate": 1_000, "nng__subscriber_repeat": 512}

    def hear(count: int) -> list[int]:
        command = [sys.executable, "-c", SUBSCRIBER, url(asked), str(count)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE) as program:
            assert program.stdout is not None
            found = [numbers(program.stdout.readline()) for _ in range(count)]
            # The other messages are in the memory of the program when it is killed.
            wait_until(lambda: behind(server) <= 512, "not everything is sent")
            program.kill()
        return [each for line in found for each in line]

    with Process(data, **asked) as server:
        publish(server, 0, 1_000)
        assert hear(600) == list(range(600))
        assert hear(512) == list(range(488, 1_000))


@pytest.mark.skipif(shutil.which("nngcat") is None, reason="needs nngcat (Debian: nng-utils)")
def test_nngcat_that_was_away_gets_everything_though_the_server_is_killed(
    data: Path, asked: dict[str, object]
) -> None:
    # nngcat has the default buffer, for 128 messages.
    asked |= {"nng__subscriber_rate": 400}
    third, found = 300, set[int]()
    command = ["nngcat", "--sub", "--subscribe", f"{TOPIC}/", "--raw", "--dial", url(asked)]
    # A failing test ends then.
    command += ["--recv-timeout", "20"]

    def hear(last: int) -> None:
        with subprocess.Popen(command, stdout=subprocess.PIPE) as program:
            assert program.stdout is not None
            heard = b""
            while not heard.endswith(b"message %07d" % last):
                read = os.read(program.stdout.fileno(), 65_536)
                if not read:
                    break
                heard += read
            found.update(numbers(heard))
            program.kill()

    with Process(data, **asked) as server:
        publish(server, 0, third)
        hear(third - 1)
        publish(server, third, 2 * third)
    with Process(data, **asked) as again:
        publish(again, 2 * third, 3 * third)
        hear(3 * third - 1)

    assert found == set(range(3 * third))


QUICK = FeedPatience(answer_s=0.2, check_s=0.2, max_held=10)


def feeds(**more: object) -> dict[str, object]:
    addresses = {f"nng__{name}": f"127.0.0.1:{free_port()}" for name in ("listen", "publish")}
    return {**addresses, "nng__topics": TOPIC, **more}


def take(feed: NngFeed, count: int) -> list[int]:
    found = list[int]()
    while len(found) < count:
        event = feed.poll(PATIENCE_MS / 1000)
        assert event is not None, f"nothing comes after {len(found)} of {count}"
        found += numbers(event.value or b"")
    return found


def test_a_feed_gets_what_pub_of_nng_dropped_for_it(data: Path) -> None:
    asked = feeds(nng__queue_length=1)
    with (
        Process(data, **asked) as server,
        NngFeed(f"tcp://{asked['nng__listen']}", TOPIC, patience=QUICK) as feed,
        # One that reads nothing holds up nobody.
        connected(str(asked["nng__publish"]), 4096) as stopped,
    ):
        stopped.sendall(sp.header(sp.SUB))
        publish(server, 0, 10)
        assert take(feed, 10) == list(range(10))

        for first in range(10, 100_010, 20_000):
            publish(server, first, first + 20_000)
        dropped = "mainstem_nng_dropped_total"
        wait_until(lambda: server.metric(dropped) > 0, "nothing is dropped")

        assert take(feed, 100_000) == list(range(10, 100_010))


def test_a_feed_of_nng_is_told_what_retention_has_deleted(data: Path) -> None:
    asked = feeds()
    with Process(data, **asked) as server:
        publish(server, 0, 10)
        with mainstem.connect(server.address) as stem:
            stem.topics.trim(TOPIC, 6, partition=0)
        address = f"tcp://{asked['nng__listen']}"
        with NngFeed(address, TOPIC, start={0: 2}, patience=QUICK) as feed:
            with pytest.raises(MessagesLost, match="2 to 5"):
                feed.poll(PATIENCE_MS / 1000)
            assert feed.skip() == (0, 2, 5)
            assert take(feed, 4) == list(range(6, 10))

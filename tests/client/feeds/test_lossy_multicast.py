"""A feed over a lossy network, while its server is killed and a receiver is away.

Each receiver has every message once and in order in the end; one that requests nothing does not.
"""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from tests.client.feeds.networks import NAMESPACES, Namespaces, Network, OneMachine, Place
from tests.client.feeds.relay import by_chance, every
from tests.heads.moldudp64.feed_head import new_group
from tests.heads.server_process import Process
from tests.long_runs import LONG
from tests.processes import wait_until

import mainstem

COUNT = 1_000_000 if LONG else 15_000
PACKETS_PER_S = COUNT // (2_000 if LONG else 200)
"""Slow enough that a server is killed before it has sent what was published meanwhile."""
PATIENCE_S = 600


def free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def words(first: int, end: int) -> list[bytes]:
    return [b"message %07d, as long as trades are" % each for each in range(first, end)]


class Receiver:
    """A receiver's process, and the file with what it has received."""

    def __init__(self, file: Path, place: Place, count: int, *, asks: bool = True) -> None:
        self.file = file
        self._command = [
            *place.command,
            sys.executable,
            "-m",
            "tests.client.feeds.receiver_program",
        ]
        self._command += [str(file), place.group, str(count), *([place.requests] if asks else [])]
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True)

    def has(self, count: int) -> bool:
        """Tell whether it has received so many messages, or its process has ended."""
        size = self.file.stat().st_size if self.file.exists() else 0
        return size >= count * (len(words(0, 1)[0]) + 1) or self.process.poll() is not None

    def requests(self) -> list[tuple[int, int]]:
        """Return the first sequence number and the count of each request that it made."""
        lines = self.file.with_suffix(".requests").read_text().splitlines()
        return [(int(first), int(count)) for first, count in map(str.split, lines)]

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def result(self) -> dict[str, object]:
        """Wait for its end; return what it printed last."""
        out, _ = self.process.communicate(timeout=PATIENCE_S)
        assert self.process.returncode == 0
        found: dict[str, object] = json.loads(out.splitlines()[-1])
        return found


@contextmanager
def receivers(*found: Receiver) -> Iterator[None]:
    try:
        yield
    finally:
        for each in found:
            if each.process.poll() is None:
                each.kill()


def publish(server: Process, first: int, end: int) -> None:
    with mainstem.connect(server.address) as stem:
        stem.publish_many("trades", words(first, end))


def kill_in_the_midst_of_sending(server: Process, published: int) -> None:
    """Kill -9 a server that has much left to send."""
    sent = int(server.metric("mainstem_moldudp64_next_sequence")) - 1
    server.tell(signal.SIGKILL)
    server.wait()
    print(f"killed when {sent:,} of {published:,} were sent")  # noqa: T201 - for whoever asks with -s
    # Those that were sent between the two are fewer.
    assert published - COUNT // 3 < sent < published - COUNT // 12


def requests_of(receiver: Receiver, report: dict[str, object]) -> str:
    """Return a line about what a receiver asked for, also before it was killed."""
    made = receiver.requests()
    return (
        f"{receiver.file.stem}: {len(made):,} requests for {sum(n for _, n in made):,} messages, "
        f"the first ones {made[:3]}; {report}"
    )


@pytest.mark.timeout(PATIENCE_S + 300)
@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: OneMachine(lambda _: every(20)), id="every 20th packet"),
        pytest.param(
            lambda: Namespaces(lambda _: every(20)),
            id="namespaces, every 20th packet",
            marks=NAMESPACES,
        ),
        pytest.param(
            lambda: Namespaces(lambda seed: by_chance(seed, lost=0.05)),
            id="namespaces, 5 % by chance",
            marks=NAMESPACES,
        ),
    ],
)
def test_every_receiver_has_every_message_once_and_in_order(
    tmp_path: Path, make: Callable[[], Network]
) -> None:
    sent, received = new_group(), new_group()
    requests = f"127.0.0.1:{free_port()}"
    settings: dict[str, object] = {
        "moldudp64__listen": requests,
        "moldudp64__feeds": f"S1=trades/0@{sent}",
        "moldudp64__packets_per_s": PACKETS_PER_S,
        "moldudp64__heartbeat_ms": 100,
    }
    with mainstem.open(tmp_path / "data") as stem:
        stem.topics.create("trades")
    with closing(make()) as network:
        named = [tmp_path / name for name in ("steady", "also", "away")]
        steady, also, away = (
            Receiver(it, network.place(sent, received, requests), COUNT) for it in named
        )
        without = network.place(sent, received, requests)
        alone = Receiver(tmp_path / "alone", without, COUNT, asks=False)
        assert alone.process.stdout is not None
        assert alone.process.stdout.readline() == "ready\n"
        with receivers(steady, also, away, alone):
            third = COUNT // 3
            with Process(tmp_path / "data", **settings) as server:
                publish(server, 0, third)
                wait_until(lambda: away.has(third // 4), "nothing arrives")
                away.kill()
                kill_in_the_midst_of_sending(server, third)
            with Process(tmp_path / "data", **settings) as server:
                publish(server, third, 2 * third)
                wait_until(lambda: steady.has(third + third // 4), "nothing more arrives")
                kill_in_the_midst_of_sending(server, 2 * third)
            with Process(tmp_path / "data", **settings) as server:
                publish(server, 2 * third, COUNT)
                wait_until(lambda: also.has(2 * third), "nothing more arrives", PATIENCE_S)
                away.start()
                reports = [each.result() for each in (steady, also, away)]
                lost = COUNT - int(str(alone.result()["received"]))
                answered = server.metric('mainstem_moldudp64_requests_total{outcome="answered"}')

    for receiver, report in zip((steady, also, away), reports, strict=True):
        print(requests_of(receiver, report))  # noqa: T201 - figures for whoever asks with -s
    print(network.counts(), f"lost without requests: {lost}", f"answered last: {answered:.0f}")  # noqa: T201
    expected = b"".join(each + b"\n" for each in words(0, COUNT))
    for each in named:
        assert each.read_bytes() == expected
    assert all(int(str(report["requests"])) > 0 for report in reports)
    assert int(str(reports[2]["recovered"])) > COUNT // 3
    assert network.counts()["lost"] > 0
    assert 0 < lost < COUNT


def test_a_receiver_that_stands_still_gets_what_it_missed(tmp_path: Path) -> None:
    group = new_group()
    requests = f"127.0.0.1:{free_port()}"
    with mainstem.open(tmp_path / "data") as stem:
        stem.topics.create("trades")
    with Process(
        tmp_path / "data", moldudp64__listen=requests, moldudp64__feeds=f"S1=trades/0@{group}"
    ) as server:
        receiver = Receiver(tmp_path / "slow", Place((), group, requests), 20_000)
        with receivers(receiver):
            publish(server, 0, 1000)
            wait_until(lambda: receiver.has(1000), "nothing arrives")
            os.kill(receiver.process.pid, signal.SIGSTOP)
            publish(server, 1000, 20_000)
            os.kill(receiver.process.pid, signal.SIGCONT)
            receiver.result()

    assert receiver.file.read_bytes().splitlines() == words(0, 20_000)

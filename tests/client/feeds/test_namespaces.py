"""Peers in network namespaces of their own, behind wires that lose packets or cut connections."""

import random
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from tests.client.feeds.networks import NAMESPACES, CutWire, Namespace, Namespaces, multicast
from tests.client.feeds.relay import by_chance, every
from tests.faults.killable_server import free_port
from tests.foreign_clients.c_programs import LIBZMQ, compiled
from tests.heads.moldudp64.dissector import TSHARK, capturing, dissected, kinds
from tests.heads.moldudp64.feed_head import new_group
from tests.heads.server_process import Process

import mainstem
from mainstem.client.feeds.multicast import MulticastFeed
from mainstem.heads.moldudp64.codec import Packet, encode_packet

pytestmark = NAMESPACES
COUNT = 10_000
PATIENCE_S = 120


def words(first: int, end: int) -> list[bytes]:
    return [b"message %07d" % each for each in range(first, end)]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    with mainstem.open(tmp_path / "data") as stem:
        stem.topics.create("trades", partitions=1)
    return tmp_path / "data"


def test_two_groups_that_lose_different_packets_make_a_whole_feed_without_requests(
    data: Path,
) -> None:
    first, second, heard = new_group(), new_group(), (new_group(), new_group())
    with (
        Process(
            data,
            moldudp64__listen="127.0.0.1:0",
            moldudp64__feeds=f"S1=trades/0@{first}+{second}",
            moldudp64__heartbeat_ms=50,
        ) as server,
        Namespace() as own,
        ExitStack() as wires,
    ):
        # Never the same packet: every third is lost of one, the one after it of the other.
        lost = (lambda number: number % 3 == 0), (lambda number: number % 3 == 1)
        relays = [
            multicast(wires, sent, received, _lost_if(loses), own)
            for sent, received, loses in zip((first, second), heard, lost, strict=True)
        ]
        with own.inside():
            feed = MulticastFeed(heard, requests=None)
        with feed:
            with mainstem.connect(server.address) as stem:
                stem.publish_many("trades", words(0, COUNT))
            found = [feed.poll(PATIENCE_S) for _ in range(COUNT)]
            report = feed.report()
        lost_packets = [each.counts["lost"] for each in relays]

    print(report, lost_packets)  # noqa: T201 - figures for whoever asks with -s
    assert [each and each.data for each in found] == words(0, COUNT)
    assert min(lost_packets) > 10
    assert (report.requests, report.lost) == (0, 0)
    assert report.duplicates > 0


def _lost_if(loses: Callable[[int], bool]) -> Callable[[int], str]:
    return lambda number: "lost" if loses(number) else "kept"


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda _: every(10), id="every 10th packet", marks=TSHARK),
        pytest.param(lambda seed: by_chance(seed, 0.1, 0.1, 0.1), id="by chance", marks=TSHARK),
    ],
)
def test_tshark_finds_no_malformed_packet_behind_a_network_that_loses_some(
    data: Path, tmp_path: Path, make: Callable[[int], Callable[[int], str]]
) -> None:
    sent, received, capture = new_group(), new_group(), tmp_path / "feed.pcap"
    requests = f"127.0.0.1:{free_port()}"
    with closing(Namespaces(make)) as network:
        place = network.place(sent, received, requests)
        command = [*place.command, sys.executable, "-m", "mainstem", "feed", "listen"]
        with (
            capturing(capture, place.command),
            Process(
                data,
                moldudp64__listen=requests,
                moldudp64__feeds=f"S1=trades/0@{sent}",
                moldudp64__heartbeat_ms=50,
            ) as server,
            subprocess.Popen(
                [*command, received, "--requests", requests], stdout=subprocess.PIPE
            ) as listener,
        ):
            assert listener.stdout is not None
            with mainstem.connect(server.address) as stem:
                stem.publish_many("trades", words(0, COUNT))
            heard = [listener.stdout.readline() for _ in range(COUNT)]
            while encode_packet(Packet("S1", COUNT + 1)) not in capture.read_bytes():
                assert listener.poll() is None
            listener.kill()
        counts = network.counts()

    assert all(b'"message %07d"' % number in line for number, line in enumerate(heard))
    packets = dissected(capture, [int(each.rpartition(":")[2]) for each in (received, requests)])
    print(kinds(packets), counts)  # noqa: T201 - figures for whoever asks with -s
    assert kinds(packets).keys() == {"messages", "heartbeat", "request"}
    assert counts["lost"] > 0
    assert sum(kinds(packets).values()) > COUNT / 100


def _in_python(style: str) -> Callable[[Path, int], Sequence[str]]:
    module = "tests.client.feeds.follower_program"
    return lambda _, port: [sys.executable, "-m", module, style, str(port), "trades", str(COUNT)]


def _in_c(folder: Path, port: int) -> Sequence[str]:
    return [compiled("follow", folder, "zmq"), "127.0.0.1", str(port), "trades", str(COUNT)]


@pytest.mark.parametrize(
    ("style", "command"),
    [
        pytest.param("zmq", _in_python("zmq"), id="ZmqFeed"),
        pytest.param("nng", _in_python("nng"), id="NngFeed"),
        pytest.param("zmq", _in_c, id="a C program on libzmq", marks=LIBZMQ),
    ],
)
def test_who_follows_over_connections_that_are_cut_has_every_event_once_and_in_order(
    data: Path, tmp_path: Path, style: str, command: Callable[[Path, int], Sequence[str]]
) -> None:
    ports = free_port(), free_port()
    settings: dict[str, object] = {
        f"{style}__{name}": f"127.0.0.1:{port}"
        for name, port in zip(("listen", "publish"), ports, strict=True)
    }
    settings |= {"nng__topics": "trades"} if style == "nng" else {}
    chance = random.Random(3)
    with (
        Process(data, **settings) as server,
        Namespace() as own,
        CutWire(own, ports[0], chance) as replays,
        CutWire(own, ports[1], chance) as live,
        subprocess.Popen(
            [*own.command, *command(tmp_path, ports[0])], stdout=subprocess.PIPE
        ) as follower,
        mainstem.connect(server.address) as stem,
    ):
        assert follower.stdout is not None
        found = list[bytes]()
        for first in range(0, COUNT, 500):
            stem.publish_many("trades", words(first, first + 500))
            # So that some events come live, and some are requested.
            found += [follower.stdout.readline().rstrip() for _ in range(400)]
        found += follower.stdout.read().splitlines()
        assert follower.wait(PATIENCE_S) == 0
        print(f"cut: {replays.cuts} and {live.cuts} times")  # noqa: T201 - for -s

    assert found == words(0, COUNT)
    assert replays.cuts > 0
    assert live.cuts > 0

"""Measures direct messaging beside the bare libraries.

    python -m bench.direct --rounds 5    about three minutes; writes docs/benchmarks/direct.md
    python -m bench.direct --quick       prints, and writes nothing

How this works: each receiver is a process of its own. Bare, the sender publishes to it through the
library itself. With us, a server is between them: for throughput the sender publishes to its Kafka
address in batches, for latency one message at a time to ``zmq.pull``; the server appends to a topic
with durability ``disk``, and publishes from there. All take turns.
"""

import argparse
import contextlib
import json
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pynng
import zmq
from bench.direct.receiver import STAMP
from bench.kafka.page import table
from bench.kafka.systems import COMMAND, PATIENCE_S, ROOT
from tests.faults.killable_server import free_port
from tests.heads.moldudp64.feed_head import new_group

import mainstem
from mainstem.cli.benchmarks.report import machine

PAGE = ROOT / "docs" / "benchmarks" / "direct.md"
PADDING = bytes(100 - STAMP.size)
SINGLY = 1_000
Send = Callable[[list[bytes]], None]


class Style(NamedTuple):
    """A way of messaging: its name, the receiver, and what it is compared with."""

    name: str
    receiver: str
    bare: str = ""


BARE_ZMQ, BARE_NNG, BARE_UDP = "bare pyzmq PUB/SUB", "bare pynng pub0/sub0", "bare UDP multicast"
STYLES = (
    Style(BARE_ZMQ, "bare_zmq"),
    Style("bare pyzmq, three frames", "bare_zmq_frames", BARE_ZMQ),
    Style("mainstem, ZeroMQ, a SUB socket", "sub_of_ours", BARE_ZMQ),
    Style("mainstem, ZeroMQ, ZmqFeed", "zmq_feed", BARE_ZMQ),
    Style(BARE_NNG, "bare_nng"),
    Style("mainstem, nng, NngFeed", "nng_feed", BARE_NNG),
    Style(BARE_UDP, "bare_multicast"),
    Style("mainstem, MoldUDP64, MulticastFeed", "multicast_feed", BARE_UDP),
)


class Round(NamedTuple):
    """What was measured once."""

    rate: float
    lost: float
    p50_us: float
    p99_us: float


class Received(NamedTuple):
    """What a receiver tells."""

    messages: int
    seconds: float
    ns: list[float]


def message(kind: bytes = b"m") -> bytes:
    return STAMP.pack(kind, time.monotonic_ns()) + PADDING


@contextlib.contextmanager
def bare(receiver: str) -> Iterator[tuple[str, Send, Send]]:
    """Publish through the library itself; yield where, and how to send many, and one at a time."""
    address = f"tcp://127.0.0.1:{free_port()}"
    with contextlib.ExitStack() as stack:
        if receiver.startswith("bare_zmq"):
            context = stack.enter_context(zmq.Context[zmq.Socket[bytes]]())
            publisher = stack.enter_context(context.socket(zmq.PUB))
            publisher.setsockopt(zmq.SNDHWM, 0)
            publisher.setsockopt(zmq.LINGER, 0)
            publisher.bind(address)
            one: Callable[[bytes], object] = publisher.send
            if receiver == "bare_zmq_frames":
                details = bytes(29)

                def one(data: bytes) -> object:
                    return publisher.send_multipart((b"trades/", data, details))

        elif receiver == "bare_nng":
            one = stack.enter_context(pynng.Pub0(listen=address, send_buffer_size=8192)).send
        else:
            address = new_group()
            host, _, port = address.partition(":")
            sender = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            loopback = socket.inet_aton("127.0.0.1")
            sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, loopback)
            to = host, int(port)

            def one(data: bytes) -> object:
                return sender.sendto(data, to)

        def send(messages: list[bytes]) -> None:
            for each in messages:
                one(each)

        yield address, send, send


@contextlib.contextmanager
def ours(receiver: str) -> Iterator[tuple[str, Send, Send]]:
    """Publish through a server; yield where to receive, and how to send."""
    ports = {name: f"127.0.0.1:{free_port()}" for name in ("kafka", "zmq", "pub", "pull", "nng")}
    requests, group = f"127.0.0.1:{free_port()}", new_group()
    settings = {
        "zmq.publish": ports["pub"],
        "zmq.pull": f"trades={ports['pull']}",
        "zmq.high_water_mark": 10_000_000,
        "nng.publish": "127.0.0.1:0",
        "nng.topics": "trades",
        "moldudp64.feeds": f"S1=trades/0@{group}",
        "moldudp64.packets_per_s": 100_000,
    }
    heads = {
        "zmq_feed": ["--zmq", ports["zmq"]],
        "sub_of_ours": ["--zmq", ports["zmq"]],
        "nng_feed": ["--zmq", ports["zmq"], "--nng", ports["nng"]],
        "multicast_feed": ["--zmq", ports["zmq"], "--moldudp64", requests],
    }[receiver]
    where = {
        "zmq_feed": f"tcp://{ports['zmq']}",
        "sub_of_ours": f"tcp://{ports['pub']}",
        "nng_feed": f"tcp://{ports['nng']}",
        "multicast_feed": f"{group},{requests}",
    }[receiver]
    with tempfile.TemporaryDirectory(prefix="direct-", dir="/dev/shm") as directory:
        with mainstem.open(Path(directory)) as stem:
            stem.topics.create("trades", partitions=1, durability="disk")
        chosen = [word for name in settings for word in ("--set", f"{name}={settings[name]}")]
        command = [str(COMMAND), "serve", directory, "--kafka", ports["kafka"], "--admin", "off"]
        with (
            subprocess.Popen([*command, *heads, *chosen], stderr=subprocess.PIPE) as server,
            zmq.Context[zmq.Socket[bytes]]() as context,
            context.socket(zmq.PUSH) as pusher,
        ):
            assert server.stderr is not None
            pusher.setsockopt(zmq.LINGER, 0)
            try:
                while ports["kafka"].encode() not in server.stderr.readline():
                    assert server.poll() is None
                pusher.connect(f"tcp://{ports['pull']}")

                def singly(messages: list[bytes]) -> None:
                    for each in messages:
                        pusher.send(each)

                with mainstem.connect(ports["kafka"]) as connected:
                    yield where, lambda messages: _publish(connected, messages), singly
            finally:
                server.kill()


def _publish(stem: "mainstem.ConnectedStem", messages: list[bytes]) -> None:
    stem.publish_many("trades", messages)


def measure(style: Style, count: int) -> Round:
    """Measure a style once: many messages as fast as possible, then one each millisecond."""
    rate = lost = 0.0
    delays = list[float]()
    for singly in (False, True):
        is_bare = style.receiver.startswith("bare")
        with (bare if is_bare else ours)(style.receiver) as (where, many, one):
            command = [sys.executable, "-m", "bench.direct.receiver", style.receiver, where]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as receiver:
                said = _received(receiver, one, many if not singly else None, count)
        if singly:
            delays = said.ns
        else:
            rate, lost = said.messages / said.seconds, 1 - said.messages / count
    centiles = statistics.quantiles(delays, n=100)
    return Round(rate, lost, centiles[49] / 1000, centiles[98] / 1000)


def _received(
    receiver: "subprocess.Popen[str]", one: Send, many: Send | None, count: int
) -> Received:
    assert receiver.stdout is not None
    ready = _line(receiver)
    while not ready():
        one([message(b"w")])
        time.sleep(0.01)
    if many is not None:
        many([message() for _ in range(count)])
    else:
        for _ in range(SINGLY):
            one([message()])
            time.sleep(0.001)
    told = _line(receiver)
    while not told():
        (many or one)([message(b"e")])
        time.sleep(0.05)
    found = Received(**json.loads(_lines[receiver.pid]))
    receiver.wait(PATIENCE_S)
    return found


_lines: dict[int, str] = {}


def _line(receiver: "subprocess.Popen[str]") -> Callable[[], bool]:
    """Return what tells whether another line has come."""
    import threading  # noqa: PLC0415 - only here

    came = threading.Event()

    def read() -> None:
        assert receiver.stdout is not None
        _lines[receiver.pid] = receiver.stdout.readline()
        came.set()

    threading.Thread(target=read, daemon=True).start()
    return came.is_set


def run(rounds: int, count: int) -> dict[str, list[Round]]:
    """Measure all styles in turn."""
    found: dict[str, list[Round]] = {style.name: [] for style in STYLES}
    for number in range(rounds):
        for style in STYLES:
            each = measure(style, count)
            found[style.name].append(each)
            print(f"round {number + 1}: {style.name}: {each}", flush=True)
    return found


def page(found: dict[str, list[Round]], count: int) -> str:
    """Return the page of the figures."""

    def median(name: str, what: Callable[[Round], float]) -> float:
        return statistics.median(map(what, found[name]))

    def rate(name: str) -> float:
        return median(name, lambda each: each.rate)

    rows = [
        (
            style.name,
            f"{rate(style.name):,.0f}",
            f"{rate(style.name) / rate(style.bare or style.name):.2f}",
            f"{100 * median(style.name, lambda each: each.lost):.1f} %",
            f"{median(style.name, lambda each: each.p50_us):,.0f}",
            f"{median(style.name, lambda each: each.p99_us):,.0f}",
        )
        for style in STYLES
    ]
    head = ("", "messages/s", "of the bare library", "lost", "latency p50, µs", "p99, µs")
    rounds = len(next(iter(found.values())))
    return f"""# Direct messaging beside the bare libraries

`python -m bench.direct --rounds {rounds}` on {machine()}.
{count:,} messages of 100 bytes to one receiver on the same machine, as fast as possible; then
{SINGLY:,} messages, one each millisecond. Medians of {rounds} rounds, in which all take turns.
Sender, server and receiver share the processors with other work, so the ratios say more than the
numbers.

Bare, the sender publishes through the library itself. With us, a server is between them: it
appends each message to a topic (durability `disk`), and publishes it from there. For throughput the
sender publishes to the Kafka address in batches; the rate is what the receiver gets, from the first
message to the last. For latency it pushes single messages to `zmq.pull`, so two hops and the log
are compared with one hop.

{table(head, rows)}

An event that we publish has three frames (subject, value, details), and each frame costs both
sides: so there is a bare pair with three frames, too. What is lost is lost for good: bare nng drops
what is beyond its buffers, and bare UDP what the kernel's buffer does not hold. The feeds lose
nothing: they ask the log.

The receiving programs are in Python, too, and take as much time as the server. A server alone
publishes about 340,000 messages per second of its processor time.
"""


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--messages", type=int, default=200_000)
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    if given.quick:
        run(1, 20_000)
    else:
        PAGE.write_text(page(run(given.rounds, given.messages), given.messages))


if __name__ == "__main__":
    main()

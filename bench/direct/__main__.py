"""Measures direct messaging beside the bare libraries.

    python -m bench.direct               about five minutes; writes docs/benchmarks/direct.md
    python -m bench.direct --quick       prints, and writes nothing

How this works: each receiver is a process of its own. Bare, the sender publishes to it through the
library itself. With us, a server is between them: for throughput the sender publishes to its Kafka
address through librdkafka, for latency one message at a time to ``zmq.pull``; the server appends to
a topic with durability ``disk``, and publishes from there. All take turns.
"""

import argparse
import contextlib
import json
import os
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
from confluent_kafka import Producer
from tests.faults.killable_server import free_port
from tests.heads.moldudp64.feed_head import new_group

import mainstem
from mainstem.cli.benchmarks.report import machine

PAGE = ROOT / "docs" / "benchmarks" / "direct.md"
PADDING = bytes(100 - STAMP.size)
SINGLY = 1_000
Send = Callable[[list[bytes]], None]


RATE_AIM = 0.5
"""Of the bare library, through ZeroMQ's sockets."""
P50_AIM_US = 200.0
"""Latency through multicast."""


class Style(NamedTuple):
    """A way of messaging: its name, the receiver, what it is compared with, and the aims."""

    name: str
    receiver: str
    bare: str = ""
    rate_aim: float | None = None
    p50_aim_us: float | None = None


BARE_ZMQ, BARE_NNG, BARE_UDP = "bare pyzmq PUB/SUB", "bare pynng pub0/sub0", "bare UDP multicast"
STYLES = (
    Style(BARE_ZMQ, "bare_zmq"),
    Style("bare pyzmq, three frames", "bare_zmq_frames", BARE_ZMQ),
    Style("mainstem, ZeroMQ, a SUB socket", "sub_of_ours", BARE_ZMQ, RATE_AIM),
    Style("mainstem, ZeroMQ in one frame, a SUB socket", "sub_of_whole", BARE_ZMQ, RATE_AIM),
    Style("mainstem, ZeroMQ, ZmqFeed", "zmq_feed", BARE_ZMQ, RATE_AIM),
    Style("mainstem, ZeroMQ in one frame, ZmqFeed", "zmq_feed_whole", BARE_ZMQ, RATE_AIM),
    Style(BARE_NNG, "bare_nng"),
    Style("mainstem, nng, NngFeed", "nng_feed", BARE_NNG),
    Style(BARE_UDP, "bare_multicast"),
    Style("mainstem, MoldUDP64, MulticastFeed", "multicast_feed", BARE_UDP, None, P50_AIM_US),
)


RATE_WHY = """\
The table has the CPU time that sender, server and receiver take for a message. They share the
processors, so the rate depends on the sum of these times, and on the slowest process. mainstem's
server reads a message from a socket, appends it to the log, reads it from the log, and publishes
it; without mainstem the sender only publishes. Each further frame takes sender and receiver at
least as much time as the first: compare the rows with one and with three frames. `ZmqFeed` is
Python code that makes an event of each message, and looks for gaps."""
P50_WHY = """\
With mainstem a message takes two hops: from the program through ZeroMQ to the server, which
appends it to the log and sends it to the receiver. Without mainstem it takes one hop. On a busy
machine, each of the three processes also waits until it gets a processor."""


class Round(NamedTuple):
    """What was measured once."""

    rate: float
    lost: float
    p50_us: float
    p99_us: float
    cpu_us: tuple[float, float, float]
    """The sender's, server's and receiver's processor time for a message of many."""


class Received(NamedTuple):
    """What a receiver tells."""

    messages: int
    seconds: float
    cpu_s: float
    ns: list[float]


def message(kind: bytes = b"m") -> bytes:
    return STAMP.pack(kind, time.monotonic_ns()) + PADDING


class Sender(NamedTuple):
    """Where to receive, how to send many messages and single ones, and the server's CPU time."""

    where: str
    many: Send
    singly: Send
    cpu_s: Callable[[], float] = lambda: 0.0


@contextlib.contextmanager
def bare(receiver: str) -> Iterator[Sender]:
    """Publish through the library itself."""
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

        yield Sender(address, send, send)


@contextlib.contextmanager
def ours(receiver: str) -> Iterator[Sender]:
    """Publish through a server."""
    ports = {name: f"127.0.0.1:{free_port()}" for name in ("kafka", "zmq", "pub", "pull", "nng")}
    requests, group = f"127.0.0.1:{free_port()}", new_group()
    settings = {
        "zmq.publish": ports["pub"],
        "zmq.pull": f"trades={ports['pull']}",
        "zmq.high_water_mark": 10_000_000,
        "zmq.publish_frames": "one" if receiver.endswith("whole") else "three",
        "nng.publish": "127.0.0.1:0",
        "nng.topics": "trades",
        "moldudp64.feeds": f"S1=trades/0@{group}",
        "moldudp64.packets_per_s": 100_000,
    }
    heads = {
        "nng_feed": ["--nng", ports["nng"]],
        "multicast_feed": ["--moldudp64", requests],
    }.get(receiver, [])
    where = {
        "nng_feed": f"tcp://{ports['nng']}",
        "multicast_feed": f"{group},{requests}",
    }.get(receiver, f"tcp://{ports['pub' if receiver.startswith('sub') else 'zmq']}")
    with tempfile.TemporaryDirectory(prefix="direct-", dir="/dev/shm") as directory:
        with mainstem.open(Path(directory)) as stem:
            stem.topics.create("trades", partitions=1, durability="disk")
        chosen = [word for name in settings for word in ("--set", f"{name}={settings[name]}")]
        command = [str(COMMAND), "serve", directory, "--kafka", ports["kafka"], "--admin", "off"]
        command += ["--zmq", ports["zmq"]]
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

                yield Sender(where, _producer(ports["kafka"]), singly, lambda: _cpu_s(server.pid))
            finally:
                server.kill()


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _producer(address: str) -> Send:
    settings: dict[str, str | int] = {
        "bootstrap.servers": address,
        "queue.buffering.max.messages": 10_000_000,
        "queue.buffering.max.kbytes": 2_000_000,
        # Nothing about the server, which is killed in the end.
        "log_level": 0,
    }
    found = Producer(settings)

    def send(messages: list[bytes]) -> None:
        produce = found.produce
        for each in messages:
            produce("trades", each)
        assert not found.flush(PATIENCE_S)

    return send


def measure(style: Style, count: int) -> Round:
    """Measure a style once: many messages as fast as possible, then one each millisecond."""
    is_bare = style.receiver.startswith("bare")
    rate = lost = 0.0
    cpu_us = 0.0, 0.0, 0.0
    delays = list[float]()
    for singly in (False, True):
        with (bare if is_bare else ours)(style.receiver) as sender:
            command = [sys.executable, "-m", "bench.direct.receiver", style.receiver, sender.where]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as receiver:
                said, sender_s, server_s = _received(receiver, sender, None if singly else count)
        if singly:
            delays = said.ns
        else:
            rate, lost = said.messages / said.seconds, 1 - said.messages / count
            cpu_us = _us(sender_s, count), _us(server_s, count), _us(said.cpu_s, said.messages)
    centiles = statistics.quantiles(delays, n=100)
    return Round(rate, lost, centiles[49] / 1000, centiles[98] / 1000, cpu_us)


def _us(seconds: float, count: int) -> float:
    return seconds / count * 1e6


def _received(
    receiver: "subprocess.Popen[str]", sender: Sender, count: int | None
) -> tuple[Received, float, float]:
    """Return what was received, and the CPU time of the sender and the server.

    Without ``count``, messages are sent singly.
    """
    assert receiver.stdout is not None
    send = sender.many if count else sender.singly
    ready = _line(receiver)
    while not ready():
        sender.singly([message(b"w")])
        time.sleep(0.01)
    before_s, own_s = sender.cpu_s(), time.process_time()
    if count:
        send([message() for _ in range(count)])
    else:
        for _ in range(SINGLY):
            send([message()])
            time.sleep(0.001)
    own_s = time.process_time() - own_s
    told = _line(receiver)
    while not told():
        send([message(b"e")])
        time.sleep(0.05)
    server_s = sender.cpu_s() - before_s
    found = Received(**json.loads(_lines[receiver.pid]))
    receiver.wait(PATIENCE_S)
    return found, own_s, server_s


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


class Results:
    """The figures of all rounds."""

    def __init__(self, rounds: dict[str, list[Round]]) -> None:
        self._rounds = rounds
        self.count = len(next(iter(rounds.values())))

    def median(self, style: Style, what: Callable[[Round], float]) -> float:
        """Return the median of a figure."""
        return statistics.median(map(what, self._rounds[style.name]))

    def ratio(self, style: Style) -> float:
        """Return the median of the rounds' ratios to the bare library."""
        bare = self._rounds[style.bare or style.name]
        pairs = zip(self._rounds[style.name], bare, strict=True)
        return statistics.median(ours.rate / theirs.rate for ours, theirs in pairs)

    def row(self, style: Style) -> tuple[str, ...]:
        """Return a row of the table."""
        rounds = self._rounds[style.name]
        cpu_us = [
            statistics.median(each) for each in zip(*(it.cpu_us for it in rounds), strict=True)
        ]
        return (
            style.name,
            f"{self.median(style, lambda each: each.rate):,.0f}",
            f"{self.ratio(style):.2f}",
            f"{100 * self.median(style, lambda each: each.lost):.1f} %",
            " + ".join(f"{each:.1f}" for each in cpu_us),
            f"{self.median(style, lambda each: each.p50_us):,.0f}",
            f"{self.median(style, lambda each: each.p99_us):,.0f}",
        )

    def aims(self) -> str:
        """Return which aims are met, and by how much the others are missed."""
        lines, reasons = list[str](), list[str]()
        for style in STYLES:
            if style.rate_aim is not None:
                ratio = self.ratio(style)
                lines.append(
                    f"- {style.name}: {ratio:.2f} of {style.bare}'s rate "
                    f"(aim: at least {style.rate_aim:.2f}): {_met(ratio / style.rate_aim)}"
                )
                if ratio < style.rate_aim and RATE_WHY not in reasons:
                    reasons.append(RATE_WHY)
            if style.p50_aim_us is not None:
                p50_us = self.median(style, lambda each: each.p50_us)
                lines.append(
                    f"- {style.name}: latency p50 {p50_us:,.0f} µs "
                    f"(aim: below {style.p50_aim_us:,.0f} µs): {_met(style.p50_aim_us / p50_us)}"
                )
                if p50_us >= style.p50_aim_us:
                    reasons.append(P50_WHY)
        return "\n\n".join(["\n".join(lines), *reasons])


def _met(share: float) -> str:
    return "met" if share >= 1 else f"missed, by a factor of {1 / share:.1f}"


def page(results: Results, count: int) -> str:
    """Return the page of the figures."""
    head = (
        *(
            "",
            "messages/s",
            "of the bare library",
            "lost",
            "CPU, µs per message: sender + server + receiver",
        ),
        *("latency p50, µs", "p99, µs"),
    )
    return f"""# Direct messaging beside the bare libraries

`python -m bench.direct --rounds {results.count} --messages {count}` on {machine()}. {count:,}
messages of 100 bytes are sent to one receiver on the same machine, as fast as possible; then
{SINGLY:,} messages, one each millisecond. Figures are medians of {results.count} rounds, in which
all systems take turns. Sender, server and receiver share the processors with other programs, so
compare the ratios rather than the rates.

{results.aims()}

{table(head, [results.row(style) for style in STYLES])}

In the rows called "bare", sender and receiver use the library without mainstem. In the other
rows, a mainstem server is between them: it appends each message to a topic (durability `disk`),
and publishes it from there. For throughput the sender publishes to the server's Kafka port
through librdkafka; the rate is measured in the receiver, from the first message to the last. For
latency the sender pushes single messages to `zmq.pull`, so two hops and the log are compared with
one hop. CPU is user and system time of each process during the measurement of throughput.

An event that mainstem publishes has three frames (subject, value, details), and each frame takes
time on both sides. So there is also a bare row with three frames, and mainstem is also measured
with `zmq.publish_frames=one`. Lost messages are lost for good: without mainstem, nng drops the
messages that exceed its buffers, and UDP those that exceed the kernel's buffer. mainstem's feeds
lose nothing, because they request missing messages from the log. All receiving programs are in
Python.
"""


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--messages", type=int, default=200_000)
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    if given.quick:
        print(page(Results(run(1, 20_000)), 20_000))
    else:
        PAGE.write_text(page(Results(run(given.rounds, given.messages)), given.messages))


if __name__ == "__main__":
    main()

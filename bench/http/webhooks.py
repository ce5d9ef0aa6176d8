"""Measures webhook deliveries per second, beside a bare aiohttp client that posts in a loop.

How this works: a receiver in a process of its own answers 204 to every POST, and tells how many
came, and how long that took from the first to the last. Ours is ``mainstem serve --webhooks``: the
events are published while the endpoint is paused, then it is resumed. Each is read from the log,
signed, sent, settled, and written to the attempt log. The bare client has the bodies in memory,
signs each, sends it, and does nothing else. Both have the same number of requests under way, and
take turns.
"""

import argparse
import asyncio
import base64
import hashlib
import hmac
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import aiohttp
import httptools
from bench.http.aim import AIM, Ratio, summary, verdict
from bench.kafka.page import table
from bench.kafka.systems import COMMAND, PATIENCE_S

import mainstem
from mainstem.cli.benchmarks.report import machine

KEY = bytes(range(32))
SECRET = "whsec_" + base64.b64encode(KEY).decode()
VALUE = b'{"type": "order.paid", "id": 12345, "note": "%s"}' % (b"x" * 150)
IN_FLIGHT = 64
EVENTS = 10_000
_WHY = (
    "Each delivery is read from the log, settled, and written to the attempt log; the bare client "
    "has the bodies in memory."
)
OURS, ORDERED, BARE = "mainstem, parallel", "mainstem, order=key", "bare aiohttp client"


class Receiver(asyncio.Protocol):
    """Answers every POST with 204; ``GET /`` tells what came since the last ``GET /``."""

    count, began, ended = 0, 0.0, 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to parse."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._parser = httptools.HttpRequestParser(self)

    def data_received(self, data: bytes) -> None:
        """Parse what came."""
        self._parser.feed_data(data)

    def on_message_complete(self) -> None:
        """Answer a request."""
        cls = Receiver
        if self._parser.get_method() == b"GET":
            body = json.dumps({"count": cls.count, "took_s": cls.ended - cls.began}).encode()
            head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body)
            self._transport.write(head + body)
            return
        cls.ended = time.perf_counter()
        if not cls.count:
            cls.began = cls.ended
        cls.count += 1
        self._transport.write(b"HTTP/1.1 204 No Content\r\n\r\n")


async def receive() -> None:
    """Run the receiver until the process is killed."""
    server = await asyncio.get_running_loop().create_server(Receiver, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def post_all(url: str, events: int) -> None:
    """Post all events, so many at a time: the bare client."""
    numbers = iter(range(events))

    async def one_after_the_other(session: aiohttp.ClientSession) -> None:
        for number in numbers:
            at = str(int(time.time()))
            content = b"msg_%d.%s.%s" % (number, at.encode(), VALUE)
            signature = base64.b64encode(hmac.digest(KEY, content, hashlib.sha256)).decode()
            headers = {
                "Content-Type": "application/json",
                "webhook-id": f"msg_{number}",
                "webhook-timestamp": at,
                "webhook-signature": f"v1,{signature}",
            }
            async with session.post(url, data=VALUE, headers=headers) as response:
                assert response.status == 204
                await response.read()

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        await asyncio.gather(*(one_after_the_other(session) for _ in range(IN_FLIGHT)))


@contextmanager
def receiver() -> Iterator[str]:
    """Run a receiver in its own process; gives its URL."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.http.webhooks", "--receiver"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/"
    finally:
        process.kill()
        process.communicate()


def bare(events: int) -> float:
    """Return the requests per second of the bare client."""
    with receiver() as url:
        command = [sys.executable, "-m", "bench.http.webhooks", "--post", url, str(events)]
        subprocess.run(command, check=True, timeout=PATIENCE_S)
        return per_second(url, events)


def ours(events: int, order: str) -> float:
    """Return the deliveries per second of a server."""
    with tempfile.TemporaryDirectory() as directory, receiver() as url:
        secrets = Path(directory, "secrets")
        secrets.mkdir()
        (secrets / "bench").write_text(SECRET)
        free = "127.0.0.1:0"
        process = subprocess.Popen(
            [
                *(str(COMMAND), "serve", f"{directory}/data", "--log-format", "json"),
                *("--kafka", free, "--admin", free, "--webhooks", free),
                *("--set", "webhooks.allow=127.0.0.0/8", "--set", f"webhooks.secrets={secrets}"),
            ],
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stderr is not None
            said = next(it for line in process.stderr if "webhooks" in (it := json.loads(line)))
            at = said["kafka"]
            with mainstem.connect(at) as stem:
                stem.topics.create("orders")
                limits = ("--max-in-flight", str(IN_FLIGHT), "--order", order)
                run(at, "add", "bench", "orders", url, "--secret", "file:bench", *limits)
                run(at, "pause", "bench")
                stem.publish_many("orders", itertools.repeat(VALUE, events))
            run(at, "resume", "bench")
            return per_second(url, events)
        finally:
            process.kill()
            process.communicate()


def run(at: str, *command: str) -> None:
    """Run a command of ``mainstem webhook``."""
    subprocess.run(
        [str(COMMAND), "webhook", *command, "--at", at],
        check=True,
        timeout=PATIENCE_S,
        stdout=subprocess.DEVNULL,
    )


def per_second(url: str, events: int) -> float:
    """Wait until all events have come; return how many came per second."""
    until = time.monotonic() + PATIENCE_S
    while True:
        with urlopen(url, timeout=PATIENCE_S) as answer:
            told = json.load(answer)
        if told["count"] >= events:
            return float((told["count"] - 1) / told["took_s"])
        assert time.monotonic() < until, told
        time.sleep(0.05)


SYSTEMS: dict[str, Callable[[int], float]] = {
    OURS: lambda events: ours(events, "parallel"),
    ORDERED: lambda events: ours(events, "key"),
    BARE: bare,
}


def measure(rounds: int, events: int) -> dict[str, list[float]]:
    """Return the rates of each system in each round."""
    found: dict[str, list[float]] = {name: [] for name in SYSTEMS}
    for _ in range(rounds):
        for name, rate in SYSTEMS.items():
            found[name].append(rate(events))
            print(f"{name}: {found[name][-1]:,.0f}/s", flush=True)
    return found


def page(found: dict[str, list[float]], events: int) -> str:
    """Return the page of docs/benchmarks."""
    ratios = {
        name: statistics.median(one / bare for one, bare in zip(rates, found[BARE], strict=True))
        for name, rates in found.items()
    }
    rows = [
        [
            name,
            f"{statistics.median(rates):,.0f}",
            f"{min(rates):,.0f} to {max(rates):,.0f}",
            f"{ratios[name]:.2f}",
            "" if name == BARE else verdict(ratios[name]),
        ]
        for name, rates in found.items()
    ]
    head = ["", "deliveries/s, median", "range", "of the bare client", f"aim: {AIM}"]
    short = [Ratio(name, value, _WHY) for name, value in ratios.items() if name != BARE]
    return f"""# Webhook deliveries beside a bare aiohttp client

`python -m bench.http --only webhooks --rounds {len(found[BARE])}` on {machine()}. {events:,}
events of {len(VALUE)} bytes, one request each, signed, {IN_FLIGHT} under way at a time, to one
receiver on the same machine that answers 204. mainstem reads each event from the log, settles it,
and writes the attempt to the attempt log; the bare client only signs and sends. Receiver and
sender share the machine's processors. The events have no key, so order=key does not hold up any
event; it only settles after every answer. A ratio is the median of the rounds' ratios.

{summary(short)}

{table(head, rows)}
"""


def full(rounds: int) -> str:
    """Measure so many rounds; return the page."""
    return page(measure(rounds, EVENTS), EVENTS)


def quick() -> str:
    """Measure a fifth of it once; return the page."""
    return page(measure(1, EVENTS // 5), EVENTS // 5)


if __name__ == "__main__":
    # One of the processes that are measured.
    parser = argparse.ArgumentParser()
    parser.add_argument("--receiver", action="store_true")
    parser.add_argument("--post", nargs=2)
    given = parser.parse_args()
    if given.receiver:
        asyncio.run(receive())
    else:
        asyncio.run(post_all(given.post[0], int(given.post[1])))

"""The HTTP head beside a bare Starlette app that does nothing else.

How this works: in each round every system has its turn with each load. A turn is a server process
of its own, with empty data, and a process of clients (``load.py``). The CPU time is that of the
server process.
"""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from typing import NamedTuple

from bench.http.aim import AIM, Ratio, summary, verdict
from bench.http.load import EVENT
from bench.kafka.page import table
from bench.kafka.processes import Usage, end
from bench.kafka.systems import COMMAND, PATIENCE_S, ROOT

from mainstem.cli.benchmarks.report import machine

OURS, MEMORY, BARE = "mainstem, fsync", "mainstem, memory", "bare Starlette"


class Load(NamedTuple):
    """What the clients do."""

    title: str
    arguments: tuple[str | int, ...]
    """What, and then: connections or clients, events per request, requests."""

    @property
    def events(self) -> int:
        """How many events are published or received."""
        what, clients, events, count = self.arguments
        each = int(events) * int(count)
        return each * int(clients) if what == "fan_out" else each

    @property
    def requests(self) -> int:
        """How many requests are answered."""
        return int(self.arguments[3])


LOADS = (
    Load("Publish, one event per request, 64 connections", ("publish", 64, 1, 20_000)),
    Load("Publish, 100 events per request, 16 connections", ("publish", 16, 100, 1_500)),
    Load("Server-Sent Events, 10 clients", ("fan_out", 10, 100, 200)),
    Load("Server-Sent Events, 100 clients", ("fan_out", 100, 100, 40)),
    Load("Server-Sent Events, 100 clients, one event per request", ("fan_out", 100, 1, 1_000)),
)


class Turn(NamedTuple):
    """What one turn took."""

    seconds: float
    cpu_s: float
    """Processor time of the server."""


@contextmanager
def serving(system: str) -> Iterator[tuple[str, int]]:
    """Run a server; gives its address and process."""
    with tempfile.TemporaryDirectory() as directory:
        free = "127.0.0.1:0"
        if system == BARE:
            command = [sys.executable, "-m", "bench.http.bare"]
        else:
            durability = system.rpartition(" ")[2]
            addresses = ("--kafka", free, "--admin", free, "--http", free)
            more = ("--log-format", "json", "--set", f"durability={durability}")
            command = [str(COMMAND), "serve", f"{directory}/data", *addresses, *more]
        process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE)
        try:
            yield _address(process), process.pid
        finally:
            end(process, PATIENCE_S)
            assert process.stderr is not None
            process.stderr.close()


def _address(process: "subprocess.Popen[bytes]") -> str:
    assert process.stderr is not None
    for line in process.stderr:
        found = re.search(rb'(?:running on http://|"http": ?")(127[0-9.]+:[0-9]+)', line)
        if found:
            return found[1].decode()
    raise SystemExit(f"the server ended with {process.wait(PATIENCE_S)}")


def turn(system: str, load: Load) -> Turn:
    """Measure one system with one load."""
    what, *numbers = load.arguments
    with serving(system) as (address, pid):
        # What is done only once, such as imports and the creation of the topic, is not measured.
        _run("publish", address, 4, 1, 200)
        before = Usage.of(pid).cpu_s
        seconds = _run(str(what), address, *map(int, numbers))
        return Turn(seconds, Usage.of(pid).cpu_s - before)


def _run(what: str, address: str, *numbers: int) -> float:
    command = [sys.executable, "-m", "bench.http.load", what, address, *map(str, numbers)]
    done = subprocess.run(
        command, cwd=ROOT, stdout=subprocess.PIPE, check=True, timeout=5 * PATIENCE_S
    )
    return float(json.loads(done.stdout))


Found = dict[Load, dict[str, list[Turn]]]


def measure(rounds: int, loads: Sequence[Load]) -> Found:
    """Return what each turn took."""
    systems = (OURS, MEMORY, BARE)
    found: Found = {load: {system: [] for system in systems} for load in loads}
    for _ in range(rounds):
        for load in loads:
            for system in systems:
                took = turn(system, load)
                found[load][system].append(took)
                rate = load.events / took.seconds
                cpu = 1e6 * took.cpu_s / load.events
                print(f"{load.title}: {system}: {rate:,.0f} events/s, {cpu:.1f} us", flush=True)
    return found


def page(found: Found) -> str:
    """Return the page of docs/benchmarks."""
    rounds = len(next(iter(found.values()))[BARE])
    sections = [f"## {load.title}\n\n{_table(load, found[load])}" for load in found]
    body = "\n\n".join(sections)
    ratios = [
        Ratio(f"{load.title}: {system}", _ratio(turns[BARE], took, "seconds"), _why(load))
        for load, turns in found.items()
        for system, took in turns.items()
        if system != BARE
    ]
    return f"""# HTTP beside a bare Starlette app

`python -m bench.http --only head --rounds {rounds}` on {machine()}.
Other programs ran on the machine. Every figure is the median of the rounds, in which the
systems take turns; a ratio is the median of the rounds' ratios to the bare app.

The bare app (`bench/http/bare.py`) reads the body of a request, answers with as many bytes,
and sends the lines of the body to the clients that follow the topic. It checks and stores nothing.
It is served by uvicorn with uvloop and httptools, as is mainstem's HTTP port. mainstem parses and
checks every event, appends it to the log, and answers when the event is durable: with `fsync` when
it is synced to the disk, with `memory` at once.
{len(EVENT)} bytes per event. Server and clients share the machine's processors, so the processor
time of the server process is listed as well.

{summary(ratios)}

{body}
"""


def _why(load: Load) -> str:
    what, clients, events, _ = load.arguments
    if what == "publish" and events == 1:
        return (
            "Publish, one event per request: the body is parsed, checked and appended, and the "
            "answer waits for the disk; the bare app copies it."
        )
    if what == "publish":
        return (
            f"Publish, {events} events per request: each line is parsed as JSON, and encoded and "
            "stored as an event, while the bare app only splits the body."
        )
    return (
        f"Streams with {clients} clients: an event is parsed, stored, read and encoded once, "
        "whatever the number of clients, and the bare app does none of it."
    )


def _table(load: Load, turns: dict[str, list[Turn]]) -> str:
    rows: list[list[str]] = []
    for system, took in turns.items():
        seconds = median(each.seconds for each in took)
        ratio = _ratio(turns[BARE], took, "seconds")
        rows.append(
            [
                system,
                f"{load.requests / seconds:,.0f}",
                f"{load.events / seconds:,.0f}",
                f"{1e6 * median(each.cpu_s for each in took) / load.events:.1f}",
                f"{ratio:.2f}",
                f"{_ratio(turns[BARE], took, 'cpu_s'):.2f}",
                "" if system == BARE else verdict(ratio),
            ]
        )
    head = [
        "",
        "requests/s",
        "events/s",
        "server CPU, µs per event",
        "ratio of rates",
        "ratio by CPU",
        f"aim: {AIM}",
    ]
    return table(head, rows)


def _ratio(bare: Sequence[Turn], took: Sequence[Turn], what: str) -> float:
    def of(turn: Turn) -> float:
        # The kernel counts processor time in hundredths of a second.
        return max(turn.seconds if what == "seconds" else turn.cpu_s, 0.001)

    return median(of(theirs) / of(ours) for theirs, ours in zip(bare, took, strict=True))


def full(rounds: int) -> str:
    """Measure so many rounds; return the page."""
    return page(measure(rounds, LOADS))


def quick() -> str:
    """Measure a tenth of it once; return the page."""
    small = [Load(each.title, (*each.arguments[:3], each.requests // 10)) for each in LOADS]
    return page(measure(1, small))

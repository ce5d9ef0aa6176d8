"""Measures ``queue.poll(); delivery.ack()`` one by one, and the same with ``wait=False``.

    python -m bench.queue_acks --rounds 5    two minutes; writes docs/benchmarks/queues.md
    python -m bench.queue_acks --quick       prints, and writes nothing

How this works: a consumer takes events of 100 bytes one by one and acks each, first waiting for
every ack, then not, over the same topic. A turn ends when the queue is closed, so that all acks are
durable. The two take turns in every round, and a ratio compares the two turns of a round.
"""

import argparse
import asyncio
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, ExitStack, contextmanager
from itertools import count
from pathlib import Path
from statistics import median
from typing import TypeVar

from bench.kafka.page import table
from bench.kafka.systems import PATIENCE_S, ROOT, Mainstem

import mainstem
from mainstem import aio
from mainstem.cli.benchmarks.report import machine
from mainstem.client.aio.stem import AsyncStem
from mainstem.client.stem import Stem

PAGE = ROOT / "docs" / "benchmarks" / "queues.md"
VALUE = bytes(100)
TRIAL, TURN_S, MOST = 100, 3.0, 50_000
TOPIC = "orders"
_names = (f"q{number}" for number in count())

S = TypeVar("S", bound=AsyncStem)
Turn = Callable[[int, bool], float]
"""Acks a number of events, waiting or not, and returns the seconds it took."""


def blocking(stem: Stem) -> Turn:
    """Return turns of a blocking stem."""

    def turn(events: int, wait: bool) -> float:
        queue = stem.queue(TOPIC, name=next(_names))
        began = time.perf_counter()
        with queue:
            for _ in range(events):
                delivery = queue.poll(PATIENCE_S)
                assert delivery is not None
                delivery.ack(wait=wait)
        return time.perf_counter() - began

    return turn


def awaited(runner: asyncio.Runner, stem: AsyncStem) -> Turn:
    """Return turns of a stem on an event loop."""

    async def work(events: int, wait: bool) -> float:
        queue = stem.queue(TOPIC, name=next(_names))
        began = time.perf_counter()
        async with queue:
            for _ in range(events):
                delivery = await queue.poll(PATIENCE_S)
                assert delivery is not None
                await delivery.ack(wait=wait)
        return time.perf_counter() - began

    return lambda events, wait: runner.run(work(events, wait))


@contextmanager
def stems(directory: Path) -> Iterator[dict[str, Turn]]:
    """Open stems of all kinds, each with the events in its topic."""
    system = Mainstem(directory / "served", "fsync")
    system.start()
    with asyncio.Runner() as runner, ExitStack() as stack:
        stack.callback(system.stop)
        embedded = stack.enter_context(mainstem.open(directory / "blocking"))
        remote = stack.enter_context(mainstem.connect(system.server.address))
        on_loop = entered(runner, stack, aio.open(directory / "async"))
        remote_on_loop = entered(runner, stack, aio.connect(system.server.address))
        for stem in (embedded, on_loop.blocking, remote):
            stem.topics.create(TOPIC, partitions=1)
            stem.publish_many(TOPIC, (VALUE for _ in range(MOST)))
        yield {
            "`mainstem.open`": blocking(embedded),
            "`mainstem.aio.open`": awaited(runner, on_loop),
            "`mainstem.connect`": blocking(remote),
            "`mainstem.aio.connect`": awaited(runner, remote_on_loop),
        }


def entered(runner: asyncio.Runner, stack: ExitStack, stem: AbstractAsyncContextManager[S]) -> S:
    """Open a stem on a loop, until the stack is left."""
    stack.callback(lambda: runner.run(stem.__aexit__(None, None, None)))
    return runner.run(stem.__aenter__())


def measure(turns: dict[str, Turn], rounds: int, turn_s: float) -> list[tuple[str, ...]]:
    """Return a row for each kind of stem: the rates, and the ratio in the median."""
    rows: list[tuple[str, ...]] = []
    for name, turn in turns.items():
        amounts = {}
        for wait in (True, False):
            trial = TRIAL if wait else 10 * TRIAL
            amounts[wait] = min(MOST, max(trial, round(trial / turn(trial, wait) * turn_s)))
        pairs = []
        for _ in range(rounds):
            waited, soon = (amounts[wait] / turn(amounts[wait], wait) for wait in (True, False))
            pairs.append((waited, soon))
        slow, quick = (median(each) for each in zip(*pairs, strict=True))
        ratio = median(soon / waited for waited, soon in pairs)
        rows.append((name, f"{slow:,.0f}", f"{quick:,.0f}", f"{ratio:.1f}"))
    return rows


def page(rows: list[tuple[str, ...]], rounds: int) -> str:
    """Return the page."""
    return (
        "# Queues: acks one by one\n\n"
        f"    python -m bench.queue_acks --rounds {rounds}\n\n"
        f"writes this page. Machine: {machine()}.\n"
        "One consumer, one partition, events of 100 bytes: `queue.poll()` and `delivery.ack()`, one"
        f"\nby one. In each of {rounds} rounds, both kinds of ack are measured one after the "
        "other, each\nuntil the queue is closed, so that all acks are durable. A figure is the "
        "median of the\nrounds; the ratio is the median of the rounds' ratios, so it may differ "
        "from the quotient\nof the two figures.\n\n"
        + table(("", "`ack()`/s", "`ack(wait=False)`/s", "ratio"), rows)
        + "\n"
    )


def main() -> None:
    """Measure, and write the page."""
    options = argparse.ArgumentParser(description="acks one by one, waited for and not")
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--quick", action="store_true", help="one short round; writes no page")
    given = options.parse_args()
    rounds = 1 if given.quick else given.rounds
    with tempfile.TemporaryDirectory(dir=ROOT) as directory, stems(Path(directory)) as turns:
        text = page(measure(turns, rounds, 0.5 if given.quick else TURN_S), rounds)
    if not given.quick:
        PAGE.write_text(text)
    print(text)


if __name__ == "__main__":
    main()

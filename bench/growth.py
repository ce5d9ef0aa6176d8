"""How cost grows with the number of topics, and with what is in the log already.

    python bench/growth.py            measure, and write docs/benchmarks/log.md and growth.svg
    python bench/growth.py --quick    up to 1,000 topics and 1 GB, and write nothing

Each size is a process of its own (``subject.py``), all of them alive at once and asked in turns,
so that a busy minute of the machine hits every size alike. Needs 14 GB of space in ``--dir``.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

from mainstem.cli.benchmarks.report import machine, write_section

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs" / "benchmarks"
RATES = (
    "publish_one",
    "publish_hundred",
    "read",
    "read_oldest",
    "publish_one_spread",
    "raw_spread",
    "publish_hundred_spread",
    "read_spread",
)
OPENINGS = 5
SPARE_BYTES = 3e9


class Size(NamedTuple):
    """How large a log is."""

    topics: int
    gigabytes: int

    def __str__(self) -> str:
        topics = f"{self.topics:,} topic{'s' if self.topics > 1 else ''}"
        return f"{topics}, {self.gigabytes} GB"


SIZES = (Size(1, 0), Size(100, 0), Size(1000, 0), Size(10_000, 0), Size(1, 1), Size(1, 10))
QUICK_SIZES = (Size(1, 0), Size(100, 0), Size(1000, 0), Size(1, 1))
Figures = dict[str, float]


class Process:
    """A subject at work."""

    def __init__(self, directory: Path, size: Size) -> None:
        command = [sys.executable, str(HERE / "subject.py"), "serve", str(directory)]
        self._process = subprocess.Popen(
            [*command, str(size.topics), str(size.gigabytes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def wait_until_ready(self) -> None:
        """Wait until the log is as large as it should be."""
        self._line()

    def ask(self, what: str) -> float:
        """Have one thing done; return its figure."""
        assert self._process.stdin
        self._process.stdin.write(f"{what}\n")
        self._process.stdin.flush()
        return float(json.loads(self._line())["value"])

    def kill(self) -> None:
        """End it as a crash would; no harm if it has ended."""
        self._process.kill()
        self._process.communicate()

    def _line(self) -> str:
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("a measured process ended early; what it said is above")
        return line


@contextmanager
def running(directory: Path, size: Size) -> Iterator[Process]:
    process = Process(directory, size)
    try:
        process.wait_until_ready()
        yield process
    finally:
        process.kill()


def measure(parent: Path, sizes: Sequence[Size], rounds: int) -> dict[Size, Figures]:
    figures: dict[Size, Figures] = {}
    with ExitStack() as stack:
        processes = {}
        for size in sizes:
            say(f"filling: {size}")
            processes[size] = stack.enter_context(running(place(parent, size), size))
        turns: dict[Size, dict[str, list[float]]] = {size: {} for size in sizes}
        for number in range(rounds):
            say(f"round {number + 1} of {rounds}")
            for what in RATES:
                # The order turns, so that nobody always comes after the same neighbour.
                for size in (*sizes[number % len(sizes) :], *sizes[: number % len(sizes)]):
                    turns[size].setdefault(what, []).append(processes[size].ask(what))
        for size, process in processes.items():
            figures[size] = {what: median(values) for what, values in turns[size].items()}
            figures[size] |= relative(turns[size], turns[sizes[0]])
            figures[size]["memory_mb"] = process.ask("memory")
            figures[size]["close_s"] = process.ask("close")
    for size in sizes:
        say(f"opening after a clean stop: {size}")
        figures[size]["open_ms"] = median(open_ms(place(parent, size)) for _ in range(OPENINGS))
    return figures


def measure_recovery(parent: Path, sizes: Sequence[Size], figures: dict[Size, Figures]) -> None:
    """Add how long opening takes after kill -9, with as much to recover as there can be."""
    for size in sizes:
        for what in ("crash_in_large_batches", "crash_in_events"):
            say(f"opening after kill -9: {size}, {what}")
            with running(place(parent, size), size) as process:
                process.ask(what)
            figures[size][what + "_ms"] = open_ms(place(parent, size))
        shutil.rmtree(place(parent, size))


def relative(turns: dict[str, list[float]], first: dict[str, list[float]]) -> Figures:
    """Return the rates as shares of those of the smallest log, round by round."""
    return {
        f"{what}_share": median(one / other for one, other in zip(ours, first[what], strict=True))
        for what, ours in turns.items()
    }


def open_ms(directory: Path) -> float:
    command = [sys.executable, str(HERE / "subject.py"), "open", str(directory)]
    answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return float(json.loads(answer)["seconds"]) * 1000


def place(parent: Path, size: Size) -> Path:
    return parent / f"{size.topics}-{size.gigabytes}"


def section(figures: dict[Size, Figures], about: str) -> str:
    sizes = list(figures)
    head = "| | " + " | ".join(str(size) for size in sizes) + " |"
    lines = [head, "|---|" + "---:|" * len(sizes)]
    names = {
        "publish_one": "publish, one event, events/s",
        "publish_hundred": "publish_many, 100 events, events/s",
        "read": "read the newest, events/s",
        "read_oldest": "read the oldest (batches of 1; with gigabytes, of 1,000), events/s",
        "publish_one_spread": "publish, one event, over all topics in turn",
        "raw_spread": "for comparison: the same bytes to as many plain files, 4,000 at most",
        "publish_hundred_spread": "publish_many, 100 events, over all topics in turn",
        "read_spread": "subscribe to a topic, read one event, close; of up to 1,000 topics",
    }
    for what, name in names.items():
        cells = [f"{each[what]:,.0f}{share(each, what)}" for each in figures.values()]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    others = {
        "open_ms": "opening after a clean stop, ms",
        "crash_in_large_batches_ms": "opening after kill -9, 400 MB since the checkpoint, ms",
        "crash_in_events_ms": "opening after kill -9, 100,000 events over all topics, ms",
        "close_s": "closing, s",
        "memory_mb": "resident memory, MB",
    }
    for what, name in others.items():
        digits = 1 if what == "close_s" else 0
        cells = [f"{each[what]:,.{digits}f}" for each in figures.values()]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return (
        f"## How cost grows\n\n{about} In brackets is the "
        "percentage of the first column, the median of the rounds' percentages. Events of 100 "
        "bytes, topics of one partition, durability disk, through `mainstem.open`; the files are "
        "in the page cache. Events are published to, and read from, the topic that holds the "
        "gigabytes. If one event is published to every topic in turn, neither the topic nor its "
        "file is in the processor's caches; the row with plain files shows how much of the "
        "slowdown is due to the file system.\n\n"
        "![Rates with growing numbers of topics and gigabytes](growth.svg)\n\n" + "\n".join(lines)
    )


def share(figures: Figures, what: str) -> str:
    # The oldest events are in other batches where gigabytes were filled in: not comparable.
    return "" if what == "read_oldest" else f" ({figures[what + '_share']:.0%})"


def say(text: str) -> None:
    print(f"growth: {text}", file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--dir", type=Path, default=Path(), help="where to make the logs")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--quick", action="store_true", help="small sizes; writes nothing")
    options = parser.parse_args()
    sizes = QUICK_SIZES if options.quick else SIZES
    needed = sum(size.gigabytes for size in sizes) * 1e9 + SPARE_BYTES
    free = shutil.disk_usage(options.dir).free
    if free < needed:
        parser.error(f"{needed / 1e9:.0f} GB are needed in {options.dir}, {free / 1e9:.1f} free")
    parent = Path(tempfile.mkdtemp(prefix=".mainstem-growth-", dir=options.dir)).absolute()
    try:
        figures = measure(parent, sizes, options.rounds)
        measure_recovery(parent, sizes, figures)
    finally:
        shutil.rmtree(parent)
    command = " ".join(["python", "bench/growth.py", *sys.argv[1:]])
    about = (
        f"Command: `{command}`. Machine: {machine()}. Median of {options.rounds} rounds "
        f"({OPENINGS} for opening after a clean stop, 1 after kill -9)."
    )
    text = section(figures, about)
    print(text)
    if not options.quick:
        data = [
            {"topics": size.topics, "gigabytes": size.gigabytes} | found
            for size, found in figures.items()
        ]
        kept = json.dumps({"about": about, "figures": data}, indent=1)
        (DOCS / "growth.json").write_text(kept + "\n")
        write_section(DOCS / "log.md", "growth", text)
        subprocess.run([sys.executable, str(HERE / "chart.py")], check=True)


if __name__ == "__main__":
    main()

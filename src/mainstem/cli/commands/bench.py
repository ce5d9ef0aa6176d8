"""``mainstem bench``: measures the log and the Python API, beside raw files."""

import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

import mainstem
from mainstem.cli.benchmarks.log import (
    MAX_BYTES,
    Case,
    Measured,
    Turn,
    batches,
    in_threads,
    in_time,
    measure_log,
    summary,
)
from mainstem.cli.benchmarks.raw_files import BareFiles
from mainstem.cli.exit_codes import Refused
from mainstem.cli.help import Command, Group
from mainstem.cli.table_output import Format, Row, chosen, format_option, print_json, table
from mainstem.cli.units import human_bytes
from mainstem.core.event import Event
from mainstem.core.topic_settings import Durability

if TYPE_CHECKING:
    from mainstem.client.stem import Stem

SECONDS = 90.0
QUICK_SECONDS = 12.0
ROUNDS = 5
QUICK_ROUNDS = 3
NEEDED_BYTES = 1 << 30
API_SHARE = 0.25
_WRITTEN_AT_ONCE = 768 * 1024
_READ_AT_ONCE = 1024 * 1024
_SYNCED_AT_ONCE = 16 * 1024 * 1024
_TRIAL = 2000

SPECIAL = ("acknowledged", "first read")

NOTES = """\
MB/s counts the bytes of record batches; raw is bare pwrite and pread of the same bytes in calls of
the same sizes, interleaved with ours; ratio is ours to raw, each figure the median of the rounds.
Under fsync up to 1,000 batches are in flight, and the bare file is synced as often as the log was.
Memory is measured against a bare file that is not synced; what it reads is often not even copied.
Everything is read from the page cache, and written by the same process but for the first read."""


@click.group(cls=Group, epilog="mainstem bench log --quick")
def bench() -> None:
    """Measure this machine."""


@bench.command(
    cls=Command,
    name="log",
    epilog="""
    mainstem bench log
    mainstem bench log --quick --dir /var/lib
    mainstem bench log --format json > figures.json
    """,
)
@click.option(
    "--dir",
    "directory",
    type=click.Path(file_okay=False, exists=True, path_type=Path),
    default=Path(),
    help="Where to measure: a new directory is made in it, and removed.  [default: .]",
)
@click.option("--quick", is_flag=True, help="Be done in 20 seconds; the figures are rougher.")
@click.option(
    "--seconds",
    type=click.FloatRange(0.1),
    help="How long to measure, roughly.  "
    f"[default: {SECONDS:.0f}, with --quick {QUICK_SECONDS:.0f}]",
)
@click.option(
    "--durability",
    "durabilities",
    type=click.Choice([each.value for each in Durability]),
    multiple=True,
    help="Only topics of this durability; may be repeated.  [default: all three]",
)
@click.option(
    "--write",
    "page",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also write the table into this Markdown page, in place of the one before.",
)
@format_option
def log(
    directory: Path,
    quick: bool,
    seconds: float | None,
    durabilities: tuple[str, ...],
    page: Path | None,
    form: Format | None,
) -> None:
    """Measure appends, reads and the Python API beside bare files.

    Events of 100 bytes and 1 KB in batches of 1, 100 and 10,000, in memory, on disk and synced,
    over 1 and 100 partitions. Bare files take the same bytes in turns with the log, so the ratio
    means something on a busy machine too. Needs 1 GiB of space at most.
    """
    given = ["--quick"] * quick + ([f"--seconds {seconds:g}"] if seconds else [])
    given += [f"--durability {each}" for each in durabilities]
    seconds = seconds or (QUICK_SECONDS if quick else SECONDS)
    rounds = QUICK_ROUNDS if quick else ROUNDS
    with own_directory(directory) as own:
        wanted = [Durability(each) for each in durabilities] or list(Durability)
        results = _watched(measure(own, seconds, rounds, wanted))
    if page is not None:
        write_section(page, "log", _page_section(results, rounds, given))
    match chosen(form):
        case "table":
            click.echo(
                f"{machine()}; median of at most {rounds} rounds\n\n{report(results)}\n\n{NOTES}"
            )
        case "json":
            print_json([_plain(each) for each in results])
        case "jsonl":
            for each in results:
                print_json(_plain(each))


def measure(
    directory: Path, seconds: float, rounds: int, durabilities: Sequence[Durability]
) -> Iterator[Measured]:
    """Measure the log, then the Python API, in about so many seconds."""
    yield from measure_log(directory, seconds * (1 - API_SHARE), rounds, durabilities)
    with mainstem.open(directory / "stem") as stem:
        yield from Api(stem, directory, seconds * API_SHARE, rounds).measure(durabilities)


class Api:
    """The Python API on a stem of its own, and bare files beside it."""

    def __init__(self, stem: "Stem", directory: Path, seconds: float, rounds: int) -> None:
        self._stem = stem
        self._directory = directory
        self._rounds = rounds
        self._seconds = seconds / 14
        """What one of about fourteen things may take."""
        self._turn_seconds = self._seconds / rounds / 2
        self._topics = 0

    def measure(self, durabilities: Sequence[Durability]) -> Iterator[Measured]:
        """Measure publish, publish_many and subscribe."""
        one = [Case(100, 1, durability, 1, threads=1) for durability in durabilities]
        if Durability.FSYNC in durabilities:
            one.append(Case(100, 1, Durability.FSYNC, 1, threads=16))
        for case in one:
            yield summary("publish", case, self._turns(case, self._publish))
        for size in (100, 1000):
            for durability in durabilities:
                # As many as publish_many puts into one batch: an event counts 150 bytes more.
                case = Case(size, _WRITTEN_AT_ONCE // (size + 150), durability, 1)
                yield summary("publish_many", case, self._turns(case, self._publish_many))
        if Durability.DISK in durabilities:
            for size in (100, 1000):
                for batch_events in (1, _WRITTEN_AT_ONCE // (size + 150)):
                    case = Case(size, batch_events, Durability.DISK, 1)
                    yield summary("subscribe", case, self._turns(case, self._subscribe))

    def _turns(self, case: Case, turn: Callable[[Case, int], Turn]) -> list[Turn]:
        count = _TRIAL // 10 if case.durability is Durability.FSYNC else _TRIAL
        most = MAX_BYTES // (case.event_bytes + 75)
        rate = count / turn(case, count).seconds
        count = max(count, min(round(rate * self._turn_seconds), most))
        return [turn(case, count) for _ in in_time(self._rounds, self._seconds)]

    def _publish(self, case: Case, count: int) -> Turn:
        value = os.urandom(case.event_bytes)
        each = max(count // case.threads, 1)
        count = each * case.threads
        (batch, *_) = batches(case)
        with self._topic(case) as topic, BareFiles(self._directory, 1) as bare:
            publish = self._stem.publish

            def work() -> None:
                for _ in range(each):
                    publish(topic, value)

            seconds = in_threads(case.threads, work)
            # With several threads, a sync for every event that they can have in common.
            syncs = each if case.durability is Durability.FSYNC else 0
            raw_seconds = bare.append([batch] * count, syncs)
        return Turn(count, count * len(batch), seconds, raw_seconds)

    def _publish_many(self, case: Case, count: int) -> Turn:
        events = [Event(os.urandom(case.event_bytes))] * count
        with self._topic(case) as topic, BareFiles(self._directory, 1) as bare:
            began = time.perf_counter()
            self._stem.publish_many(topic, events)
            seconds = time.perf_counter() - began
            size = self._stem.topics.show(topic).size_bytes or 0
            fsync = case.durability is Durability.FSYNC
            syncs = max(size // _SYNCED_AT_ONCE, 1) if fsync else 0
            raw_seconds = bare.append(_pieces(size, _WRITTEN_AT_ONCE), syncs)
        return Turn(count, size, seconds, raw_seconds)

    def _subscribe(self, case: Case, count: int) -> Turn:
        value = os.urandom(case.event_bytes)
        with self._topic(case) as topic, BareFiles(self._directory, 1) as bare:
            if case.batch_events == 1:
                for _ in range(count):
                    self._stem.publish(topic, value)
            else:
                self._stem.publish_many(topic, (value for _ in range(count)))
            size = self._stem.topics.show(topic).size_bytes or 0
            pieces = _pieces(size, _READ_AT_ONCE)
            bare.append(pieces, 0)
            began = time.perf_counter()
            read = sum(1 for _ in self._stem.subscribe(topic, follow=False))
            seconds = time.perf_counter() - began
            raw_seconds = bare.read([len(piece) for piece in pieces], 1)
        assert read == count, f"published {count} events, read {read}"
        return Turn(count, size, seconds, raw_seconds)

    @contextmanager
    def _topic(self, case: Case) -> Iterator[str]:
        self._topics += 1
        name = f"bench-{self._topics}"
        self._stem.topics.create(name, durability=case.durability)
        # The files are made before the clock runs, as they are for the bare files.
        self._stem.publish(name, b"")
        self._stem.topics.trim(name, "latest")
        try:
            yield name
        finally:
            self._stem.topics.delete(name)


@contextmanager
def own_directory(parent: Path) -> Iterator[Path]:
    """Make a directory with enough space, and remove it at the end."""
    free = shutil.disk_usage(parent).free
    if free < NEEDED_BYTES:
        raise Refused(
            f"{human_bytes(free)} are free in {parent.absolute()}, and measuring may need "
            f"{human_bytes(NEEDED_BYTES)}: make room, or choose another place with --dir"
        )
    directory = Path(tempfile.mkdtemp(prefix=".mainstem-bench-", dir=parent))
    try:
        yield directory
    finally:
        shutil.rmtree(directory)


def report(results: Sequence[Measured]) -> str:
    """Return the results as tables for a person."""
    by_case: dict[tuple[int, int, str, int], dict[str, Measured]] = {}
    for each in results:
        if each.what in ("append", "read"):
            case = (each.event_bytes, each.batch_events, each.durability, each.partitions)
            by_case.setdefault(case, {})[each.what] = each
    pairs = [_pair_row(found["append"], found["read"]) for found in by_case.values()]
    special = [_row(each) for each in results if each.what in SPECIAL]
    api = [_row(each) for each in results if each.what not in ("append", "read", *SPECIAL)]
    sections = (
        ("Ready record batches through the log", pairs),
        ("Acknowledged appends, one and many; the first read after opening, verified", special),
        ("The Python API (mainstem.open)", api),
    )
    return "\n\n".join(f"{title}\n\n{table(rows)}" for title, rows in sections if rows)


def machine() -> str:
    """Return what the figures were taken on."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    model = ""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [each for each in cpuinfo.read_text().splitlines() if each.startswith("model name")]
        model = f" ({names[0].partition(':')[2].strip()})" if names else ""
    return (
        f"{os.cpu_count()} cores{model}, {human_bytes(memory)} of memory, "
        f"{platform.system()} {platform.release().partition('-')[0]}, "
        f"Python {platform.python_version()}, load average {os.getloadavg()[0]:.1f}, "
        f"{time.strftime('%Y-%m-%d')}"
    )


def write_section(page: Path, name: str, text: str) -> None:
    """Put text between a page's markers of that name, or at its end."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before = page.read_text() if page.exists() else "# Benchmarks of the log\n"
    head, found, rest = before.partition(begin)
    tail = rest.partition(end)[2] if found else "\n"
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(f"{head.rstrip()}\n\n{begin}\n{text.strip()}\n{end}{tail}")


def _page_section(results: Sequence[Measured], rounds: int, given: Sequence[str]) -> str:
    command = " ".join(["mainstem bench log", *given])
    return (
        f"## Append, read and the Python API\n\n"
        f"Command: `{command}`. Machine: {machine()}. Median of at most {rounds} rounds.\n\n"
        f"{NOTES}\n\n```text\n{report(results)}\n```"
    )


def _watched(results: Iterator[Measured]) -> list[Measured]:
    """Collect results, and say which one is being worked on if a person is looking."""
    found: list[Measured] = []
    shown = sys.stderr.isatty()
    for each in results:
        found.append(each)
        if shown:
            line = f"{each.what}, {each.event_bytes} B, {each.batch_events}, {each.durability}"
            sys.stderr.write(f"\rmainstem: measured {line}\x1b[K")
            sys.stderr.flush()
    if shown:
        sys.stderr.write("\r\x1b[K")
    return found


def _pair_row(append: Measured, read: Measured) -> Row:
    return {
        "event": f"{append.event_bytes} B",
        "batch": append.batch_events,
        "durability": append.durability,
        "partitions": append.partitions,
        "append/s": append.events_s,
        "MB/s": _rate(append.mb_s),
        "raw ": _rate(append.raw_mb_s),
        "ratio": _ratio(append.ratio),
        "read/s": read.events_s,
        "MB/s ": _rate(read.mb_s),
        "raw": _rate(read.raw_mb_s),
        "ratio ": _ratio(read.ratio),
    }


def _row(each: Measured) -> Row:
    waiting = f"{each.threads} threads" if each.threads > 1 else "1 thread"
    many = "many in flight" if each.what == "acknowledged" else "-"
    return {
        "what": each.what,
        "event": f"{each.event_bytes} B",
        "batch": each.batch_events,
        "durability": each.durability,
        "partitions": each.partitions,
        "by": waiting if each.threads else many,
        "events/s": each.events_s,
        "MB/s": _rate(each.mb_s),
        "raw": _rate(each.raw_mb_s),
        "ratio": _ratio(each.ratio),
        "of one partition": "-" if each.of_one is None else f"{each.of_one:.2f}",
    }


def _pieces(size: int, length: int) -> list[bytearray]:
    whole, rest = divmod(size, length)
    return [bytearray(length)] * whole + ([bytearray(rest)] if rest else [])


def _rate(mb_s: float) -> str:
    return f"{mb_s:,.1f}" if mb_s < 100 else f"{mb_s:,.0f}"


def _ratio(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio < 10 else ">10"


def _plain(each: Measured) -> Row:
    plain: Row = msgspec.to_builtins(each)
    return plain

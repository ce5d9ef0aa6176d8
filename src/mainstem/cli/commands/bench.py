"""``mainstem bench``: measures the log and the Python API in comparison with raw files."""

import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

import mainstem
from mainstem.cli.arguments.units import human_bytes
from mainstem.cli.benchmarks.api import Api
from mainstem.cli.benchmarks.log import Measured, measure_log
from mainstem.cli.benchmarks.report import machine, report, write_section
from mainstem.cli.exit_codes import Refused
from mainstem.cli.help import Command, Group
from mainstem.cli.output.tables import Format, Row, chosen, format_option, print_json
from mainstem.core.topic_settings import Durability

if TYPE_CHECKING:
    pass

SECONDS = 90.0
QUICK_SECONDS = 12.0
ROUNDS = 5
QUICK_ROUNDS = 3
NEEDED_BYTES = 1 << 30
API_SHARE = 0.25

NOTES = """\
MB/s counts the bytes of record batches. Raw is the rate of pwrite and pread of the same bytes
on a plain file, in calls of the same sizes, which alternate with those of the log. Ratio is the
log's rate divided by the raw rate; each figure is the median of the rounds. With fsync up to
1,000 batches are in flight, and the plain file is synced as often as the log was. Topics with
durability `memory` are compared with a plain file that is not synced; reading them often
returns the stored bytes without a copy. Everything is read from the page cache. A log does not
verify what it has written itself since it was opened. In the rows "first read" it was closed
and opened again before each round, so there it verifies what it reads."""


@click.group(cls=Group, epilog="mainstem bench log --quick")
def bench() -> None:
    """Measure how fast the log is on this machine."""


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
    help="Where to measure: in a new directory in this one, which is removed at the end.  "
    "[default: .]",
)
@click.option("--quick", is_flag=True, help="Finish in 20 seconds; the figures are less exact.")
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
    help="Also write the table into this Markdown page, in place of the previous one.",
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
    """Measure appends, reads and the Python API beside raw files.

    Events of 100 bytes and 1 KB in batches of 1, 100 and 10,000, in memory, on disk and synced,
    over 1 and 100 partitions. Raw files are measured alternately with the log, so the ratio is
    meaningful on a busy machine too. Needs at most 1 GiB of space.
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
    """Yield the measurements of the log, then of the Python API; takes about ``seconds``."""
    yield from measure_log(directory, seconds * (1 - API_SHARE), rounds, durabilities)
    with mainstem.open(directory / "stem") as stem:
        yield from Api(stem, directory, seconds * API_SHARE, rounds).measure(durabilities)


@contextmanager
def own_directory(parent: Path) -> Iterator[Path]:
    """Create a temporary directory in ``parent`` if space suffices; remove it at the end."""
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


def _page_section(results: Sequence[Measured], rounds: int, given: Sequence[str]) -> str:
    command = " ".join(["mainstem bench log", *given])
    return (
        f"## Append, read and the Python API\n\n"
        f"Command: `{command}`. Machine: {machine()}. Median of at most {rounds} rounds.\n\n"
        f"{NOTES}\n\n```text\n{report(results)}\n```"
    )


def _watched(results: Iterator[Measured]) -> list[Measured]:
    """Return all results; on a terminal, show meanwhile which case is being measured."""
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


def _plain(each: Measured) -> Row:
    plain: Row = msgspec.to_builtins(each)
    return plain

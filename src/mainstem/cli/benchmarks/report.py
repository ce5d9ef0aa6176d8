"""Formats benchmark results as text tables, and writes them into Markdown pages."""

import os
import platform
import time
from collections.abc import Sequence
from pathlib import Path

from mainstem.cli.arguments.units import human_bytes
from mainstem.cli.benchmarks.log import Measured
from mainstem.cli.output.tables import Row, table

SPECIAL = ("acknowledged", "first read")


def report(results: Sequence[Measured]) -> str:
    """Return the results as text tables."""
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
    """Return a description of the machine on which the figures were measured."""
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
    """Replace the text between the markers ``name`` in a page; without markers, append it."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before = page.read_text() if page.exists() else "# Benchmarks of the log\n"
    head, found, rest = before.partition(begin)
    tail = rest.partition(end)[2] if found else "\n"
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(f"{head.rstrip()}\n\n{begin}\n{text.strip()}\n{end}{tail}")


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


def _rate(mb_s: float) -> str:
    return f"{mb_s:,.1f}" if mb_s < 100 else f"{mb_s:,.0f}"


def _ratio(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio < 10 else ">10"

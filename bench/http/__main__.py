"""HTTP, webhooks and SQL, each beside a bare peer that does nothing else, in one run.

    python -m bench.http                    measure all, and write three pages of docs/benchmarks
    python -m bench.http --only head sql    some of it
    python -m bench.http --rounds 9         so many rounds
    python -m bench.http --quick            two minutes; prints, and writes nothing

``head``: publish and Server-Sent Events beside a bare Starlette app (http.md). ``webhooks``:
deliveries beside a bare aiohttp client (webhooks.md). ``sql``: scans beside DuckDB on Parquet of
the same events (sql.md). Each page has its own line about the machine, and says which figures meet
the aim of half of the peer's rate.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from bench.http import head, sql, webhooks
from bench.kafka.systems import ROOT

PAGES = ROOT / "docs" / "benchmarks"


class Part(NamedTuple):
    """What is measured, and its page."""

    page: str
    full: Callable[[int], str]
    """Measures so many rounds, and returns the page."""
    quick: Callable[[], str]


PARTS = {
    "head": Part("http.md", head.full, head.quick),
    "webhooks": Part("webhooks.md", webhooks.full, webhooks.quick),
    "sql": Part("sql.md", sql.full, sql.quick),
}


def run(names: list[str], rounds: int, pages: Path) -> None:
    """Measure some parts one after the other; write each page as soon as it is known."""
    for name in names:
        part = PARTS[name]
        text = part.full(rounds)
        (pages / part.page).write_text(text)


def main() -> None:
    """Measure, and write the pages unless told to be quick."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.http",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    if given.quick:
        for name in given.only:
            print(PARTS[name].quick())
    else:
        run(given.only, given.rounds, PAGES)


if __name__ == "__main__":
    main()

"""The page of figures: docs/benchmarks/cdc.md."""

import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from bench.cdc.databases import AT_ONCE
from bench.cdc.systems import DEBEZIUM, OURS, SYSTEMS, Figures, Plan
from bench.kafka.page import table

Rounds = Mapping[str, Sequence[Figures]]
"""The figures of each system, a value for each round."""


class _Line(NamedTuple):
    field: str
    title: str
    digits: int


_LINES = (
    _Line("snapshot", "snapshot, rows/s", 0),
    _Line("following", "following, rows/s", 0),
    _Line("snapshot_cpu_us", "snapshot, CPU µs for a row", 1),
    _Line("following_cpu_us", "following, CPU µs for a row", 1),
    _Line("p50_ms", "commit to consumer, p50 ms", 2),
    _Line("p99_ms", "commit to consumer, p99 ms", 2),
    _Line("start_s", "start to first event, s", 2),
    _Line("memory_mib", "largest memory, MiB", 0),
)
RATES = {"PostgreSQL": 5.0, "MariaDB": 1.0}
"""How many times Debezium's rows per second are the aim."""
P50_MS = 5.0
_WHY = {
    "PostgreSQL": "the time includes the sync of mainstem's log to disk",
    "MariaDB": "the time includes the statement, the database's own commit, and the sync of "
    "mainstem's log to disk",
}


def ratio(found: Rounds, field: str) -> float:
    """Return the median of the rounds' ratios, ours to Debezium's."""
    return statistics.median(
        float(getattr(mine, field)) / float(getattr(theirs, field))
        for mine, theirs in zip(found[OURS], found[DEBEZIUM], strict=True)
    )


def aims(found: Mapping[str, Rounds]) -> list[str]:
    """Return for each aim whether it is met, and if not by how much and why."""
    lines = []
    for database, rounds in found.items():
        for field, what in (("snapshot", "snapshot"), ("following", "following")):
            aim, value = RATES[database], ratio(rounds, field)
            text = f"{database}, {what}: {value:.2f} times Debezium's rows/s (aim: {aim:.0f})"
            if value < aim:
                text += f" **falls short by {1 - value / aim:.0%}**: {_cpu(rounds, field)}."
            else:
                text += " is met."
            lines.append(f"- {text}")
        value = statistics.median(each.p50_ms for each in rounds[OURS])
        text = f"{database}, commit to consumer: p50 {value:.2f} ms (aim: under {P50_MS:.0f} ms)"
        if value < P50_MS:
            text += " is met."
        else:
            text += f" **falls short by {value - P50_MS:.2f} ms**: {_WHY[database]}."
        lines.append(f"- {text}")
    return lines


def _cpu(found: Rounds, field: str) -> str:
    mine, theirs = (
        statistics.median(float(getattr(each, f"{field}_cpu_us")) for each in found[system])
        for system in (OURS, DEBEZIUM)
    )
    return (
        f"mainstem takes {mine:.1f} µs of CPU time for a row, in one Python thread, which cannot "
        f"use more than one core; Debezium's engine takes {theirs:.1f} µs, in several threads of "
        "compiled code, and stores nothing"
    )


def figures(found: Rounds) -> str:
    """Return the table of one database."""
    rows = []
    for line in _LINES:
        cells = [line.title]
        for system in SYSTEMS:
            values = sorted(getattr(each, line.field) for each in found[system])
            middle, low, high = (
                f"{each:,.{line.digits}f}"
                for each in (statistics.median(values), values[0], values[-1])
            )
            cells.append(f"{middle} ({low} to {high})")
        rows.append([*cells, f"{ratio(found, line.field):.2f}"])
    return table(["", *SYSTEMS, "ratio"], rows)


def page(found: Mapping[str, Rounds], plan: Plan, command: str, machine: str) -> str:
    """Return the page."""
    tables = "\n\n".join(
        f"## {database}\n\n{figures(rounds)}" for database, rounds in found.items()
    )
    rounds = len(next(iter(found.values()))[OURS])
    return _TEXT.format(
        command=command,
        machine=machine,
        rounds=rounds,
        rows=f"{plan.rows:,}",
        at_once=f"{AT_ONCE:,}",
        commits=f"{plan.commits:,}",
        aims="\n".join(aims(found)),
        tables=tables,
    )


_TEXT = """# Change capture from PostgreSQL and MariaDB beside Debezium

`{command}` writes this page. It ran on {machine}.

Figures are medians of {rounds} rounds, in which both systems take turns, with the range in
brackets; a ratio (mainstem's figure divided by Debezium's) is the median of the rounds' ratios.
In a round, a system first takes a snapshot of {rows} rows. Then {rows} rows are inserted in
transactions of {at_once} while its process is stopped (SIGSTOP), and it is measured how fast it
follows them after it is resumed. Last come {commits} single commits, each after the event of the
previous one has arrived. Tables have a bigint key, int, decimal, timestamp and 60 characters of
text.

mainstem runs as a server with a connector. For rows per second, an event counts when it is
appended to its topic; for the time from commit to consumer, when a client of the server has
received it, which is after the event was synced to disk. Debezium's engine (3.6 for PostgreSQL,
3.5 for MariaDB) runs in a Java program that drops the records; its heap is 512 MiB, and its
`poll.interval.ms` 1 (the default of 500 adds up to half a second to each commit). Both write JSON
without schemas. PostgreSQL reports when a transaction was committed. MariaDB reports this only in
whole seconds, so for MariaDB times begin when the program sends the INSERT, and include the
database's own commit.

The aims, and how far they are met:

{aims}

How long a change takes to the sinks of a pipeline is on [another page](cdc-views.md).

{tables}
"""

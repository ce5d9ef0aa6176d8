"""The page of figures: docs/benchmarks/kafka.md."""

from collections.abc import Sequence
from statistics import median

from bench.kafka.measuring import Compared, Delay, Figures, Process
from bench.kafka.plan import Plan

NOTES = """\
The raw limit is the rate of a process without a broker (`bench/kafka/sink.py`). It is a bare
uvloop protocol that writes all bytes that it reads to one file, one write per read, and answers
every produce request with the same prepared bytes. In the rows beside `fsync`, it answers all
waiting requests together when a thread has synced that file. It answers a fetch by sendfile from
the segments that mainstem wrote. It checks nothing, assigns no offsets and has no index. The same
client (librdkafka through confluent-kafka, in a process of its own, acks=all) sends to mainstem
and to this process in turn. Ratio is mainstem's rate divided by the raw rate, the median of the
rounds; all other figures are medians, too. CPU is user and system time of the whole process, in
microseconds per event. Everything runs on one machine, so client and broker share its cores. A
consumer that has 100,000 events waiting in its process requests more after 10 ms, not after a
second as by default (`fetch.queue.backoff.ms`), because otherwise the faster server would look
slower."""


def page(figures: Figures, plan: Plan, about: str) -> str:
    """Return the section with all tables."""
    delays = (
        f"At {plan.rate:,} events of {plan.pace.size} bytes per second, linger.ms=0, from "
        "produce() in one process to poll() in another. The raw process copies a batch from the "
        "producer's socket to the consumer's."
    )
    return "\n\n".join(
        (
            f"## Kafka clients\n\n{about}\n\n{NOTES}",
            "![Produce and consume as shares of the raw limit](kafka.svg)",
            "### Produce\n\n" + _compared(_of(figures, "produce")),
            "### Consume\n\n" + _compared([row for row in figures.rows if row.what != "produce"]),
            f"### End to end\n\n{delays}\n\n" + _delays(figures.delays),
            "### The process\n\nReady: the time from starting the process to its first answer to "
            "ApiVersions.\n\n" + _processes(figures.processes),
        )
    )


def _of(figures: Figures, what: str) -> list[Compared]:
    return [row for row in figures.rows if row.what == what]


def _compared(rows: Sequence[Compared]) -> str:
    head = (
        "event",
        "client",
        "partitions",
        "system",
        "events/s",
        "MB/s",
        "raw events/s",
        "ratio",
        "broker CPU, µs",
        "client CPU, µs",
        "raw CPU, µs",
    )
    return table(head, [_row(row) for row in rows])


def _row(row: Compared) -> tuple[str, ...]:
    rate = median(row.ours.per_second)
    return (
        f"{row.cell.size} B",
        row.cell.way.name + ("" if row.what in ("produce", "consume") else f"; {row.what}"),
        f"{row.cell.partitions}",
        row.system,
        f"{rate:,.0f}",
        f"{rate * row.cell.size / 1e6:,.1f}",
        f"{median(row.raw.per_second):,.0f}",
        f"{row.ratio:.2f}",
        _cpu(row, row.ours.broker_cpu_s),
        _cpu(row, row.ours.client_cpu_s),
        _cpu(row, row.raw.broker_cpu_s),
    )


def _cpu(row: Compared, seconds: list[float]) -> str:
    return f"{median(seconds) / (row.cell.events * row.readers) * 1e6:.1f}"


def _delays(delays: Sequence[Delay]) -> str:
    rows = [
        (
            delay.system,
            f"{median(delay.p50_ms):.2f}",
            f"{median(delay.p99_ms):.2f}",
            f"{median(delay.highest_ms):.1f}",
        )
        for delay in delays
    ]
    return table(("system", "p50, ms", "p99, ms", "highest, ms"), rows)


def _processes(processes: Sequence[Process]) -> str:
    rows = [
        (each.system, f"{each.ready_ms:.0f}", f"{each.idle_mb:.0f}", f"{each.loaded_mb:.0f}")
        for each in processes
    ]
    return table(("system", "ready, ms", "memory idle, MB", "after the run, MB"), rows)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown; numbers stand to the right."""
    numbers = [all(row[at][:1].isdigit() for row in rows) for at in range(len(head))]
    line = "|" + "|".join("---:" if number else "---" for number in numbers) + "|"
    cells = [head, *rows]
    text = [f"| {' | '.join(row)} |" for row in cells]
    return "\n".join([text[0], line, *text[1:]])

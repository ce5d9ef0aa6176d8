"""The page of figures: docs/benchmarks/amqp.md, made from amqp.json."""

from collections.abc import Sequence
from statistics import median

import msgspec
from bench.amqp.measuring import Row
from bench.amqp.systems import OURS, THEIRS
from bench.kafka.page import table

THROUGHPUT_AIM, LATENCY_AIM = 2.0, 1.0
_LESS_IS_BETTER = ("latency", "memory", "start")

_WHY = {
    "publish": "Publishing: one thread parses, appends and confirms messages. Each queue is a "
    "topic, so with 50 queues the messages of one read from the socket need 50 appends, not one.",
    "consume": "Consuming: one thread reads, acquires, sends and settles messages, which has a "
    "fixed cost for each turn of the event loop and each queue. With a small prefetch limit or "
    "many queues only few messages share this cost.",
    "latency": "Latency: each message is processed by Python code twice, from the publisher to "
    "the log and from the log to the consumer.",
    "celery": "Celery: its publisher and worker take most of the time, with both servers.",
    "backlog": "Backlog: the reasons are those of publishing, and of consuming with a prefetch "
    "limit of 100.",
}
"""Why a kind of figures may fall short of its aim."""

NOTES = """\
The client is `load.c`, which is built on librabbitmq and runs in a process of its own. It uses
both servers in turn, on the same machine, with durable queues. Both servers have their default
settings; no plugin is enabled in RabbitMQ. Publishing: at most {window:,} messages are
unconfirmed; with several queues they are published to the queues in turn. Consuming: every
message gets its own `basic.ack` (no `multiple`), and each queue has one consumer, whose prefetch
limit is in the column *prefetch*. Every figure is the median of the rounds; a ratio (mainstem's
figure divided by RabbitMQ's) is the median of the rounds' ratios. CPU is user and system time of
the whole server, in microseconds per message. Client and server share the cores, so figures of
different pages cannot be compared. A load average far above the number of cores means that other
programs took most of the CPU time. This slows down a server with one busy thread more than one
with several; in this case compare CPU, and measure again."""


class Section(msgspec.Struct):
    """What was measured in one run, and how."""

    about: str
    rows: list[Row]


class Figures(msgspec.Struct):
    """All there is: sections may come from different runs."""

    version: str
    """Of RabbitMQ."""
    sections: dict[str, Section] = {}


class _Part(msgspec.Struct, frozen=True):
    """A table of the page: its rows and how it names them."""

    section: str
    what: str
    title: str
    unit: str
    note: str = ""


_PARTS = (
    _Part("throughput", "publish", "Publish and confirm", "messages/s"),
    _Part("throughput", "consume", "Consume and acknowledge", "messages/s"),
    _Part(
        "latency",
        "latency",
        "Latency",
        "µs",
        "Messages of 100 B at 1,000 messages/s without confirms; the time from basic.publish in "
        "one process to the consumer in another.",
    ),
    _Part(
        "celery",
        "celery",
        "Celery",
        "tasks/s",
        "One publisher and one worker (`--pool solo`), with the same app for both servers; "
        "measured from the first `delay()` to the end of the last task. Celery itself takes most "
        "of the time.",
    ),
    _Part(
        "backlog",
        "backlog",
        "A backlog",
        "messages/s",
        "Transient messages of 100 B are published to one queue, then consumed with a prefetch "
        "limit of 100; measured once.",
    ),
    _Part("backlog", "memory", "Memory", "MB", "Resident memory of the server's process."),
    _Part(
        "start",
        "start",
        "Start-up",
        "ms",
        "The time from starting the process to its first answer to a client.",
    ),
)


def page(figures: Figures, window: int) -> str:
    """Return the page with all tables that there are figures for."""
    parts = [
        f"# AMQP 0-9-1 clients: mainstem beside RabbitMQ {figures.version}",
        "`python -m bench.amqp` writes this page. RabbitMQ is Debian's package.",
        NOTES.format(window=window),
        _summary(figures),
    ]
    for part in _PARTS:
        if (section := figures.sections.get(part.section)) is not None:
            rows = [row for row in section.rows if row.what == part.what]
            texts = (f"## {part.title}", part.note, _table(part, rows), section.about)
            parts += [text for text in texts if text]
    return "\n\n".join(parts) + "\n"


def ratio(row: Row) -> float:
    """Return the median of the rounds' ratios, ours to RabbitMQ."""
    pairs = zip(row.values[OURS], row.values[THEIRS], strict=True)
    return median(ours / theirs for ours, theirs in pairs)


def short_of(figures: Figures) -> list[str]:
    """Return what does not meet its aim, a line each."""
    found = []
    for section in figures.sections.values():
        for row in section.rows:
            aim = LATENCY_AIM if row.what in _LESS_IS_BETTER else THROUGHPUT_AIM
            value = ratio(row)
            meets = value <= aim if row.what in _LESS_IS_BETTER else value >= aim
            if not meets:
                case = ", ".join(f"{name} {value}" for name, value in row.case.items())
                found.append(f"- {row.what}: {case}: {value:.2f} (aim: {aim:.1f})")
    return found


def _summary(figures: Figures) -> str:
    aims = (
        f"The aim is at least {THROUGHPUT_AIM:.1f} times RabbitMQ's rate, and at most "
        f"{LATENCY_AIM:.1f} times its latency, memory and start-up time."
    )
    short = short_of(figures)
    if not short:
        return f"{aims} Everything meets it."
    kinds = {line.removeprefix("- ").partition(":")[0] for line in short}
    reasons = [reason for kind, reason in _WHY.items() if kind in kinds]
    return "\n".join([f"{aims} What falls short:", "", *short, "", " ".join(reasons)])


def _table(part: _Part, rows: Sequence[Row]) -> str:
    has_cpu = bool(rows and rows[0].cpu_us)
    head = [*rows[0].case, f"{OURS}, {part.unit}", f"{THEIRS}, {part.unit}", "ratio"]
    if has_cpu:
        head += [f"{OURS} CPU, µs", f"{THEIRS} CPU, µs"]
    cells = []
    for row in rows:
        values = [f"{median(row.values[each]):,.0f}" for each in (OURS, THEIRS)]
        line = [*row.case.values(), *values, f"{ratio(row):.2f}"]
        if has_cpu:
            line += [f"{median(row.cpu_us[each]):.1f}" for each in (OURS, THEIRS)]
        cells.append(line)
    return table(head, cells)

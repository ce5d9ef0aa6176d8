"""The comparison with Apache Kafka and NATS as a page: tables, missed aims, a chart."""

from collections.abc import Iterator, Sequence
from statistics import median

import msgspec
from bench.chart import Multiples, multiples
from bench.kafka.measuring import Delay, Process
from bench.kafka.page import table
from bench.kafka.plan import TURN_S, Cell

OURS, KAFKA, NATS = "mainstem", "Apache Kafka", "NATS JetStream"
SERIES = ((KAFKA, "#2b6cb0"), (NATS, "#b7791f"))
SYNCED = "produce, synced"
NOTES = """\
All servers run on this machine, one process each, and take turns in each round; a different one
begins each round. Some turns before the counted rounds warm the servers up, because a JVM needs
it. All turns of a row produce to one topic, which was created before. Each partition gets one
event before the measurement starts; then the client sends as many events as that system takes in
about {turn_s} s, or 250,000 of 100 B and 80,000 of 1 KB if that is less. Afterwards a check
requests the number of stored events from the server. A topic is read four times in each round,
since reading takes only a fraction of a second. Ratio is mainstem's rate divided by that of the
other system, the median of the rounds; all other figures are medians, too. For latency, start-up
and memory, ratio is the other system's figure divided by mainstem's. So mainstem is better
wherever the ratio is above 1. CPU is user and system time of the whole process, in microseconds
per event; servers and clients share the cores.

**Apache Kafka** {kafka} is one node with its own controller (KRaft) and the options of its start
script (1 GB of heap, G1). Kafka and mainstem have the same client: librdkafka through
confluent-kafka, in a process of its own, acks=all. A consumer that has 100,000 events waiting in
its process requests more after 10 ms, not after a second as by default
(`fetch.queue.backoff.ms`), because otherwise a faster server would look slower. mainstem's
durability `disk` is compared with Kafka's defaults: both have written every event to the page
cache before they acknowledge it, so it survives kill -9, but not a power cut. `fsync` is compared
with `flush.messages=1`: both sync before they acknowledge.

**NATS** {nats} has a file stream with one replica for each topic; for 100 partitions it has one
stream with 100 subjects, which is how users of NATS partition. It writes each event with a system
call of its own before it acknowledges it, so the event survives kill -9, as with `disk`.
librdkafka does not speak NATS' protocol, and with nats-py the client would be the limit (it takes
50 µs of CPU per event, five times as much as the server). So NATS has the fastest possible client
(`bench/kafka/nats_client.py`): it sends commands that were encoded beforehand, with up to 4,000
unanswered as in NATS' own clients, and counts answers and events without parsing them. So NATS'
rates leave out client work that the rates of mainstem and Kafka include: librdkafka makes
batches, checksums and an object for each event. Therefore compare the columns of CPU, too. NATS
has no batches, so its figures for the first three clients measure the same thing again. Its
events are read by pull consumers without acknowledgements, 1,000 events at a time. By default
NATS syncs every two minutes; for the synced rows, a second NATS server syncs each event before it
acknowledges it (`sync_interval: always`)."""


class Turn(msgspec.Struct, frozen=True):
    """One turn of one system: events per second, and microseconds of CPU per event."""

    per_second: float
    server_us: float
    client_us: float


class Row(msgspec.Struct):
    """One measured row: a turn of each system per round."""

    what: str
    cell: Cell
    readers: int = 1
    turns: dict[str, list[Turn]] = {}

    @property
    def about(self) -> str:
        """What was written or read."""
        partitions = f"{self.cell.partitions} partition{'s' * (self.cell.partitions > 1)}"
        return f"{self.cell.size} B, {self.cell.way.name}, {partitions}"

    @property
    def name(self) -> str:
        """What to call it."""
        return f"{self.what}: {self.about}"

    @property
    def summary(self) -> str:
        """Its ratios in a line."""
        found = [f"{self.ratio(name):.2f} of {name}" for name in self.turns if name != OURS]
        return f"{self.name}: {', '.join(found)}"

    def add(self, name: str, turn: Turn) -> None:
        """Keep a turn."""
        self.turns.setdefault(name, []).append(turn)

    def ratio(self, name: str) -> float:
        """Return ours to another's, the median of the rounds."""
        pairs = zip(self.turns[OURS], self.turns[name], strict=True)
        return median(ours.per_second / other.per_second for ours, other in pairs)


class Standing(msgspec.Struct):
    """Everything that was measured, and on what."""

    about: str
    kafka_version: str
    nats_version: str
    rows: list[Row] = []
    delays: list[Delay] = []
    processes: list[Process] = []


class Ratio(msgspec.Struct, frozen=True):
    """How much better mainstem is than another system, and the aim."""

    group: str
    about: str
    other: str
    value: float
    aim: float = 1.0


def ratios(standing: Standing) -> Iterator[Ratio]:
    """Yield all ratios; above 1 mainstem is better, also where less is better."""
    for row in standing.rows:
        for name in (name for name in row.turns if name != OURS):
            aim = 2.0 if row.what == SYNCED else 1.0
            yield Ratio(row.what, row.about, name, row.ratio(name), aim)
    delays = {each.system: each for each in standing.delays}
    for system, delay in delays.items():
        name, comma, synced = system.partition(",")
        if name != OURS:
            ours = delays[f"{OURS}{comma}{synced}"]
            for what in ("p50_ms", "p99_ms"):
                value = median(getattr(delay, what)) / median(getattr(ours, what))
                yield Ratio("latency at 1,000/s", f"{what[:3]}{comma}{synced}", name, value)
    (own, *others) = standing.processes
    for each in others:
        aim = 10.0 if each.system == KAFKA else 1.0
        yield Ratio("process", "start-up", each.system, each.ready_ms / own.ready_ms, aim)
        yield Ratio("process", "memory idle", each.system, each.idle_mb / own.idle_mb, aim)
        yield Ratio("process", "memory at most", each.system, each.loaded_mb / own.loaded_mb)


def page(standing: Standing) -> str:
    """Return the section with all tables."""
    produce, synced, consume = (
        [row for row in standing.rows if row.what.startswith(what)]
        for what in ("produce, disk", SYNCED, "consume")
    )
    parts = [
        f"## Beside Apache Kafka and NATS\n\n{standing.about}\n\n{_notes(standing)}",
        "![Rates as multiples of the others'](kafka-peers.svg)",
        f"### What falls short\n\n{_short(standing)}",
    ]
    for heading, rows in (
        ("Produce, beside the others", produce),
        ("Produce, synced before it is acknowledged, beside the others", synced),
        ("Consume, beside the others", consume),
    ):
        if rows:
            parts.append(f"### {heading}\n\n{_table(rows)}")
    if standing.delays:
        parts.append(f"### End to end, beside the others\n\n{_delays(standing.delays)}")
    parts.append(f"### The process, beside the others\n\n{_processes(standing.processes)}")
    return "\n\n".join(parts)


def _notes(standing: Standing) -> str:
    versions = {"kafka": standing.kafka_version, "nats": standing.nats_version}
    return NOTES.format(turn_s=TURN_S, **versions)


def _short(standing: Standing) -> str:
    found = [
        f"- {each.group}: {each.about}: {each.value:.2f} of {each.other} (aim: {each.aim:.1f})"
        for each in ratios(standing)
        if each.value < each.aim
    ]
    aims = (
        "The aims are a ratio of 1.0 on every row, 2.0 where both sync, and 10 for start-up and "
        "idle memory beside Kafka. "
    )
    if not found:
        return aims + "All are met."
    return (
        aims
        + f"{len(found)} are not met; each line has a row and its ratio:\n\n"
        + "\n".join(found)
    )


def _table(rows: Sequence[Row]) -> str:
    others = [name for name in rows[0].turns if name != OURS]
    head = ["event", "client", "partitions", "mainstem, events/s"]
    for name in others:
        head += [f"{name}, events/s", "ratio"]
    head += ["CPU of mainstem, µs", "of its client"]
    for name in others:
        head += [f"CPU of {name}, µs", "of its client"]
    return table(head, [_cells(row, others) for row in rows])


def _cells(row: Row, others: Sequence[str]) -> list[str]:
    readers = "" if row.readers == 1 else f"; {row.readers} readers at once"
    found = [f"{row.cell.size} B", f"{row.cell.way.name}{readers}", f"{row.cell.partitions}"]
    found.append(f"{median(turn.per_second for turn in row.turns[OURS]):,.0f}")
    for name in others:
        rate = median(turn.per_second for turn in row.turns[name])
        found += [f"{rate:,.0f}", f"{row.ratio(name):.2f}"]
    for name in (OURS, *others):
        found.append(f"{median(turn.server_us for turn in row.turns[name]):.1f}")
        found.append(f"{median(turn.client_us for turn in row.turns[name]):.1f}")
    return found


def _delays(delays: Sequence[Delay]) -> str:
    rows = [
        (each.system, f"{median(each.p50_ms):.2f}", f"{median(each.p99_ms):.2f}") for each in delays
    ]
    return (
        "At 1,000 events of 100 bytes per second, linger.ms=0: the time from creating an event in "
        "one process to receiving it in another.\n\n"
        + table(("system", "p50, ms", "p99, ms"), rows)
    )


def _processes(processes: Sequence[Process]) -> str:
    rows = [
        (each.system, f"{each.ready_ms:,.0f}", f"{each.idle_mb:,.0f}", f"{each.loaded_mb:,.0f}")
        for each in processes
    ]
    return (
        "Ready: the time from starting the server on an empty directory (Kafka's was formatted "
        "before) to its first answer.\n\n"
        + table(("system", "ready, ms", "memory idle, MB", "at most, MB"), rows)
    )


def draw(standing: Standing) -> str:
    """Return an SVG with every ratio."""
    groups: dict[str, dict[str, dict[str, float]]] = {}
    for each in ratios(standing):
        rows = groups.setdefault(each.group, {})
        rows.setdefault(each.about, {})[each.other] = each.value
    return multiples(
        "mainstem beside others: to the right of 1 it is better",
        [(f"than {name}", colour) for name, colour in SERIES],
        [(group, _bars(rows)) for group, rows in groups.items()],
        note="rates, and how many times less time or memory it takes; logarithmic",
    )


def _bars(rows: dict[str, dict[str, float]]) -> list[Multiples]:
    return [
        Multiples(about, [values.get(name) for name, _ in SERIES]) for about, values in rows.items()
    ]

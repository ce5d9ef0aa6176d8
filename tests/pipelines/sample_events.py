"""Orders, payments and users as they come: out of order, sent twice, most in one partition."""

import json
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from pyspark.sql import SparkSession

import mainstem
from mainstem.pipelines.definitions.table import Pipeline
from mainstem.pipelines.planning.planner import Bounds
from mainstem.pipelines.running.pipeline_run import run
from mainstem.pipelines.running.table_run import Report, Request
from mainstem.pipelines.state.table_state import TableStatus

BEGIN_MS = 1_794_729_600_000
HOUR_MS = 3_600_000
TOPICS = ("orders", "payments", "users")
PATIENCE_S = 600


class World(msgspec.Struct):
    """What happened, in the order in which it was published."""

    orders: list[mainstem.Event]
    payments: list[mainstem.Event]
    users: list[mainstem.Event]


class Order(msgspec.Struct, frozen=True):
    """What is left to chance of an order; times in seconds."""

    after: int
    """Since the order before."""
    late: int
    user: int
    cents: int
    again_after: int | None
    """When it is sent a second time."""
    paid_after: int | None
    payment_late: int


LATEST_S = 4 * 60
"""How late an event may be, and how long it may take until it is sent again."""
PAID_WITHIN_S = 5 * 60


def some_world(seed: int, count: int = 60) -> World:
    """Make events of about two hours."""
    return world_of(some_orders(seed, count, 2 * 3600))


def some_orders(seed: int, count: int, length_s: int) -> list[Order]:
    """Make orders of about so long a time."""
    chance = random.Random(seed)
    return [
        Order(
            after=chance.randrange(2 * length_s // count),
            late=chance.randrange(LATEST_S),
            user=min(chance.randrange(4), chance.randrange(4)),
            cents=chance.randrange(1, 5000),
            again_after=chance.randrange(LATEST_S) if chance.random() < 0.2 else None,
            paid_after=chance.randrange(PAID_WITHIN_S) if chance.random() < 0.7 else None,
            payment_late=chance.randrange(LATEST_S),
        )
        for _ in range(count)
    ]


def world_of(orders: list[Order]) -> World:
    """Make the events: none comes later than twice ``LATEST_S``, less than watermarks allow."""
    ordered, payments = [], []
    now_ms = BEGIN_MS
    for number, each in enumerate(orders):
        now_ms += each.after * 1000
        order = {
            "id": f"o{number}",
            "user": f"u{each.user}",
            "amount": f"{each.cents / 100:.2f}",
            "at": now_ms / 1000,
        }
        ordered.append(event(order, now_ms + each.late * 1000))
        if each.again_after is not None:
            ordered.append(event(order, now_ms + each.again_after * 1000))
        if each.paid_after is not None:
            paid_ms = now_ms + each.paid_after * 1000
            payment = {"order_id": f"o{number}", "method": "card", "paid_at": paid_ms / 1000}
            payments.append(event(payment, paid_ms + each.payment_late * 1000))
    users = [
        event({"user": f"u{number % 4}", "city": f"c{number}", "nr": number}, BEGIN_MS + number)
        for number in (7, 2, 9, 0, 5, 1, 11, 3, 10, 4, 8, 6)
    ]
    for each_kind in (ordered, payments):
        each_kind.sort(key=lambda each: each.timestamp_ms)
    return World(ordered, payments, users)


def event(document: dict[str, object], sent_ms: int) -> mainstem.Event:
    """Make an event of a document in which times are seconds."""
    for name in ("at", "paid_at"):
        if name in document:
            document = document | {name: _iso(float(str(document[name])))}
    return mainstem.Event(json.dumps(document).encode(), timestamp_ms=sent_ms)


def _iso(seconds: float) -> str:
    from datetime import UTC, datetime  # noqa: PLC0415

    return datetime.fromtimestamp(seconds, UTC).isoformat()


def publish(address: str, topic: str, events: list[mainstem.Event]) -> None:
    """Publish in order; most go to one partition, and the other has none of the first half.

    So if a backlog were read from each partition by its share, the other would run ahead.
    """
    with mainstem.connect(address) as stem:
        for partition in (0, 1):
            half = len(events) // 2
            mine = [
                each
                for n, each in enumerate(events)
                if (n > half and n % 2 == 1) == bool(partition)
            ]
            if mine:
                stem.publish_many(topic, mine, partition=partition)


def create_topics(address: str) -> None:
    """Make the topics, with two partitions each."""
    with mainstem.connect(address) as stem:
        for topic in TOPICS:
            stem.topics.create(topic, partitions=2, exist_ok=True)


def bounded(
    spark: SparkSession, pipeline: Pipeline, address: str, **how: object
) -> dict[str, TableStatus]:
    """Run up to where the topics end, or to ``to_ms``."""
    into, complete = how.get("into"), bool(how.get("complete"))
    to_ms, max_rows = how.get("to_ms"), how.get("max_rows")
    only = str(how["only"]).split() if "only" in how else ()
    ending = {"endingTimestamp": str(to_ms)} if to_ms else {}
    request = Request(
        address,
        Path("state"),
        "batch",
        Bounds(ending=ending, max_rows=int(str(max_rows)) if max_rows else None),
        into=str(into) if into else None,
        complete=complete,
        only=tuple(only),
    )
    return run(spark, pipeline, request, ignore, threading.Event())


def ignore(report: Report) -> None:
    """Tell nobody."""


@contextmanager
def streaming(
    spark: SparkSession,
    pipeline: Pipeline,
    address: str,
    max_rows: int,
    notify: Callable[[str], None] = lambda _: None,
    failing: str = "",
) -> Iterator[Callable[[Callable[[dict[str, TableStatus]], bool]], None]]:
    """Run continuously in a thread; gives a function that waits for a state of the tables.

    ``failing``: the table that the run must name when it ends, as that has failed.
    """
    stop, changed = threading.Event(), threading.Condition()
    known: dict[str, TableStatus] = {}
    failures: list[BaseException] = []

    def tell(report: Report) -> None:
        with changed:
            known[report.table] = report.status
            changed.notify_all()

    def work() -> None:
        bounds = Bounds(max_rows=max_rows)
        request = Request(address, Path("state"), "stream", bounds, interval_ms=500)
        try:
            run(spark, pipeline, request, tell, stop, notify)
        except mainstem.MainstemError as error:
            failures.append(error)

    def wait(reached: Callable[[dict[str, TableStatus]], bool]) -> None:
        with changed:
            assert changed.wait_for(lambda: reached(known) or bool(failures), PATIENCE_S)
        assert not failures, failures

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield wait
    finally:
        stop.set()
        thread.join()
    if failing:
        assert [f"table '{failing}' stopped" in str(each) for each in failures] == [True], failures
    else:
        assert not failures, failures


def rows_of(pipeline: Pipeline, into: str | None = None) -> dict[str, list[str]]:
    """Return the rows of all tables, sorted, as text."""
    found = {}
    for table in pipeline.tables:
        sink = table.sink.beside(into) if into else table.sink
        rows = sink.read()
        assert rows is not None, table.name
        found[table.name] = sorted(map(repr, rows.to_pylist()))
    return found


def forget_last_commit(checkpoint: Path) -> None:
    """Leave the checkpoint as a crash does: the sink has the last batch, Spark does not know."""
    commits = [each for each in (checkpoint / "commits").iterdir() if each.name.isdigit()]
    last = max(commits, key=lambda each: int(each.name))
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink(missing_ok=True)

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
from mainstem.pipelines.definitions import Pipeline
from mainstem.pipelines.plans import Bounds
from mainstem.pipelines.running import run
from mainstem.pipelines.standing import Standing
from mainstem.pipelines.table_run import Report, Request

BEGIN_MS = 1_794_729_600_000
MINUTE_MS = 60_000
TOPICS = ("orders", "payments", "users")
PATIENCE_S = 240


class World(msgspec.Struct):
    """What happened, in the order in which it was published."""

    orders: list[mainstem.Event]
    payments: list[mainstem.Event]
    users: list[mainstem.Event]


def some_world(seed: int, count: int = 60, length_minutes: int = 60) -> World:
    """Make events of about an hour; none is more than 5 minutes late."""
    chance = random.Random(seed)
    orders, payments = [], []
    for number in range(count):
        sent_ms = BEGIN_MS + number * length_minutes * MINUTE_MS // count
        at_ms = sent_ms - chance.randrange(5 * MINUTE_MS)
        order = {
            "id": f"o{number}",
            "user": f"u{chance.randrange(4)}",
            "amount": f"{chance.randrange(1, 5000) / 100:.2f}",
            "at": at_ms / 1000,
        }
        orders.append(event(order, sent_ms))
        if chance.random() < 0.2:
            orders.append(event(order, sent_ms + chance.randrange(MINUTE_MS)))
        if chance.random() < 0.7:
            paid_ms = at_ms + chance.randrange(5 * MINUTE_MS)
            payment = {"order_id": f"o{number}", "method": "card", "paid_at": paid_ms / 1000}
            payments.append(event(payment, sent_ms + MINUTE_MS))
    users = [
        event({"user": f"u{number % 4}", "city": f"c{number}", "nr": number}, BEGIN_MS + number)
        for number in chance.sample(range(12), 12)
    ]
    orders.sort(key=lambda each: each.timestamp_ms)
    return World(orders, payments, users)


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
    """Publish in order; three of four go to one partition."""
    with mainstem.connect(address) as stem:
        for partition in (0, 1):
            mine = [each for n, each in enumerate(events) if (n % 4 == 3) == bool(partition)]
            if mine:
                stem.publish_many(topic, mine, partition=partition)


def create_topics(address: str) -> None:
    """Make the topics, with two partitions each."""
    with mainstem.connect(address) as stem:
        for topic in TOPICS:
            stem.topics.create(topic, partitions=2, exist_ok=True)


def bounded(
    spark: SparkSession, pipeline: Pipeline, address: str, **how: object
) -> dict[str, Standing]:
    """Run up to where the topics end, or to ``to_ms``."""
    into, complete = how.get("into"), bool(how.get("complete"))
    to_ms, max_rows = how.get("to_ms"), how.get("max_rows")
    ending = {"endingTimestamp": str(to_ms)} if to_ms else {}
    request = Request(
        address,
        Path("state"),
        "batch",
        Bounds(ending=ending, max_rows=int(str(max_rows)) if max_rows else None),
        into=str(into) if into else None,
        complete=complete,
    )
    return run(spark, pipeline, request, ignore, threading.Event())


def ignore(report: Report) -> None:
    """Tell nobody."""


@contextmanager
def streaming(
    spark: SparkSession, pipeline: Pipeline, address: str, max_rows: int
) -> Iterator[Callable[[Callable[[dict[str, Standing]], bool]], None]]:
    """Run continuously in a thread; gives a function that waits for a state of the tables."""
    stop, changed = threading.Event(), threading.Condition()
    known: dict[str, Standing] = {}
    failures: list[BaseException] = []

    def tell(report: Report) -> None:
        with changed:
            known[report.table] = report.standing
            changed.notify_all()

    def work() -> None:
        request = Request(address, Path("state"), "stream", Bounds(max_rows=max_rows))
        try:
            run(spark, pipeline, request, tell, stop)
        except mainstem.MainstemError as error:
            failures.append(error)

    def wait(reached: Callable[[dict[str, Standing]], bool]) -> None:
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


def rows_of(pipeline: Pipeline, into: str | None = None) -> dict[str, list[str]]:
    """Return the rows of all tables, sorted, as text."""
    found = {}
    for table in pipeline.tables:
        sink = table.sink.beside(into) if into else table.sink
        rows = sink.read()
        assert rows is not None, table.name
        found[table.name] = sorted(map(repr, rows.to_pylist()))
    return found

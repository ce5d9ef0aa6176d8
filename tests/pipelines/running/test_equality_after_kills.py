"""Three tables by a stream that is killed, by a batch, and by a replay: equal, and right.

How this works: each run is a process of its own, by the command that a user would give. What the
tables should hold is computed here from the events, without Spark.
"""

import json
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from tests.in_process_server import serving
from tests.long_runs import LONG
from tests.pipelines.running.runs import PATIENCE_S, Rows, Runs
from tests.pipelines.sample_events import World, create_topics, publish, some_world
from tests.processes import wait_until, wait_until_none_is_left

THREE = Path(__file__).with_name("three_tables.py")
TABLES = ("windows", "once", "paid")
TIMES = 20 if LONG else 1

pytestmark = [
    pytest.mark.peers,
    pytest.mark.minutes,
    pytest.mark.timeout(TIMES * 1800),
    pytest.mark.usefixtures("own_scratch"),
]


def are_exact(runs: Runs, into: str | None = None) -> bool:
    """Tell whether no event came too late for any table."""
    found = [runs.status(table, into) for table in TABLES]
    return all(each is not None and each.exact and each.state == "complete" for each in found)


def expected(world: World) -> Rows:
    """Compute the tables without Spark."""
    sums: dict[datetime, list[Decimal]] = defaultdict(list)
    orders: dict[str, tuple[str, Decimal, datetime]] = {}
    for event in world.orders:
        order = json.loads(event.value or b"")
        at, amount = datetime.fromisoformat(order["at"]), Decimal(order["amount"])
        start = datetime.fromtimestamp(at.timestamp() // 600 * 600, UTC)
        sums[start].append(amount)
        orders[order["id"]] = (order["user"], amount, at)
    paid = []
    for event in world.payments:
        payment = json.loads(event.value or b"")
        user, amount, at = orders[payment["order_id"]]
        paid_at = datetime.fromisoformat(payment["paid_at"])
        if at <= paid_at <= at + timedelta(minutes=5):
            paid.append((payment["order_id"], user, amount, payment["method"], paid_at))
    return {
        "windows": sorted((start, sum(each), len(each)) for start, each in sums.items()),
        "once": sorted((name, *rest) for name, rest in orders.items()),
        "paid": sorted(paid),
    }


def halves(world: World) -> tuple[World, World]:
    """Cut a world in two, at one moment."""
    cut_ms = world.orders[len(world.orders) // 2].timestamp_ms
    first, second = World([], [], []), World([], [], [])
    for topic in ("orders", "payments"):
        for event in getattr(world, topic):
            getattr(first if event.timestamp_ms < cut_ms else second, topic).append(event)
    return first, second


def publish_all(address: str, world: World) -> None:
    for topic in ("orders", "payments"):
        publish(address, topic, getattr(world, topic))


def by_killed_stream(runs: Runs, address: str, world: World, number: int) -> Rows:
    """Stream the first half until some batch of some table, kill all, and stream the rest."""
    first, second = halves(world)
    create_topics(address)
    publish_all(address, first)
    how = ("--stream", "--max-rows", "20")
    table, batch = TABLES[number % len(TABLES)], number % 2
    stream = runs.start(*how)
    reached = f"table {table} has not come to batch {batch}"
    wait_until(lambda: stream.poll() is not None or runs.batch(table) >= batch, reached, PATIENCE_S)
    runs.kill(stream)

    publish_all(address, second)
    stream = runs.start(*how)

    def caught_up() -> bool:
        orders = all(runs.read(each, "orders") == len(world.orders) for each in ("windows", "once"))
        return orders and runs.read("paid", "payments") == len(world.payments)

    wait_until(lambda: stream.poll() is not None or caught_up(), "it does not end", PATIENCE_S)
    stream.terminate()
    assert stream.wait(PATIENCE_S) == 0, runs.told()
    wait_until_none_is_left(runs.mark)
    runs.run("--batch", "--complete")
    return runs.rows()


@pytest.mark.parametrize("number", range(TIMES))
def test_a_killed_stream_a_batch_and_a_replay_give_the_tables_that_plain_python_gives(
    tmp_path: Path, number: int
) -> None:
    world = some_world(number + 1)
    right = expected(world)
    assert all(right.values())
    with serving(None) as address:
        runs = Runs(THREE, tmp_path / "stream", address)
        streamed = by_killed_stream(runs, address, world, number)
        bounded = Runs(THREE, tmp_path / "batch", address)
        bounded.run("--batch", "--complete")
        bounded.run("--replay", "--into", "again", "--complete", "--max-rows", "40")

    assert streamed == right
    assert bounded.rows() == right
    assert bounded.rows("again") == right
    assert are_exact(runs)
    assert are_exact(bounded)
    assert are_exact(bounded, "again")

"""A dozen definitions, each of another kind; a pipeline file that tests run in every way."""

from collections.abc import Iterator
from datetime import UTC, datetime

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from mainstem import pipelines as p

ORDERS = "id string, user string, amount decimal(12,2), at timestamp"
PAYMENTS = "order_id string, method string, paid_at timestamp"
USERS = "user string not null, city string, nr bigint"
TEN = ("at", "10 minutes")

orders = p.events("orders", schema=ORDERS, watermark=TEN)
payments = p.events("payments", schema=PAYMENTS, watermark=("paid_at", "10 minutes"))


@p.table(source="users", schema=USERS, sink=p.delta("t/users", key="user", latest="nr"))
def users(rows: DataFrame) -> DataFrame:
    """Rows that replace one another."""
    return rows


@p.table(source=orders, sink=p.delta("t/minutes"))
def minutes(rows: DataFrame) -> DataFrame:
    """A window that closes."""
    return rows.groupBy(F.window("at", "7 minutes").alias("w")).agg(F.sum("amount").alias("sum"))


@p.table(source=orders, sink=p.sqlite("t/base.db", "totals", key=("w", "user")))
def totals(rows: DataFrame) -> DataFrame:
    """A window that is updated while it is open."""
    window = F.window("at", "20 minutes").alias("w")
    return rows.groupBy(window, "user").agg(F.sum("amount").alias("sum"))


@p.table(source=orders, sink=p.parquet("t/sliding"))
def sliding(rows: DataFrame) -> DataFrame:
    """Windows that overlap, of every pair of order and time once: two kinds of state."""
    known = rows.dropDuplicates(["id", "at"])
    return known.groupBy(F.window("at", "10 minutes", "5 minutes").alias("w")).count()


@p.table(source=orders, sink=p.delta("t/sessions"))
def sessions(rows: DataFrame) -> DataFrame:
    """Windows that end when nothing comes for a while."""
    return rows.groupBy(F.session_window("at", "9 minutes").alias("w"), "user").count()


@p.table(source=orders, sink=p.parquet("t/once"))
def once(rows: DataFrame) -> DataFrame:
    """Every order once, however often it was sent."""
    return rows.dropDuplicatesWithinWatermark(["id"])


class Spending(StatefulProcessor):
    """Keeps what a user spent in each half hour, and tells it when that is over."""

    _LENGTH_MS = 1_800_000

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._spent = handle.getMapState("spent", "end_ms bigint", "cents bigint")

    def handleInputRows(  # noqa: N802 - Spark's
        self,
        key: tuple[str],
        rows: Iterator[Row],
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[Row]:
        for row in rows:
            at_ms = round(row["at"].timestamp() * 1000)
            end = (at_ms // self._LENGTH_MS * self._LENGTH_MS + self._LENGTH_MS,)
            (before,) = self._spent.getValue(end) or (0,)
            self._spent.updateValue(end, (before + round(row["amount"] * 100),))
            self._handle.registerTimer(end[0])
        return iter(())

    def handleExpiredTimer(  # noqa: N802 - Spark's
        self,
        key: tuple[str],
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803
    ) -> Iterator[Row]:
        end_ms = expiredTimerInfo.getExpiryTimeInMs()
        (cents,) = self._spent.getValue((end_ms,)) or (0,)
        self._spent.removeKey((end_ms,))
        yield Row(user=key[0], until=datetime.fromtimestamp(end_ms / 1000, UTC), cents=cents)

    def close(self) -> None:
        pass


@p.table(source=orders, sink=p.sqlite("t/base.db", "spending"))
def spending(rows: DataFrame) -> DataFrame:
    """State and timers of a program's own."""
    kept = "user string, until timestamp, cents bigint"
    return rows.groupBy("user").transformWithState(Spending(), kept, "Append", "EventTime")


@p.table(source=[orders, payments], sink=p.delta("t/paid"))
def paid(rows: DataFrame, paying: DataFrame) -> DataFrame:
    """Two streams joined."""
    soon = "id = order_id and paid_at between at and at + interval 5 minutes"
    return rows.join(paying, F.expr(soon)).select("id", "amount", "method", "paid_at")


@p.table(source=[orders, payments], sink=p.sqlite("t/base.db", "unpaid"))
def unpaid(rows: DataFrame, paying: DataFrame) -> DataFrame:
    """Two streams joined, with those that found nobody."""
    soon = "id = order_id and paid_at between at and at + interval 5 minutes"
    return rows.join(paying, F.expr(soon), "left_outer").select("id", "at", "method")


@p.table(source=[p.events("orders", schema=ORDERS), "users"], sink=p.delta("t/placed"))
def placed(rows: DataFrame, known: DataFrame) -> DataFrame:
    """A stream joined with a table."""
    return rows.join(known, "user", "left").select("id", "user", "city", "amount")


large = p.sql(
    "select id, amount, at from orders where amount > 20",
    source=p.events("orders", schema=ORDERS),
    sink=p.delta("t/large"),
)


@p.table(source=p.events("large", watermark=TEN), sink=p.sqlite("t/base.db", "larger"))
def larger(rows: DataFrame) -> DataFrame:
    """A table made from another."""
    return rows.groupBy(F.window("at", "15 minutes").alias("w")).agg(F.max("amount").alias("most"))

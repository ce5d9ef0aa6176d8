"""A dozen definitions, each of another kind; a pipeline file that tests run in every way."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

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
    """Windows that overlap."""
    return rows.groupBy(F.window("at", "10 minutes", "5 minutes").alias("w")).count()


@p.table(source=orders, sink=p.delta("t/sessions"))
def sessions(rows: DataFrame) -> DataFrame:
    """Windows that end when nothing comes for a while."""
    return rows.groupBy(F.session_window("at", "3 minutes").alias("w"), "user").count()


@p.table(source=orders, sink=p.parquet("t/once"))
def once(rows: DataFrame) -> DataFrame:
    """Every order once, however often it was sent."""
    return rows.dropDuplicatesWithinWatermark(["id"])


@p.table(source=orders, sink=p.sqlite("t/base.db", "exactly"))
def exactly(rows: DataFrame) -> DataFrame:
    """Every pair of order and time once."""
    return rows.dropDuplicates(["id", "at"]).select("id", "at")


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

"""Three tables: a window, a deduplication, and a join on the deduplicated one; a pipeline file."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from mainstem import pipelines as p

ORDERS = "id string, user string, amount decimal(12,2), at timestamp"
PAYMENTS = "order_id string, method string, paid_at timestamp"

orders = p.events("orders", schema=ORDERS, watermark=("at", "10 minutes"))
payments = p.events("payments", schema=PAYMENTS, watermark=("paid_at", "10 minutes"))


@p.table(source=orders, sink=p.delta("tables/windows"))
def windows(rows: DataFrame) -> DataFrame:
    """What was ordered in ten minutes, repetitions included."""
    window = F.window("at", "10 minutes").alias("window")
    sums = rows.groupBy(window).agg(F.sum("amount").alias("sum"), F.count("id").alias("orders"))
    return sums.select(F.col("window.start").alias("start"), "sum", "orders")


@p.table(source=orders, sink=p.parquet("tables/once"))
def once(rows: DataFrame) -> DataFrame:
    """Every order once, however often it was sent."""
    return rows.dropDuplicatesWithinWatermark(["id"])


@p.table(
    source=[p.events("once", watermark=("at", "10 minutes")), payments],
    sink=p.delta("tables/paid"),
)
def paid(rows: DataFrame, paying: DataFrame) -> DataFrame:
    """Orders with their payments."""
    soon = "id = order_id and paid_at between at and at + interval 5 minutes"
    return rows.join(paying, F.expr(soon)).select("id", "user", "amount", "method", "paid_at")

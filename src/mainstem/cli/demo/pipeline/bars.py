"""The sample pipeline of ``./run --feed``: price bars of ten seconds from the trades of a market.

It can be run like any pipeline file: mainstem pipeline run .../demo/pipeline/bars.py --stream
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own custom

from mainstem import pipelines as p


@p.table(
    source=p.events("sample.market", format="raw"),
    sink=p.delta("tables/bars", key=("start", "stock")),
)
def bars(events: DataFrame) -> DataFrame:
    """Compute bars from the trades (``E``); cli/demo/market.py describes their bytes."""
    trades = events.where(F.substring("value", 1, 1) == F.lit(b"E")).select(
        F.timestamp_micros(_number(2, 8)).alias("at"),
        _number(18, 4).alias("shares"),
        F.trim(F.substring("value", 22, 8).cast("string")).alias("stock"),
        (_number(30, 4) / 10_000).cast("decimal(12,4)").alias("price"),
        F.struct(_number(2, 8), F.col("offset")).alias("order"),
    )
    start = F.date_format(F.window("at", "10 seconds")["start"], "HH:mm:ss").alias("start")
    return trades.groupBy(start, "stock").agg(
        F.min_by("price", "order").alias("open"),
        F.max("price").alias("high"),
        F.min("price").alias("low"),
        F.max_by("price", "order").alias("close"),
        F.sum("shares").alias("volume"),
    )


def _number(first: int, size: int) -> Column:
    """Return the unsigned big-endian number in ``size`` bytes of the value, from byte ``first``."""
    return F.conv(F.hex(F.substring("value", first, size)), 16, 10).cast("bigint")

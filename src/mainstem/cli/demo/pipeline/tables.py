"""The sample pipeline of ``./run``: three tables from page views, purchases and sensor readings.

With a PostgreSQL (``MAINSTEM_SAMPLE_SHOP``), it also follows the tables of the demo's shop by their
change events: products in a search index, and in a cache if there is a Redis; orders with their
history.

It can be run like any pipeline file: mainstem pipeline run .../demo/pipeline/tables.py --stream
"""

import os

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own custom

from mainstem import pipelines as p


@p.table(
    source="sample.views",
    schema="page string not null, visitor string, at timestamp",
    watermark=("at", "1 minute"),
    sink=p.delta("tables/views", key=("minute", "page")),
)
def views(events: DataFrame) -> DataFrame:
    """Count views and visitors of each page per minute."""
    window = F.window("at", "1 minute").alias("minute")
    counted = events.groupBy(window, "page").agg(
        F.count("*").alias("views"), F.approx_count_distinct("visitor").alias("visitors")
    )
    return counted.select(_minute(), "page", "views", "visitors")


@p.table(
    source="sample.purchases",
    schema="id string not null, product string, city string, amount decimal(10,2), at timestamp",
    watermark=("at", "1 minute"),
    sink=p.sqlite("tables/shop.db", "revenue", key="city"),
)
def revenue(events: DataFrame) -> DataFrame:
    """Sum up the purchases of each city."""
    return events.groupBy("city").agg(
        F.count("*").alias("purchases"), F.sum("amount").alias("revenue")
    )


@p.table(
    source="sample.readings",
    schema="sensor string not null, celsius decimal(5,2), at timestamp",
    watermark=("at", "1 minute"),
    sink=p.delta("tables/readings", key=("minute", "sensor")),
)
def readings(events: DataFrame) -> DataFrame:
    """Compute the temperatures of each sensor per minute."""
    window = F.window("at", "1 minute").alias("minute")
    measured = events.groupBy(window, "sensor").agg(
        F.min("celsius").alias("lowest"), F.max("celsius").alias("highest")
    )
    return measured.select(_minute(), "sensor", "lowest", "highest")


def _minute() -> Column:
    return F.date_format("minute.start", "HH:mm").alias("minute")


PRODUCTS = p.changes(
    "sample.public.products",
    schema="id int, name string, description string, price decimal(8,2), stock int",
)
ORDERS = p.changes(
    "sample.public.orders",
    schema="id int, product_id int, customer string, quantity int, status string",
)

if "MAINSTEM_SAMPLE_SHOP" in os.environ:
    products = p.apply_changes(
        PRODUCTS, key="id", sink=p.search("tables/products", text=("name", "description"))
    )
    orders = p.apply_changes(ORDERS, key="id", sink=p.delta("tables/orders"), scd=2)
    if "MAINSTEM_SAMPLE_REDIS" in os.environ:
        cache = p.apply_changes(
            PRODUCTS, key="id", sink=p.redis(os.environ["MAINSTEM_SAMPLE_REDIS"], "products")
        )

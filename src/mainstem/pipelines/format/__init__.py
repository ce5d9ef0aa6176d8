"""``format("mainstem")``: topics as a source and a sink of Spark, through the Kafka protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Let a session know ``format("mainstem")``; sessions of ``spark_session`` know it already."""
    from mainstem.pipelines.format.source import MainstemSource  # noqa: PLC0415

    spark.dataSource.register(MainstemSource)

"""``format("mainstem")``: topics as a source and a sink of Spark, through the Kafka protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainstem.pipelines.format.registration import register_source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Register ``format("mainstem")`` in a session; ``spark_session`` has done it already.

    Spark finds the format by itself, too. But only after ``register`` may several streams start at
    once; over Spark Connect, start them one by one.
    """
    from mainstem.pipelines.format.source import MainstemSource  # noqa: PLC0415

    register_source(spark, MainstemSource)

"""``format("mainstem")``: topics as a source and a sink of Spark, through the Kafka protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainstem.pipelines.format.registration import register_source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Register ``format("mainstem")`` in a session; sessions of ``spark_session`` have it already.

    Spark finds the format without this call, too, but only after it may several streams start at
    the same time. Over Spark Connect streams must be started one after the other.
    """
    from mainstem.pipelines.format.source import MainstemSource  # noqa: PLC0415

    register_source(spark, MainstemSource)

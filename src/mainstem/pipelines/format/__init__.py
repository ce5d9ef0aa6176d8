"""``format("mainstem")``: topics as a source and a sink of Spark, through the Kafka protocol."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Let a session know ``format("mainstem")``; sessions of ``spark_session`` know it already."""
    from pyspark.sql import is_remote  # noqa: PLC0415

    from mainstem.pipelines.format.source import MainstemSource  # noqa: PLC0415

    if not is_remote():
        _fill_environment(spark)
    spark.dataSource.register(MainstemSource)


def _fill_environment(spark: SparkSession) -> None:
    """Name what Spark sets for its Python processes, so that it only replaces the values.

    All streams of a source share one map of these, and each puts its own into it when it starts.
    Two that start at once may break the map if that makes it grow, and then no task can be sent.
    """
    environment = spark.sparkContext.environment
    environment.setdefault("SPARK_LOCAL_DIRS", tempfile.gettempdir())
    environment.setdefault("SPARK_AUTH_SOCKET_TIMEOUT", "15")
    environment.setdefault("SPARK_BUFFER_SIZE", "65536")

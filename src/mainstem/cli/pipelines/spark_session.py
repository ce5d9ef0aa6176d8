"""Starts Spark for a command: with a progress message, and errors without stack traces."""

import logging
from typing import TYPE_CHECKING

from mainstem.cli.output.progress import waiting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def start_spark(master: str, **conf: str) -> "SparkSession":
    """Return a SparkSession from ``spark_session``, with messages for the terminal."""
    from mainstem.pipelines.session import spark_session  # noqa: PLC0415 - only what is used

    with waiting("starting Spark"):
        spark = spark_session(master, **conf)
    from pyspark.logger import PySparkLogger  # noqa: PLC0415 - needs Spark

    # PySpark prints each error with plan and stack trace; here it is reported in one line.
    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL + 1)
    return spark

"""Starts Spark for a command: with a progress message, and errors without stack traces."""

import logging
from typing import TYPE_CHECKING

from mainstem.cli.output.progress import waiting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def start_spark(master: str, **conf: str) -> "SparkSession":
    """Return a SparkSession from ``spark_session``; shows on a terminal what it waits for."""
    from mainstem.pipelines.session import spark_session  # noqa: PLC0415 - only what is used

    with waiting("starting Spark"):
        spark = spark_session(master, **conf)
    from pyspark.logger import PySparkLogger  # noqa: PLC0415 - needs Spark

    # PySpark would log each error with plan and stack trace; the command prints it in one line.
    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL + 1)
    return spark

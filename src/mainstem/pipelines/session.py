"""``spark_session``: a SparkSession with the settings that pipelines need."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from mainstem.pipelines.spark.executor_package import ship_package
from mainstem.pipelines.spark.requirements import (
    MissingJava,
    MissingSpark,
    find_connect,
    find_java,
    find_spark,
)
from mainstem.pipelines.spark.spark_home import use_installed_python
from mainstem.pipelines.spark.worker_sockets import socket_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["MissingJava", "MissingSpark", "spark_session"]

_STREAMING = "org.apache.spark.sql.execution.streaming"
_SETTINGS = {
    "spark.app.name": "mainstem",
    "spark.driver.memory": "2g",
    "spark.log.level": "ERROR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    # Enough for one machine; on a cluster, set it with ``conf``.
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.python.filterPushdown.enabled": "true",
    # Spark's default, INT96, is deprecated in Parquet and read as nanoseconds by others.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.streaming.stateStore.providerClass": f"{_STREAMING}.state.RocksDBStateStoreProvider",
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
    # Two to three times as fast as the default; as safe where renaming a file is atomic.
    "spark.sql.streaming.checkpointFileManagerClass": (
        f"{_STREAMING}.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}
_CONNECT = "sc://"
_HERE = re.compile(r"local(\[.*\])?")
_LOOPBACK = re.compile(r"local(\[.*\])?|local-cluster\[.*\]|spark://(127\.[\d.]+|localhost):\d+")


def spark_session(master: str = "local[*]", **conf: str) -> SparkSession:
    """Return this process's SparkSession, created if needed, with ``format("mainstem")``.

    ``master`` is ``local[*]``, a cluster (``spark://host:7077``), or a Spark Connect server
    (``sc://host:15002``). ``conf`` holds Spark settings (``**{"spark.driver.memory": "4g"}``)
    that override ours. Raises MissingSpark or MissingJava, which say what to install.
    """
    find_spark()
    settings = dict(_SETTINGS)
    if master.startswith(_CONNECT):
        find_connect()
        # All other settings belong to the server.
        settings = {name: each for name, each in settings.items() if name.startswith("spark.sql.")}
    else:
        find_java()
    if _LOOPBACK.fullmatch(master):
        settings |= _on_this_machine()
    if _HERE.fullmatch(master):
        # Workers of a cluster may belong to another user, who could not open the sockets.
        settings |= socket_settings()
    from pyspark.sql import SparkSession  # noqa: PLC0415 - only who runs Spark imports it

    from mainstem.pipelines.format import register  # noqa: PLC0415

    if not master.startswith(_CONNECT):
        from mainstem.pipelines.spark.jvm import start_gateway  # noqa: PLC0415

        start_gateway(settings | conf | {"spark.master": master})
    builder = SparkSession.builder
    builder = builder.remote(master) if master.startswith(_CONNECT) else builder.master(master)
    for name, value in (settings | conf).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    if not _HERE.fullmatch(master):
        ship_package(spark)
    register(spark)
    return spark


def end_session(spark: SparkSession) -> None:
    """Stop Spark; if this process started Spark's JVM, end the JVM and wait for it."""
    spark.stop()
    from mainstem.pipelines.spark.jvm import end_gateway  # noqa: PLC0415 - needs Spark

    end_gateway()


def _on_this_machine() -> dict[str, str]:
    """Return settings that bind Spark to loopback (not to a public address) and to this Python."""
    use_installed_python()
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    return {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}

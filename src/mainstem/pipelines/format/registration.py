"""Registers Python data sources in a session, safe for streams that start at the same time.

How this works: all streams of a data source share one function, and with it one Java map of
environment variables. Each stream that starts puts Spark's own variables into that map, from a
thread of its own and without a lock (``PythonStreamingSourceRunner.init``). Spark makes it a
``HashMap``. Two threads that add the same key to that at once leave a size that is one more than
its entries. Such a map is serialized with every task and cannot be read again
(``java.io.OptionalDataException``), so all later streams of the session fail, too. Here it is a
``ConcurrentHashMap``. See ``docs/decisions/0015-concurrent-streams.md``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource

_DATA_SOURCE = "org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource"


def register_source(spark: SparkSession, source: type[DataSource]) -> None:
    """Register a data source, so that several threads may start streams of it at once.

    Over Spark Connect the server makes the map, so there streams have to start one by one.
    """
    from pyspark.sql import is_remote  # noqa: PLC0415 - only who runs Spark imports it

    if is_remote():
        spark.dataSource.register(source)
        return
    from pyspark.sql.udf import _wrap_function  # noqa: PLC0415

    context = spark.sparkContext
    jvm = context._jvm
    assert jvm is not None
    function = _wrap_function(context, source)
    safe = function.copy(
        function.command(),
        jvm.java.util.concurrent.ConcurrentHashMap(function.envVars()),
        function.pythonIncludes(),
        function.pythonExec(),
        function.pythonVer(),
        function.broadcastVars(),
        function.accumulator(),
    )
    made = getattr(jvm, _DATA_SOURCE)(safe)
    spark._jsparkSession.dataSource().registerPython(source.name(), made)

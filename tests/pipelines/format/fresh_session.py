"""A fresh session whose first streams start at once: run as a program by test_concurrent_streams.

How this works: Spark's first use of a code path links it once, and all threads wait for that. So
only in a fresh JVM do streams reach the same instruction at the same moment.

    python -m tests.pipelines.format.fresh_session ADDRESS TOPIC DIRECTORY [plain]

With ``plain`` the source is registered as PySpark does it, to see what would happen.
"""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from py4j.java_gateway import JavaObject
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from mainstem.pipelines.format.source import MainstemSource
from mainstem.pipelines.session import spark_session
from mainstem.pipelines.spark.retry import is_transient, with_retries

STREAMS = 6


def main() -> None:
    """Print one line about the map, and fail if a stream fails."""
    address, topic, directory, *plain = sys.argv[1:]
    spark = spark_session(
        "local[2]",
        **{
            "spark.local.dir": directory,
            "spark.driver.memory": "512m",
            "spark.driver.extraJavaOptions": (
                f"-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Djava.io.tmpdir={directory}"
            ),
            "spark.log.level": "OFF",
        },
    )
    if plain:
        spark.dataSource.register(MainstemSource)
    together = threading.Barrier(STREAMS)

    def run(number: int) -> None:
        stream = spark.readStream.format("mainstem").option("address", address)
        frame = with_retries(lambda: stream.load(topic))
        writer = frame.writeStream.format("noop").trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(Path(directory, f"checkpoint{number}")))
        together.wait()
        while True:
            query = writer.start()
            try:
                query.awaitTermination()
            except StreamingQueryException as error:
                # Spark gives a new process ten seconds, which a busy machine may not.
                if not is_transient(str(error)):
                    raise
            else:
                return

    with ThreadPoolExecutor(STREAMS) as pool:
        done = [pool.submit(run, number) for number in range(STREAMS)]
    failures = [str(error).splitlines()[0] for each in done if (error := each.exception())]
    size, keys = size_and_keys(spark)
    sys.stdout.write(
        f"{len(failures)} of {STREAMS} streams failed; size {size}, {len(keys)} keys\n"
    )
    spark.stop()
    if failures or size != len(keys):
        sys.exit(failures[0] if failures else "the map is broken")


def size_and_keys(spark: SparkSession) -> tuple[int, set[str]]:
    """Return how many variables the source's map says it has, and those that it has."""
    found = variables(spark, "mainstem")
    each = found.keySet().iterator()
    keys = set()
    while each.hasNext():
        keys.add(each.next())
    return found.size(), keys


def variables(spark: SparkSession, name: str) -> JavaObject:
    """Return the Java map of environment variables that the streams of a source share."""
    sources = spark._jsparkSession.sessionState().dataSourceManager()
    return sources.lookupDataSource(name).dataSourceCls().envVars()


if __name__ == "__main__":
    main()

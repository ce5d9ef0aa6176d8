"""One SparkSession for all tests of a run, and a server beside it."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.serving import serving

from mainstem.pipelines.session import MissingJava, MissingSpark, spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONNECTOR = Path(__file__).parents[2] / ".cache" / "spark-kafka"
"""Where .ci/run puts the jars of Spark's own Kafka connector."""
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Little is run often enough here that compiling it well would pay."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that need a JVM, so that ./test has them share one."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker("spark")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    """The only session: a JVM takes many seconds to start."""
    scratch = tmp_path_factory.mktemp("spark")
    jars = sorted(CONNECTOR.glob("*.jar"))
    try:
        session = spark_session(
            "local[2]",
            **{
                "spark.local.dir": str(scratch),
                "spark.sql.warehouse.dir": str(scratch / "warehouse"),
                "spark.sql.shuffle.partitions": "2",
                "spark.driver.memory": "1g",
                "spark.driver.extraJavaOptions": QUICK_JAVA,
                **({"spark.jars": ",".join(map(str, jars))} if jars else {}),
            },
        )
    except (MissingJava, MissingSpark) as missing:
        pytest.skip(str(missing))
    yield session
    session.stop()
    shutil.rmtree(scratch, ignore_errors=True)


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve a fresh directory; yields host:port."""
    with serving(tmp_path_factory.mktemp("served")) as address:
        yield address

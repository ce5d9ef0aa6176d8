"""One SparkSession for all tests of a run, and a server beside it."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.in_process_server import serving
from tests.leaked_clients import no_clients_left
from tests.pipelines.postgresql import postgresql
from tests.pipelines.redis_server import redis_server

from mainstem.pipelines.session import MissingJava, MissingSpark, spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONNECTOR = Path(__file__).parents[2] / ".cache" / "spark-kafka"
"""Where .ci/run puts the jars of Spark's own Kafka connector."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that need a JVM, so that ./test has them share one."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker("spark")


def java_with(scratch: Path) -> str:
    """Return options of a Java that has little to do, and does not litter."""
    return f"-XX:+UseSerialGC -Djava.io.tmpdir={scratch}"


@pytest.fixture(autouse=True)
def no_kafka_clients_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let no test leave Kafka clients behind, but for those that use Spark."""
    if request.node.get_closest_marker("spark") is not None:
        yield
        return
    with no_clients_left():
        yield


@pytest.fixture
def own_scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have what a test starts leave its temporary files in one place: who is killed leaves them."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    java = f"{os.environ['JDK_JAVA_OPTIONS']} {java_with(scratch)}"
    monkeypatch.setenv("JDK_JAVA_OPTIONS", java)
    yield
    shutil.rmtree(scratch, ignore_errors=True)


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
                "spark.driver.extraJavaOptions": java_with(scratch),
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


@pytest.fixture
def address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Serve from memory, in an empty working directory; yields host:port."""
    monkeypatch.chdir(tmp_path)
    with serving(None) as at:
        yield at


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    """A real PostgreSQL."""
    with postgresql() as at:
        yield at


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real Redis."""
    with redis_server(tmp_path_factory.mktemp("redis")) as at:
        yield at

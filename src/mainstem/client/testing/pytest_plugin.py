"""The pytest plugin: fixtures ``mainstem``, a broker, and ``mainstem_table``, for pipelines.

Every pytest run imports this module, so each fixture imports what it needs only when it is used.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from mainstem.client.testing.local_broker import LocalBroker, LocalServer
    from mainstem.pipelines.planning.offline import EventValue


class _Servers:
    """The server of this pytest process, one at a time; under xdist every worker has its own."""

    def __init__(self, directories: pytest.TempPathFactory) -> None:
        self._directories = directories
        self._server: LocalServer | None = None
        self.numbers = count(1)

    def take(self) -> "LocalServer":
        """Return the server; starts one if there is none, or if it does not respond."""
        from mainstem.client.testing.local_broker import LocalServer  # noqa: PLC0415

        if self._server is not None and not self._server.answers():
            self.end()
        if self._server is None:
            self._server = LocalServer(self._directories.mktemp("mainstem"))
        return self._server

    def give_back(self) -> None:
        """Keep the server for the next test, or end it if its clock was moved."""
        if self._server is not None and self._server.moved:
            self.end()

    def end(self) -> None:
        """End the server."""
        if self._server is not None:
            self._server.kill()
            self._server = None


@pytest.fixture(scope="session")
def _mainstem_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Servers]:
    servers = _Servers(tmp_path_factory)
    yield servers
    servers.end()


@pytest.fixture
def mainstem(
    _mainstem_servers: _Servers, request: pytest.FixtureRequest
) -> Iterator["LocalBroker"]:
    """Provide a broker: ``.kafka`` is its address, ``.topic(name)`` a topic name for this test."""
    from mainstem.client.testing.local_broker import LocalBroker  # noqa: PLC0415

    name = re.sub(r"[^a-zA-Z0-9._-]", "-", request.node.name)[:80]
    broker = LocalBroker(_mainstem_servers.take(), f"{name}-{next(_mainstem_servers.numbers)}")
    yield broker
    broker.close()
    _mainstem_servers.give_back()


@pytest.fixture(scope="session")
def mainstem_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    """Provide the SparkSession of the test run, configured as for pipelines."""
    from mainstem.pipelines.session import end_session, spark_session  # noqa: PLC0415

    scratch = str(tmp_path_factory.mktemp("spark"))
    settings = {
        "spark.local.dir": scratch,
        "spark.sql.warehouse.dir": scratch,
        "spark.sql.shuffle.partitions": "1",
    }
    spark = spark_session("local[2]", **settings)
    yield spark
    end_session(spark)


@pytest.fixture
def mainstem_table(request: pytest.FixtureRequest) -> Callable[..., list[dict[str, object]]]:
    """Provide a function that runs one table of a pipeline file over events of the test.

    ``mainstem_table("shop.py", "revenue", orders=[...])`` returns the rows as dicts.
    """
    from mainstem.pipelines.definitions.load import load  # noqa: PLC0415

    def run(
        file: str | Path, table: str, **events: "Sequence[EventValue]"
    ) -> list[dict[str, object]]:
        from mainstem.pipelines.errors import InvalidDefinition  # noqa: PLC0415

        pipeline = load(Path(file))
        found = next((each for each in pipeline.tables if each.name == table), None)
        if found is None:
            names = ", ".join(each.name for each in pipeline.tables)
            raise InvalidDefinition(f"{file} has no table {table!r}; it has {names}")
        spark = request.getfixturevalue("mainstem_spark")
        from mainstem.pipelines.planning.offline import OfflinePlanner  # noqa: PLC0415 - needs Spark

        return OfflinePlanner(spark, pipeline).batch(found, events)

    return run

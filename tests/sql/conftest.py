"""A server for the tests of a file, topics in it, and queries over them."""

from collections.abc import Callable, Iterator

import pytest
from tests.in_process_server import serving
from tests.pipelines.format.topics import Topic
from tests.sql.asking import TIMEOUT_S, Asked

from mainstem.remote.cluster import Cluster

Make = Callable[..., Topic]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve a fresh directory; yields host:port."""
    with serving(tmp_path_factory.mktemp("served")) as address:
        yield address


@pytest.fixture
def make(kafka: str, request: pytest.FixtureRequest) -> Make:
    """Makes a topic whose name ends with a number of the test's own."""
    mark = f"{abs(hash(request.node.nodeid)):x}"[:8]
    return lambda name="orders", partitions=1, **config: Topic(
        kafka, f"{name}_{mark}", partitions, **config
    )


@pytest.fixture
def ask(kafka: str) -> Asked:
    """Evaluates queries."""
    return Asked(Cluster(kafka, timeout_s=TIMEOUT_S, settings={}))

"""Servers for unmodified clients: in this process, on free ports, in directories of their own.

And the table of what works with which client, which is written by a run in which all of it worked.
"""

from collections.abc import Iterator
from itertools import count

import pytest
from confluent_kafka.admin import AdminClient
from pika.adapters.blocking_connection import BlockingChannel  # type: ignore[import-untyped]
from tests.foreign_clients import compatibility
from tests.foreign_clients.amqp import pika_client
from tests.in_process_server import server, serving

from mainstem.node.config import Config
from mainstem.node.server import Running

_numbers = count(1)
_passed: set[str] = set()
_others: dict[str, str] = {}
"""file::function of tests that passed, and of those that did not with what became of them."""


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve a fresh directory; yields host:port."""
    with serving(tmp_path_factory.mktemp("served")) as address:
        yield address


@pytest.fixture(scope="module")
def admin(kafka: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": kafka})


@pytest.fixture(scope="module")
def config() -> Config:
    """The settings of ``running``; a module whose clients speak another protocol has its own."""
    return pika_client.CONFIG


@pytest.fixture(scope="module")
def running(config: Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Serve a fresh directory; yields all there is to know of the server."""
    with server(tmp_path_factory.mktemp("data"), config=config) as found:
        yield found


@pytest.fixture
def channel(running: Running) -> Iterator[BlockingChannel]:
    """Open a channel of pika's with confirms."""
    with pika_client.channel_of(running) as found:
        found.confirm_delivery()
        yield found


@pytest.fixture
def name() -> str:
    """Return a name of this test's own."""
    return f"own-{next(_numbers)}"


def pytest_configure(config: pytest.Config) -> None:
    for marker in compatibility.MARKERS:
        config.addinivalue_line("markers", marker)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note what became of a test; the reports of other workers arrive here, too."""
    name = report.nodeid.rpartition("/")[2].partition("[")[0]
    if not report.passed:
        _others[name] = report.outcome
    elif report.when == "call":
        _passed.add(name)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the table, if that was asked for and nothing is missing."""
    if not compatibility.WRITES or hasattr(session.config, "workerinput"):
        return
    clients = compatibility.declared()
    tests = {test for client in clients for test in client.tests}
    missing = sorted(tests - (_passed - set(_others)))
    if missing:
        which = "\n".join(f"  {test}: {_others.get(test, 'not run')}" for test in missing)
        raise pytest.UsageError(f"the table was not written; what it says did not pass:\n{which}")
    compatibility.write(clients)

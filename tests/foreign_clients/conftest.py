"""A server for unmodified clients: in this process, on a free port, in a directory of its own.

And the table of what works with which client, which is written by a run in which all of it worked.
"""

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient
from tests.foreign_clients import compatibility
from tests.in_process_server import serving

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

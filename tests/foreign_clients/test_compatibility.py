"""The table of clients and features says what the tests of this folder declare."""

from importlib.metadata import version
from pathlib import Path

import pytest
from tests.foreign_clients.compatibility import FEATURES, PAGES, WRITES, Client, declared, written

ON_PYPI = (
    *("confluent-kafka", "aiokafka", "kafka-python"),
    *("pika", "aio-pika", "kombu", "Celery"),
    *("httpx", "aiohttp", "flower"),
)


@pytest.fixture(scope="module")
def clients() -> list[Client]:
    """All nineteen."""
    found = declared()
    assert len(found) == 19
    return found


@pytest.mark.skipif(WRITES, reason="it is being written")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_table_says_what_the_tests_declare(page: Path, clients: list[Client]) -> None:
    said = written(page)

    assert said == PAGES[page](clients).strip("\n"), "run ./test --write-compatibility"


@pytest.mark.parametrize(
    ("protocol", "feature"),
    [(protocol, feature) for protocol, features in FEATURES.items() for feature in features],
)
def test_every_feature_is_shown_with_every_client_that_offers_it(
    protocol: str, feature: str, clients: list[Client]
) -> None:
    of_protocol = [each for each in clients if each.protocol == protocol]

    assert [each.name for each in of_protocol if feature not in each.shows | each.lacks] == []


def test_the_clients_are_the_ones_installed(clients: list[Client]) -> None:
    for client in clients:
        if client.name in ON_PYPI:
            assert version(client.name).startswith(f"{client.version}.")

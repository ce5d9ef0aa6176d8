"""Share groups of kafka-clients 4.3.0 (Java), unmodified."""

import pytest
from tests.foreign_clients.java_client import NEEDED, Java, compiled, lines

pytestmark = [*NEEDED, pytest.mark.client("Java client", "4.3")]


@pytest.fixture(scope="module")
def java(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Java:
    """Compile the program; returns a function that runs it to its end."""
    return compiled("Share", tmp_path_factory.mktemp("classes"), kafka)


@pytest.mark.shows("share groups", "implicit acknowledgement")
def test_what_was_polled_is_accepted_by_the_next_poll(java: Java) -> None:
    assert java("implicit", "java.implicit") == lines("""
        taken 100 different 100
        refused 0
        then 10
    """)


@pytest.mark.shows("share groups", "accept, release, reject, renew", "delivery counts")
def test_records_are_renewed_accepted_released_and_rejected(java: Java) -> None:
    assert java("explicit", "java.explicit") == lines("""
        refused 0
        locked for 45000
        refused 0
        again 1 2
        refused 0
    """)


@pytest.mark.shows("share groups", "several consumers on one partition")
def test_consumers_share_partitions_record_by_record(java: Java) -> None:
    assert java("several", "java.several") == ["different 40", "both true"]


@pytest.mark.shows(
    "share groups", "describe, list", "offsets: list, alter, delete", "group configs"
)
def test_share_groups_are_looked_after(java: Java) -> None:
    assert java("administer", "java.administer") == lines("""
        Stable 1 2
        listed true
        start 5 lag 0
        start 2 lag 3
        again 3
        start 4 lag 1
        limit 5
        start earliest
    """)

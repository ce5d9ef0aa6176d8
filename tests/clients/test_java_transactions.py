"""Transactions of kafka-clients 4.3.0 (Java), unmodified, which plays by the newer rules."""

import pytest
from tests.clients.javas import NEEDED, Java, compiled

pytestmark = [*NEEDED, pytest.mark.client("Java client", "4.3")]


@pytest.fixture(scope="module")
def java(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Java:
    """Compile the program; returns a function that runs it to its end."""
    return compiled("Transact", tmp_path_factory.mktemp("classes"), kafka)


@pytest.mark.shows("transactions", "commit, abort, read_committed", "the newer rules (KIP-890)")
def test_only_what_is_committed_is_seen_and_every_end_gives_another_epoch(java: Java) -> None:
    assert java("cycle", "java.cycle") == [
        "CompleteCommit 1",
        "CompleteAbort 1",
        "CompleteCommit 1",
        "CompleteAbort 1",
        "CompleteCommit 1",
        "committed 12",
        "values [commit]",
        "everything 20",
    ]


@pytest.mark.shows("transactions", "cursors in the transaction")
def test_events_and_the_cursors_behind_them_move_together(java: Java) -> None:
    assert java("transform", "java.transform") == [
        # 100 events, and a marker in each of the four partitions that no cursor has passed.
        "cursors 100",
        "out 100 different 100",
        "aborted true",
    ]


@pytest.mark.shows("transactions", "fencing")
def test_a_second_producer_fences_the_first(java: Java) -> None:
    found = java("fence", "java.fence")

    assert found == ["ProducerFencedException", "[second, second, second, second]"]


@pytest.mark.shows("transactions", "timeout")
def test_a_transaction_that_takes_too_long_is_aborted(java: Java) -> None:
    assert java("timeout", "java.timeout") == [
        "ProducerFencedException",
        "[next, next, next, next]",
    ]


@pytest.mark.shows("administration", "transactions and producers")
def test_producers_and_transactions_are_described(java: Java) -> None:
    assert java("describe", "java.describe") == [
        "Ongoing 60000 4 true",
        "true Ongoing",
        "others false",
        "old 0",
        "true 0 0",
        "open false",
        "CompleteCommit",
        "TransactionalIdNotFoundException",
    ]

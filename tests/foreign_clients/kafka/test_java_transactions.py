"""Transactions of kafka-clients 4.3.0 (Java), unmodified, which plays by the newer rules."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from tests.foreign_clients.java_client import NEEDED, Java, compiled, lines

pytestmark = [*NEEDED, pytest.mark.client("Java client", "4.3")]


@pytest.fixture(scope="module")
def java(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Java:
    """Compile the program; returns a function that runs it to its end."""
    return compiled("Transact", tmp_path_factory.mktemp("classes"), kafka)


@pytest.mark.shows(
    "transactions", "commit, abort, read_committed", "the newer transaction protocol (KIP-890)"
)
def test_only_what_is_committed_is_seen_and_every_end_gives_another_epoch(java: Java) -> None:
    assert java("cycle", "java.cycle") == lines("""
        CompleteCommit 1
        CompleteAbort 1
        CompleteCommit 1
        CompleteAbort 1
        CompleteCommit 1
        committed 12
        values [commit]
        everything 20
    """)


@pytest.mark.shows("transactions", "offsets committed in a transaction")
def test_events_and_the_cursors_behind_them_move_together(java: Java) -> None:
    # 100 events, and a marker in each of the four partitions that no cursor has passed.
    assert java("transform", "java.transform") == lines("""
        cursors 100
        out 100 different 100
        aborted true
    """)


@pytest.mark.shows("transactions", "fencing")
def test_a_second_producer_fences_the_first(java: Java) -> None:
    found = java("fence", "java.fence")

    assert found == ["ProducerFencedException", "[second, second, second, second]"]


@pytest.mark.shows("transactions", "timeout")
def test_a_transaction_that_takes_too_long_is_aborted(java: Java) -> None:
    assert java("timeout", "java.timeout") == lines("""
        ProducerFencedException
        [next, next, next, next]
    """)


@pytest.mark.shows("administration", "description of transactions and producers")
def test_producers_and_transactions_are_described(java: Java) -> None:
    assert java("describe", "java.describe") == lines("""
        Ongoing 60000 4 true
        true Ongoing
        others false
        old 0
        true 0 0
        open false
        CompleteCommit
        TransactionalIdNotFoundException
    """)


PARTITIONS = range(4)
PATIENCE_S = 60


def test_clients_of_both_sets_of_rules_write_side_by_side(java: Java, kafka: str) -> None:
    topic, commits = "java.both", 0
    older = Producer({"bootstrap.servers": kafka, "transactional.id": "older"})
    older.init_transactions(PATIENCE_S)

    with ThreadPoolExecutor(1) as pool:
        newer = pool.submit(java, "cycle", topic)
        while not newer.done() or not commits:
            for end in ("abort", "commit"):
                older.begin_transaction()
                for partition in PARTITIONS:
                    older.produce(topic, end, partition=partition)
                older.flush(PATIENCE_S)
                if end == "commit":
                    older.commit_transaction(PATIENCE_S)
                    commits += 1
                else:
                    older.abort_transaction(PATIENCE_S)

    assert newer.result()[:5] == ["CompleteCommit 1", "CompleteAbort 1"] * 2 + ["CompleteCommit 1"]
    assert newer.result()[6] == "values [commit]"
    assert committed(kafka, topic) == ["commit"] * 4 * (3 + commits)


def committed(kafka: str, topic: str) -> list[str]:
    """Return what is committed in a topic, to its end."""
    consumer = Consumer(
        {
            "bootstrap.servers": kafka,
            "group.id": topic,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in PARTITIONS])
    found: list[str] = []
    ends: set[int | None] = set()
    while len(ends) < len(PARTITIONS):
        (message,) = consumer.consume(1, PATIENCE_S)
        error = message.error()
        if error is None:
            found.append((message.value() or b"").decode())
        else:
            assert error.code() == KafkaError._PARTITION_EOF
            ends.add(message.partition())
    consumer.close()
    return found

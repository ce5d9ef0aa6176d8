"""A named transactional writer on a real server, after refusals and crashes."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.in_process_server import serving
from tests.leaked_clients import clients_left, kafka_clients

from mainstem.core.errors import Fenced
from mainstem.remote.cluster import Cluster
from mainstem.remote.transactions import Outgoing, TransactionalProducer, give_up

PATIENCE_S = 30.0
PARTITIONS = 20


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A server that has a topic."""
    with serving(None) as address:
        admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
        admin.create_topics([NewTopic("t", PARTITIONS)])["t"].result(PATIENCE_S)
        del admin
        yield address


def writer(address: str) -> TransactionalProducer:
    """Return the writer of this name that is the last to have taken over."""
    found = TransactionalProducer(
        Cluster(address, timeout_s=PATIENCE_S, settings={}), "w", timeout_ms=30_000
    )
    found.take_over()
    return found


def outgoing(partition: int) -> Outgoing:
    return Outgoing("t", b"x", None, (), partition, None)


@pytest.mark.parametrize("rounds", [0, 1, 200])
def test_one_that_was_replaced_leaves_no_clients_behind(address: str, rounds: int) -> None:
    before = kafka_clients()
    old, new = writer(address), writer(address)

    with pytest.raises(Fenced, match="only one run at a time"):
        old.write((outgoing(n) for _ in range(rounds) for n in range(PARTITIONS)), lambda: "mark")
    old.close()
    new.close()
    del old, new

    assert clients_left(before, PATIENCE_S) == 0


def test_one_whose_events_end_in_an_error_when_it_was_replaced_leaves_none_either(
    address: str,
) -> None:
    before = kafka_clients()
    old = writer(address)

    def broken() -> Iterator[Outgoing]:
        yield outgoing(0)
        writer(address).close()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        old.write(broken(), None)
    old.close()
    del old

    assert clients_left(before, PATIENCE_S) == 0


def test_a_producer_that_is_given_up_awaits_nothing(address: str) -> None:
    settings = {"bootstrap.servers": address, "log_level": 0, "transactional.id": "p"}
    old = Producer({**settings, "linger.ms": 0, "batch.num.messages": 1})
    old.init_transactions(PATIENCE_S)
    old.begin_transaction()
    Producer(settings).init_transactions(PATIENCE_S)
    for partition in range(PARTITIONS):
        old.produce("t", b"x", partition=partition)

    give_up(old, PATIENCE_S)

    assert len(old) == 0

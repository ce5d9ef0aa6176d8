"""What others write in transactions, as the Python API sees it."""

from tests.broker.brokers import append, transactional_batch

import mainstem
from mainstem.broker.transactions.epochs import ProducerIdAndEpoch
from mainstem.client.embedded.stem import EmbeddedStem


def write(stem: EmbeddedStem, value: bytes, *, sequence: int, who: ProducerIdAndEpoch) -> None:
    batch = transactional_batch(who, value, sequence=sequence, now_ms=1)
    append(stem.node.broker, "orders", 0, batch, adds_partition=True)


def test_aborted_events_are_never_shown_and_open_ones_only_once_committed() -> None:
    with mainstem.open(":memory:") as stem:
        stem.topics.create("orders")
        transactions = stem.node.broker.transactions
        producer_id, epoch, _ = transactions.begin("sender", 60_000)
        who = ProducerIdAndEpoch(producer_id, epoch)
        write(stem, b"aborted", sequence=0, who=who)
        transactions.end("sender", who, committed=False)
        stem.publish("orders", b"plain")
        write(stem, b"committed", sequence=1, who=who)
        source = stem.subscribe("orders")

        before = [event.value for event in source.poll_many(10, timeout=0)]
        transactions.end("sender", who, committed=True)
        after = source.poll(30)

        assert before == [b"plain"]
        assert after is not None
        assert after.value == b"committed"
        source.close()

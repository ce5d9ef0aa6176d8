"""Feeds: the available events of a partition in order, without blocking, and a watch for more."""

import pytest
from tests.broker.brokers import new_broker, publish, values
from tests.broker.transactions.transactional_producers import Bank

from mainstem.broker.broker import Broker
from mainstem.core.errors import OffsetOutOfRange, UnknownPartition, UnknownTopic
from mainstem.core.event import Event, Position
from mainstem.core.topic_settings import TopicSettings
from mainstem.log.memory import MemoryLog


class Bell:
    """Counts how often it was rung."""

    def __init__(self) -> None:
        self.rung = 0

    def __call__(self) -> None:
        self.rung += 1


def orders(*written: bytes, **settings: object) -> Broker:
    broker = new_broker()
    broker.create_topic("orders", TopicSettings(**settings))  # type: ignore[arg-type]
    if written:
        publish(broker, "orders", *written)
    return broker


def publish_key(broker: Broker, key: bytes, value: bytes) -> None:
    broker.publish("orders", [Event(value, key)]).durable.wait(30)


def test_a_feed_gives_the_events_from_its_offset_on_with_their_positions() -> None:
    feed = orders(b"a", b"b", b"c").follow("orders", 0, 1)

    taken = feed.take()

    assert values(taken) == [b"b", b"c"]
    assert [each.position for each in taken] == [Position(0, 1), Position(0, 2)]
    assert {each.topic for each in taken} == {"orders"}
    assert feed.offset == 3
    assert feed.take() == []


def test_a_take_is_limited_by_events_and_goes_on_within_a_record_batch() -> None:
    feed = orders(b"a", b"b", b"c", b"d").follow("orders", 0, 0)

    assert values(feed.take(max_events=3)) == [b"a", b"b", b"c"]
    assert feed.offset == 3
    assert values(feed.take(max_events=3)) == [b"d"]


def test_a_take_is_limited_by_bytes_and_gives_one_event_whatever_its_size() -> None:
    feed = orders(b"x" * 100, b"y" * 100, b"z").follow("orders", 0, 0)

    assert [len(each.value or b"") for each in feed.take(max_bytes=10)] == [100]
    assert [len(each.value or b"") for each in feed.take(max_bytes=101)] == [100, 1]


def test_many_batches_are_taken_at_once() -> None:
    broker = orders()
    for number in range(50):
        publish(broker, "orders", b"%d" % number * 1_000)

    feed = broker.follow("orders", 0, 0)

    assert len(feed.take(max_events=100, max_bytes=10_000_000)) == 50


def test_who_watches_after_the_last_event_is_woken_by_the_next_once() -> None:
    broker, bell = orders(b"a"), Bell()
    feed = broker.follow("orders", 0, 0)
    feed.take()

    feed.watch(bell)
    assert bell.rung == 0
    publish(broker, "orders", b"b")
    publish(broker, "orders", b"c")

    assert bell.rung == 1
    assert values(feed.take()) == [b"b", b"c"]


def test_who_watches_before_all_is_taken_is_woken_at_once() -> None:
    broker, bell = orders(b"a", b"b"), Bell()
    feed = broker.follow("orders", 0, 0)
    feed.take(max_events=1)

    feed.watch(bell)

    assert bell.rung == 1


def test_a_watch_that_was_taken_back_is_not_called() -> None:
    broker, bell = orders(), Bell()
    feed = broker.follow("orders", 0, 0)

    feed.watch(bell)()
    publish(broker, "orders", b"a")

    assert bell.rung == 0


def test_a_feed_shows_a_transaction_once_it_has_committed_and_never_if_it_aborts() -> None:
    bank, bell = Bank(), Bell()
    aborted, kept = bank.begin("aborted").add(0), bank.begin("kept").add(0)
    aborted.write(b"no")
    kept.write(b"yes")
    feed = bank.broker.follow("t", 0, 0)
    publish(bank.broker, "t", b"after", partition=0)

    assert feed.take() == []
    feed.watch(bell)
    aborted.end(committed=False)
    assert bell.rung == 1
    assert feed.take() == []
    kept.end(committed=True)

    assert values(feed.take()) == [b"yes", b"after"]
    assert feed.offset == bank.broker.bounds("t", 0).tail


def test_a_feed_of_uncommitted_events_shows_them_at_once_and_no_markers() -> None:
    bank = Bank()
    teller = bank.begin().add(0)
    teller.write(b"open")
    feed = bank.broker.follow("t", 0, 0, committed=False)

    assert values(feed.take()) == [b"open"]
    teller.end(committed=False)

    assert feed.take() == []
    assert feed.offset == bank.broker.bounds("t", 0).tail


def test_long_stretches_without_events_do_not_keep_others_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mainstem.broker.reading.feed._READ_BYTES", 1)
    bank, bell = Bank(), Bell()
    for _ in range(10):
        teller = bank.begin().add(0)
        teller.write(b"no")
        teller.end(committed=False)
    publish(bank.broker, "t", b"yes", partition=0)
    feed = bank.broker.follow("t", 0, 0)

    assert feed.take() == []
    feed.watch(bell)

    assert bell.rung == 1
    assert values(feed.take()) == [b"yes"]


def test_a_feed_that_retention_overtook_says_so_until_it_is_moved() -> None:
    broker = orders()
    for value in (b"a", b"b", b"c"):
        publish(broker, "orders", value)
    feed = broker.follow("orders", 0, 0)
    broker.trim("orders", 0, 2)

    for _ in range(2):
        with pytest.raises(OffsetOutOfRange) as refused:
            feed.take()
    feed.seek(refused.value.start)

    assert values(feed.take()) == [b"c"]


def test_a_feed_past_the_end_of_a_truncated_partition_says_so() -> None:
    broker = orders()
    for value in (b"a", b"b"):
        publish(broker, "orders", value)
    feed = broker.follow("orders", 0, 0)
    feed.take()
    broker.truncate("orders", 0, 1)

    with pytest.raises(OffsetOutOfRange):
        feed.take()


def test_a_feed_passes_over_what_compaction_took_out() -> None:
    broker = orders(compact=True, segment_bytes=1024)
    feed = broker.follow("orders", 0, 0)
    for number in range(200):
        publish_key(broker, b"%d" % (number % 7), b"%d" % number)

    taken = feed.take()

    assert len(taken) < 200
    assert values(taken)[-7:] == [b"%d" % number for number in range(193, 200)]
    assert [each.offset for each in taken][-1] == 199
    assert feed.offset == 200


def test_a_feed_of_a_deleted_topic_ends_though_another_has_its_name() -> None:
    broker, bell = orders(b"a"), Bell()
    feed = broker.follow("orders", 0, 0)
    feed.take()
    feed.watch(bell)

    broker.delete_topic("orders")
    assert bell.rung == 1
    broker.create_topic("orders")
    publish(broker, "orders", b"other")

    with pytest.raises(UnknownTopic):
        feed.take()
    with pytest.raises(UnknownTopic):
        feed.watch(bell)


def test_only_partitions_that_are_there_are_followed() -> None:
    broker = orders()

    with pytest.raises(UnknownTopic):
        broker.follow("nothing", 0, 0)
    with pytest.raises(UnknownPartition):
        broker.follow("orders", 1, 0)


def test_damage_is_met_after_the_events_before_it_and_met_again() -> None:
    class Damaged(MemoryLog):
        broken = False

        def read(self, partition, offset, max_bytes):  # type: ignore[no-untyped-def]
            if self.broken and offset >= 1:
                raise OffsetOutOfRange("a damaged partition", offset, 0, 9)
            return super().read(partition, offset, 1)

    log = Damaged()
    broker = new_broker(log)
    broker.create_topic("orders")
    publish(broker, "orders", b"a")
    publish(broker, "orders", b"b")
    feed = broker.follow("orders", 0, 0)
    log.broken = True

    assert values(feed.take()) == [b"a"]
    for _ in range(2):
        with pytest.raises(OffsetOutOfRange):
            feed.take()
    log.broken = False

    assert values(feed.take()) == [b"b"]

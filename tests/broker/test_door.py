"""The broker's door: topics, reading, cursors and groups, and their state after a restart."""

import threading
from pathlib import Path

import pytest
from tests.broker.brokers import Clock, LateLog, new_broker, publish, read_all, values

from mainstem.broker.broker import Broker
from mainstem.core.errors import (
    GroupIsLive,
    InvalidName,
    InvalidSetting,
    OffsetOutOfRange,
    StorageFailed,
    UnknownGroup,
    UnknownPartition,
    UnknownTopic,
)
from mainstem.core.event import Event
from mainstem.core.topic_settings import TopicSettings
from mainstem.log.disk import DiskLog
from mainstem.log.memory import MemoryLog


def with_orders(log: MemoryLog | None = None, partitions: int = 2) -> Broker:
    broker = new_broker(log)
    broker.create_topic("orders", TopicSettings(partitions=partitions))
    return broker


def test_what_is_published_is_read_from_any_offset() -> None:
    broker = with_orders()
    publish(broker, "orders", b"a", b"b", b"c", partition=1)

    assert values(read_all(broker, "orders", 1)) == [b"a", b"b", b"c"]
    assert broker.read("orders", 1, 3, 1_000).length == 0
    with pytest.raises(OffsetOutOfRange):
        broker.read("orders", 1, 4, 1_000)


def test_everything_refuses_topics_and_partitions_that_are_not_there() -> None:
    broker = with_orders()

    for topic, partition, error in [
        ("bills", 0, UnknownTopic),
        ("orders", 2, UnknownPartition),
        ("orders", -1, UnknownPartition),
    ]:
        with pytest.raises(error):
            broker.read(topic, partition, 0, 1)
        with pytest.raises(error):
            broker.bounds(topic, partition)
        with pytest.raises(error):
            broker.watch(topic, partition, 0, lambda: None)
        with pytest.raises(error):
            broker.offset_at(topic, partition, 0)
        with pytest.raises(error):
            broker.trim(topic, partition, 0)
        with pytest.raises(error):
            broker.cursor("billing", topic, partition)
        with pytest.raises(error):
            broker.commit("billing", {(topic, partition): 0})


def test_trimming_and_truncating_move_start_and_end() -> None:
    broker = with_orders()
    publish(broker, "orders", *[b"%d" % n for n in range(10)], partition=0)

    assert broker.trim("orders", 0, 3).start == 3
    assert broker.truncate("orders", 0, 6).end == 6

    assert values(read_all(broker, "orders")) == [b"3", b"4", b"5"]
    with pytest.raises(InvalidName):
        broker.trim("__mainstem_topics", 0, 0)


def test_a_watch_is_called_by_the_publish_and_by_the_deletion() -> None:
    broker = with_orders()
    calls: list[str] = []
    broker.watch("orders", 0, 0, lambda: calls.append("published"))
    broker.watch("orders", 1, 0, lambda: calls.append("deleted"))

    publish(broker, "orders", b"a", partition=0)
    broker.delete_topic("orders")

    assert calls == ["published", "deleted"]


def test_compaction_is_turned_on_only_while_a_topic_is_empty() -> None:
    broker = with_orders()
    broker.alter_topic("orders", compact=True)
    broker.alter_topic("orders", compact=False)
    publish(broker, "orders", b"without a key")

    with pytest.raises(InvalidSetting, match="compact cannot be turned on"):
        broker.alter_topic("orders", compact=True)


def test_internal_topics_are_listed_only_when_asked_for_and_can_be_read() -> None:
    broker = with_orders()

    assert [topic.name for topic in broker.topics()] == ["orders"]
    assert "__mainstem_topics" in {topic.name for topic in broker.topics(internal=True)}
    assert read_all(broker, "__mainstem_topics")[0].key == b'["topic","orders"]'


def test_another_broker_on_the_same_log_finds_everything_again() -> None:
    log = MemoryLog()
    broker = with_orders(log)
    broker.create_topic("bills")
    broker.alter_topic("orders", partitions=3, retention_ms=1_000)
    broker.delete_topic("bills")
    publish(broker, "orders", b"a", b"b", partition=2)
    broker.commit("billing", {("orders", 2): 1}, metadata="half way")

    again = new_broker(log)

    assert again.topics(internal=True) == broker.topics(internal=True)
    assert again.committed("billing") == broker.committed("billing")
    assert values(read_all(again, "orders", 2)) == [b"a", b"b"]
    assert [lag.lag for lag in again.lag("billing")] == [1]


def test_a_directory_opened_again_has_its_topics_events_and_cursors(tmp_path: Path) -> None:
    clock = Clock()
    log = DiskLog.open(tmp_path, now_ms=clock)
    broker = new_broker(log, clock)
    broker.create_topic("orders", TopicSettings(partitions=2)).durable.wait(30)
    broker.publish("orders", [Event(b"a")], 1).durable.wait(30)
    broker.commit("billing", {("orders", 1): 1}).wait(30)
    log.close()

    log = DiskLog.open(tmp_path, now_ms=clock)
    again = new_broker(log, clock)

    assert values(read_all(again, "orders", 1)) == [b"a"]
    assert again.committed("billing")["orders", 1].offset == 1
    log.close()


class HalfDeleted(Exception):
    """The process dies here."""


def test_a_deletion_that_a_crash_cut_short_is_finished_at_the_next_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = MemoryLog()
    broker = with_orders(log)
    publish(broker, "orders", b"a", partition=0)
    broker.commit("billing", {("orders", 0): 1})
    partitions = broker.topic("orders").partitions

    def die(_: object) -> None:
        raise HalfDeleted

    with monkeypatch.context() as patched:
        patched.setattr(log, "delete", die)
        with pytest.raises(HalfDeleted):
            broker.delete_topic("orders")
    assert log.bounds(partitions[0]).end == 1
    again = new_broker(log)

    assert again.topics() == []
    assert again.groups() == []
    for partition in partitions:
        with pytest.raises(UnknownPartition):
            log.bounds(partition)


def test_cursors_that_a_crash_left_in_a_deleted_topic_are_forgotten_at_the_next_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = MemoryLog()
    broker = with_orders(log)
    broker.commit("billing", {("orders", 0): 0})

    def die(*_: object) -> None:
        raise HalfDeleted

    with monkeypatch.context() as patched:
        patched.setattr(broker._state, "change_cursors", die)
        with pytest.raises(HalfDeleted):
            broker.delete_topic("orders")
    again = new_broker(log)

    assert again.topics() == []
    assert again.groups() == []


def test_a_topic_made_again_has_none_of_the_old_events_and_cursors() -> None:
    broker = with_orders()
    publish(broker, "orders", b"old", partition=0)
    broker.commit("billing", {("orders", 0): 1})

    broker.delete_topic("orders")
    broker.create_topic("orders")

    assert read_all(broker, "orders") == []
    assert broker.cursor("billing", "orders", 0) is None


def test_lag_is_counted_from_the_cursor_or_else_from_the_start() -> None:
    broker = with_orders()
    publish(broker, "orders", *[b"x"] * 10, partition=0)
    publish(broker, "orders", *[b"x"] * 4, partition=1)
    broker.commit("billing", {("orders", 0): 3})
    broker.trim("orders", 0, 5)

    (only,) = broker.lag("billing")
    both = broker.lag("billing", "orders")

    assert (only.cursor, only.start, only.tail, only.lag, only.missed) == (3, 5, 10, 5, 2)
    assert [(lag.partition, lag.cursor, lag.lag) for lag in both] == [(0, 3, 5), (1, None, 4)]
    with pytest.raises(UnknownGroup):
        broker.lag("nobody")


def test_a_group_shows_its_members_and_what_they_own() -> None:
    broker = with_orders()
    member = broker.join("billing", ["orders"], lambda: None)
    broker.commit("idle", {("orders", 0): 0})

    billing, idle = broker.groups()

    assert billing.state == "live"
    assert billing.members == {member.id: (("orders", 0), ("orders", 1))}
    assert (idle.name, idle.state, idle.members) == ("idle", "empty", {})
    assert broker.group("billing") == billing


def test_a_live_group_is_not_moved_deleted_or_committed_to_from_outside() -> None:
    broker = with_orders()
    member = broker.join("billing", ["orders"], lambda: None)
    (share, _) = member.assignment().owned
    member.commit({share: 0})

    with pytest.raises(GroupIsLive):
        broker.seek("billing", {("orders", 0): 0})
    with pytest.raises(GroupIsLive):
        broker.delete_group("billing")
    with pytest.raises(GroupIsLive):
        broker.commit("billing", {("orders", 0): 0})

    member.leave()
    broker.seek("billing", {("orders", 0): 0})
    broker.delete_group("billing")
    assert broker.groups() == []


def test_seeking_goes_back_and_forth_but_not_out_of_the_partition() -> None:
    broker = with_orders()
    publish(broker, "orders", *[b"x"] * 5, partition=0)

    for offset in (5, 0, 3):
        broker.seek("billing", {("orders", 0): offset})
        assert broker.committed("billing")["orders", 0].offset == offset
    with pytest.raises(OffsetOutOfRange):
        broker.seek("billing", {("orders", 0): 6})


def late_broker() -> tuple[LateLog, Broker]:
    """Return a broker with a topic ``orders``, whose log is late from now on."""
    log = LateLog()
    broker = new_broker(log)
    broker.create_topic("orders")
    log.late = True
    return log, broker


def test_the_answer_waits_for_the_disk_but_nobody_else_does() -> None:
    log, broker = late_broker()

    published = broker.publish("orders", [Event(b"a")])
    committed = broker.commit("billing", {("orders", 0): 1})
    created = broker.create_topic("bills")
    waiting = threading.Thread(target=published.durable.wait)
    waiting.start()

    assert not published.durable.done
    assert not committed.done
    assert not created.durable.done
    assert broker.committed("billing")["orders", 0].offset == 1
    publish_position = broker.publish("bills", [Event(b"b")]).position
    assert publish_position.offset == 0
    log.settle()
    waiting.join(30)
    assert committed.wait(30)


def test_a_disk_that_fails_is_told_to_whoever_waits() -> None:
    log, broker = late_broker()
    published = broker.publish("orders", [Event(b"a")])

    log.settle(StorageFailed("the disk is gone"))

    with pytest.raises(StorageFailed, match="the disk is gone"):
        published.durable.wait(30)


def test_one_of_two_thousand_topics_is_found_by_name_or_pattern() -> None:
    broker = new_broker()
    for number in range(2_000):
        broker.create_topic(f"topic-{number}")

    assert broker.topic("topic-1999").name == "topic-1999"
    assert len(broker.topics("topic-1*")) == 1_111
    assert broker.publish("topic-1999", [Event(b"x")]).position.offset == 0


def test_threads_create_publish_and_commit_at_once_without_losing_anything() -> None:
    log = MemoryLog()
    broker = new_broker(log)
    broker.create_topic("orders", TopicSettings(partitions=3))

    def work(number: int) -> None:
        broker.create_topic(f"topic-{number}")
        for offset in range(50):
            broker.publish("orders", [Event(b"%d" % number, b"%d" % offset)])
            broker.commit(f"group-{number}", {(f"topic-{number}", 0): offset})

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sum(broker.bounds("orders", number).end for number in range(3)) == 200
    assert {group.lags[0].cursor for group in broker.groups()} == {49}
    again = new_broker(log)
    assert again.topics() == broker.topics()
    assert again.groups() == broker.groups()

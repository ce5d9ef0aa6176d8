"""``Log.written``: what is written is seen before it is durable, by those who ask for it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.log.log_directory import ORDERS, PAYMENTS, open_log

from mainstem.core.event import Event
from mainstem.core.records import build, events
from mainstem.core.topic_settings import Durability, TopicSettings
from mainstem.log.disk import DiskLog
from mainstem.log.port import PartitionId, Readable, WritableBatch


def one(partition: PartitionId, value: bytes) -> tuple[PartitionId, WritableBatch]:
    return partition, build([Event(value)], now_ms=0)


def values(log: Readable, partition: PartitionId = ORDERS) -> list[bytes | None]:
    """Return everything that can be read, batch by batch."""
    offset, tail, found = 0, log.bounds(partition).tail, list[bytes | None]()
    while offset < tail:
        (event,) = events(memoryview(log.read(partition, offset, 1).tobytes()))
        found.append(event.value)
        offset = event.offset + 1
    return found


@pytest.fixture
def log(tmp_path: Path) -> Iterator[DiskLog]:
    log = open_log(tmp_path)
    for each in (ORDERS, PAYMENTS):
        log.ensure(each, "topic", TopicSettings())
    yield log
    log.close()


def test_an_append_is_seen_at_once_by_those_who_ask_for_it(log: DiskLog) -> None:
    woken: list[str] = []
    log.written.watch(ORDERS, 0, lambda: woken.append("written"))
    log.watch(ORDERS, 0, lambda: woken.append("durable"))

    durable = log.append([one(ORDERS, b"1")]).durable

    assert not durable.done
    assert (values(log), values(log.written), woken) == ([], [b"1"], ["written"])
    log.committer.commit()
    assert (values(log), values(log.written), woken) == ([b"1"], [b"1"], ["written", "durable"])


def test_atomic_appends_and_what_is_behind_them_are_seen_when_they_are_durable(
    log: DiskLog,
) -> None:
    woken: list[str] = []
    log.append([one(ORDERS, b"1")])
    log.written.watch(ORDERS, 1, lambda: woken.append("written"))

    log.append([one(ORDERS, b"2"), one(PAYMENTS, b"2")])
    log.append([one(ORDERS, b"3")])

    assert (values(log.written), woken) == ([b"1"], [])
    log.committer.commit()
    assert (values(log.written), woken) == ([b"1", b"2", b"3"], ["written"])
    log.append([one(ORDERS, b"4")])
    assert values(log.written) == [b"1", b"2", b"3", b"4"]


def test_events_in_memory_and_on_a_disk_without_syncs_are_seen_by_all(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.ensure(ORDERS, "orders", TopicSettings(durability=Durability.DISK))
    log.ensure(PAYMENTS, "payments", TopicSettings(durability=Durability.MEMORY))
    woken: list[str] = []
    for each in (ORDERS, PAYMENTS):
        log.written.watch(each, 0, lambda: woken.append("woken"))

        log.append([one(each, b"1")])

        assert values(log.written, each) == values(log, each) == [b"1"]
    assert woken == ["woken", "woken"]
    log.close()


def test_a_lazy_append_is_committed_soon_once_somebody_waits_for_it(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.ensure(ORDERS, "orders", TopicSettings())
    summoned: list[str] = []
    log.committer.summon = lambda: summoned.append("summoned")

    durable = log.append([one(ORDERS, b"1")], lazy=True).durable
    assert summoned == []
    durable.then(lambda _: None)
    assert summoned == ["summoned"]
    log.committer.commit()

    log.append([one(ORDERS, b"2")], lazy=True)
    log.watch(ORDERS, 1, lambda: None)
    assert summoned == ["summoned"] * 2
    log.committer.commit()

    log.watch(ORDERS, 2, lambda: None)
    log.append([one(ORDERS, b"3")], lazy=True)
    assert summoned == ["summoned"] * 3, "somebody waited already"
    log.close()


def test_a_closed_partition_wakes_those_who_wait_for_what_is_written(log: DiskLog) -> None:
    woken: list[str] = []
    log.written.watch(ORDERS, 0, lambda: woken.append("woken"))
    log.delete([ORDERS])
    assert woken == ["woken"]

"""Pending appends are invisible, and every waiter gets the result."""

from pathlib import Path

import pytest
from tests.log.log_directory import ORDERS, PAYMENTS, Clock, append, open_log, stored

from mainstem.core.errors import StorageFailed
from mainstem.core.event import Event
from mainstem.core.records import build
from mainstem.core.topic_settings import Durability, TopicSettings
from mainstem.log.commit.wal import Part, decode_parts, encode_parts
from mainstem.log.disk import DiskLog
from mainstem.log.port import PartitionId, WritableBatch

BOTH = (ORDERS, PAYMENTS)


def one(partition: PartitionId, value: bytes = b"pending") -> tuple[PartitionId, WritableBatch]:
    return partition, build([Event(value, b"key")], now_ms=0)


def is_unseen(log: DiskLog, partition: PartitionId) -> bool:
    """Tell whether the last append can be found by nobody."""
    start, tail, end = log.bounds(partition)[:3]
    assert tail < end
    found = [log.read(partition, offset, 1 << 20).length for offset in range(start, tail + 1)]
    return not any(found) and log.offset_at(partition, 0) is None


@pytest.mark.parametrize("together", [False, True])
def test_the_first_append_of_a_partition_is_not_seen_before_its_commit(
    tmp_path: Path, together: bool
) -> None:
    log = open_log(tmp_path)
    for each in BOTH:
        log.ensure(each, "topic", TopicSettings())

    log.append([one(each) for each in BOTH] if together else [one(ORDERS)])

    assert is_unseen(log, ORDERS)
    log.committer.commit()
    assert stored(log, ORDERS) == [(0, b"pending")]
    log.close()


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize(
    "settings",
    [
        TopicSettings(retention_ms=1000),
        TopicSettings(compact=True, segment_ms=1000, tombstone_ms=1000),
    ],
    ids=["retention", "compaction"],
)
def test_nor_is_an_append_behind_what_upkeep_took(
    tmp_path: Path, settings: TopicSettings, together: bool
) -> None:
    clock = Clock(10**12)
    log = open_log(tmp_path, clock)
    log.ensure(ORDERS, "orders", settings)
    log.ensure(PAYMENTS, "payments", TopicSettings())
    for value in (b"value", None):
        append(log, ORDERS, Event(value, b"key", timestamp_ms=clock.now_ms))
    clock.now_ms += 100_000
    log.upkeep.tick()
    assert stored(log, ORDERS) == []

    log.append([one(each) for each in BOTH] if together else [one(ORDERS)])

    assert is_unseen(log, ORDERS)
    log.committer.commit()
    assert stored(log, ORDERS) == [(2, b"pending")]
    log.close()


def test_an_append_to_memory_waits_for_what_was_appended_together_before_it(
    tmp_path: Path,
) -> None:
    log = open_log(tmp_path)
    log.ensure(ORDERS, "orders", TopicSettings())
    log.ensure(PAYMENTS, "payments", TopicSettings(durability=Durability.MEMORY))
    log.append([one(ORDERS), one(PAYMENTS)])

    behind = log.append([one(PAYMENTS, b"behind")])

    assert not behind.durable.done
    assert is_unseen(log, PAYMENTS)
    log.committer.commit()
    assert behind.durable.wait(0)
    assert stored(log, PAYMENTS) == [(0, b"pending"), (1, b"behind")]
    log.close()


@pytest.mark.parametrize("count", [1, 65_534, 65_535, 65_536, 70_000])
def test_any_number_of_batches_is_one_entry_of_the_write_ahead_log(count: int) -> None:
    parts = [Part(bytes(20), number, 0, 7, True, b"x") for number in range(count)]

    payload = memoryview(b"".join(bytes(each) for each in encode_parts(parts)))

    assert [each.base for each in decode_parts(payload)] == list(range(count))


def test_whoever_waits_is_told_when_a_commit_fails_for_want_of_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = DiskLog.open(tmp_path, now_ms=lambda: 0)
    log.ensure(ORDERS, "orders", TopicSettings())
    log.append([one(ORDERS)]).durable.wait()

    def fail() -> None:
        raise MemoryError

    monkeypatch.setattr(log.committer.wal, "flush", fail)
    waiting = log.append([one(ORDERS)]).durable

    with pytest.raises(StorageFailed, match="MemoryError"):
        waiting.wait(60)
    with pytest.raises(StorageFailed):
        log.append([one(ORDERS)])
    monkeypatch.undo()
    log.close()
    log = DiskLog.open(tmp_path, now_ms=lambda: 0)
    assert stored(log, ORDERS)[0] == (0, b"pending")
    log.close()


def test_a_lazy_append_is_committed_in_a_while_though_nobody_waits(tmp_path: Path) -> None:
    log = DiskLog.open(tmp_path, now_ms=Clock())
    log.ensure(ORDERS, "topic", TopicSettings())

    durable = log.append([one(ORDERS)], lazy=True).durable

    assert durable.wait(30)
    assert stored(log, ORDERS) == [(0, b"pending")]
    log.close()


def test_a_lazy_append_shares_the_next_commit_and_stays_in_order(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.ensure(ORDERS, "topic", TopicSettings())
    lazy = log.append([one(ORDERS, b"lazy")], lazy=True).durable
    assert not lazy.done

    after = log.append([one(ORDERS, b"after")]).durable
    log.committer.commit()

    assert lazy is after
    assert stored(log, ORDERS) == [(0, b"lazy"), (1, b"after")]
    log.close()

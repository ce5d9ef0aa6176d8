"""Transactions and idempotent producers on the log on disk: crashes, files, and other writers."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.broker.brokers import Clock, LateLog, publish, read_all, values
from tests.broker.groups.classic.consumers import Room
from tests.broker.transactions.transactional_producers import Bank, Teller

from mainstem.broker.transactions.records import TransactionPhase
from mainstem.core.event import Event
from mainstem.core.records import build
from mainstem.core.topic_settings import TopicSettings
from mainstem.log.disk import DiskLog
from mainstem.log.port import Appended, Batches, PartitionId


class Disk:
    """A data directory that is copied as it is whenever the process dies."""

    def __init__(self, path: Path) -> None:
        self.path = path / "0"
        self.clock = Clock()
        self.logs = [DiskLog.open(self.path, now_ms=self.clock)]
        self.bank = Bank(self.logs[-1], self.clock)

    def crash(self, *tellers: Teller) -> Bank:
        """Go on with what a process that was killed leaves behind."""
        before = self.path
        self.path = before.with_name(str(int(before.name) + 1))
        shutil.copytree(before, self.path, ignore=shutil.ignore_patterns("lock*"))
        self.logs.append(DiskLog.open(self.path, now_ms=self.clock))
        self.bank = Bank(self.logs[-1], self.clock)
        for teller in tellers:
            teller.bank = self.bank
        return self.bank


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    found = Disk(tmp_path)
    yield found
    for log in found.logs:
        log.close()


def test_a_crash_leaves_a_transaction_open_or_ended_everywhere(disk: Disk) -> None:
    bank = disk.bank
    teller = bank.begin().add(0, 1)
    teller.write(b"a")
    bank.transactions.add_group("tx", teller.who, "g")
    bank.broker.commit("g", {("t", 0): 1}).wait(30)

    bank = disk.crash(teller)

    assert bank.transactions.describe("tx").phase is TransactionPhase.ONGOING
    assert bank.committed() == []

    teller.write(b"b", partition=1)
    teller.end(committed=True).durable.wait(30)
    bank = disk.crash(teller)

    assert bank.transactions.describe("tx").phase is TransactionPhase.COMMITTED
    assert bank.committed(0) == [b"a"]
    assert bank.committed(1) == [b"b"]
    assert len(bank.markers(0)) == len(bank.markers(1)) == 1


def test_readers_of_files_stop_at_the_first_open_transaction(disk: Disk) -> None:
    bank = disk.bank
    publish(bank.broker, "t", b"1", partition=0)
    aborted = bank.begin("aborted").add(0)
    aborted.write(b"2")
    aborted.end(committed=False).durable.wait(30)
    ongoing = bank.begin("ongoing").add(0)
    ongoing.write(b"3")
    publish(bank.broker, "t", b"4", partition=0)

    read = bank.transactions.read_committed("t", 0, 0, 1_000_000)

    assert read.data.file is not None
    assert read.stable == 3
    assert bank.committed() == [b"1"]
    assert bank.transactions.read_committed("t", 0, 3, 1_000_000).data.length == 0

    ongoing.end(committed=True).durable.wait(30)

    assert bank.committed() == [b"1", b"3", b"4"]


def test_a_batch_sent_again_after_a_crash_is_written_once(disk: Disk) -> None:
    for sequence in range(3):
        disk.bank.write(7, sequence, b"%d" % sequence).durable.wait(30)

    bank = disk.crash()

    assert bank.offset(7, 2) == 2
    bank.write(7, 3, b"3").durable.wait(30)
    assert values(read_all(bank.broker, "t")) == [b"0", b"1", b"2", b"3"]


def test_generations_do_not_go_back_after_a_crash(disk: Disk) -> None:
    room = Room(disk.bank.broker, disk.clock)
    asked = room.join()
    disk.logs[-1].committer.commit()
    assert asked.answer.generation == 1

    room = Room(disk.crash().broker, disk.clock)
    asked = room.join()
    disk.logs[-1].committer.commit()

    assert asked.answer.generation == 2


class CrowdedLog(LateLog):
    """A log to which somebody else appends just before each append of ours."""

    def __init__(self) -> None:
        super().__init__()
        self.crowded: list[PartitionId] = []

    def append(self, batches: Batches, *, together: bool = True, lazy: bool = False) -> Appended:
        """Let somebody else go first."""
        for partition, _ in batches:
            if partition in self.crowded:
                super().append([(partition, build([Event(b"other")], now_ms=0))])
        return super().append(batches, together=together, lazy=lazy)


def test_others_may_write_at_the_same_time() -> None:
    log = CrowdedLog()
    bank = Bank(log, settings=TopicSettings(partitions=2))
    log.crowded = list(bank.broker.topic("t").partitions)
    teller = bank.begin()
    expected: list[bytes] = []
    for number in range(4):
        teller.add(0).write(b"%d" % number)
        assert bank.committed() == expected
        teller.end(committed=number % 2 == 0)
        # Others came before the event, and before the marker.
        own = [b"%d" % number] if number % 2 == 0 else []
        expected += [b"other", *own, b"other"]
        assert bank.committed() == expected

    for each in (bank, bank.restarted()):
        assert each.committed() == expected
        assert each.committed(offset=5) == expected[4:]
        assert each.committed(offset=6) == expected[4:]
        assert each.committed(offset=7) == expected[5:]

"""Batches that arrive together: few appends, and the same outcome for each as if it came alone."""

import errno
from collections.abc import Callable, Sequence

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.broker.brokers import Clock, append, new_broker
from tests.broker.producers.idempotent_producers import limit_producers
from tests.faults.disk.disk_steps import killed, opened, refuse
from tests.faults.disk.random_workload import OPTIONS
from tests.faults.disk.simulated_disk import SimFiles

from mainstem.broker.broker import Broker
from mainstem.broker.journal import IDS, PRODUCERS
from mainstem.broker.producers.producers import ProducerLimits
from mainstem.broker.publishing.outcome import AppendedBatch, AppendOutcome
from mainstem.core.batch import batches, read_header
from mainstem.core.errors import (
    MainstemError,
    OutOfOrderSequence,
    StorageFailed,
    StorageFull,
    UnknownPartition,
)
from mainstem.core.event import Event
from mainstem.core.records import build
from mainstem.core.topic_settings import Durability, TopicSettings
from mainstem.log.disk import DiskLog
from mainstem.log.files.files import Files
from mainstem.log.options import Options
from mainstem.log.port import Appended, Batches, PartitionId, WritableBatch
from mainstem.log.recovery.recovery import Recovered

PARTITIONS = 5
JOURNAL = PartitionId(IDS[PRODUCERS], 0)

Written = tuple[int, int, int]
"""Producer id, sequence and count of a batch."""


class CountingLog(DiskLog):
    """A log that takes note of what it is given at once."""

    def __init__(
        self, files: Files, now_ms: Callable[[], int], options: Options, recovered: Recovered
    ) -> None:
        super().__init__(files, now_ms, options, recovered)
        self.given: list[list[int]] = []

    def append(self, batches: Batches, *, together: bool = True, lazy: bool = False) -> Appended:
        """Append, and remember the partitions."""
        self.given.append([partition.number for partition, _ in batches])
        return super().append(batches, together=together, lazy=lazy)


class Dock:
    """A broker on a simulated disk, whose commits are made by the test."""

    def __init__(
        self,
        files: SimFiles | None = None,
        durability: Durability = Durability.FSYNC,
        partitions: int = PARTITIONS,
        limits: ProducerLimits | None = None,
    ) -> None:
        self.files = files or SimFiles()
        # In one segment, so that nothing has to be given to the log again.
        options = msgspec.structs.replace(OPTIONS, large_batch_bytes=1 << 20)
        log = CountingLog.open(files=self.files, now_ms=Clock(), options=options)
        assert isinstance(log, CountingLog)
        self.log = log
        self.broker = new_broker(self.log)
        if limits is not None:
            limit_producers(self.broker, limits)
        if not self.broker.topics("t"):
            self.broker.create_topic(
                "t", TopicSettings(partitions=partitions, durability=durability)
            )

    def arrive(self, *given: tuple[int, WritableBatch]) -> list[AppendOutcome]:
        """Let batches arrive together."""
        self.log.given.clear()
        outcomes, held = self.broker.append_batches("t", given)
        assert held is None
        return outcomes

    def commit(self) -> None:
        """Make everything durable."""
        self.log.committer.commit()

    def killed(self) -> "Dock":
        """Return the same after kill -9."""
        return Dock(killed(self.files))

    def held(self, number: int) -> list[Written]:
        """Return the batches of a partition."""
        return [each[2:] for each in contents(self.broker, number)]


def one(sequence: int, producer_id: int = 7, count: int = 1, epoch: int = 0) -> bytearray:
    """Build a batch of an idempotent producer."""
    return build(
        [Event(b"x")] * count,
        now_ms=0,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )


def contents(broker: Broker, number: int) -> list[tuple[int, int, int, int, int]]:
    """Return offset, epoch, producer id, sequence and count of every batch of a partition."""
    found, (offset, tail) = [], broker.bounds("t", number)[:2]
    while offset < tail:
        for batch in batches(broker.read("t", number, offset, 1 << 20).tobytes()):
            each = read_header(batch)
            offset = each.last_offset + 1
            who = each.producer_epoch, each.producer_id
            found.append((each.base_offset, *who, each.base_sequence, each.count))
    return found


def offsets(outcomes: Sequence[AppendOutcome]) -> list[int | type[MainstemError]]:
    """Return where batches are, or how they were refused."""
    return [each.offset if isinstance(each, AppendedBatch) else type(each) for each in outcomes]


def test_batches_of_a_producer_for_many_partitions_are_one_append_and_one_commit() -> None:
    dock = Dock()
    dock.arrive(*[(number, one(0)) for number in range(PARTITIONS)])

    outcomes = dock.arrive((3, one(1)), (0, one(1)), (3, one(2)), (1, one(1)))

    assert dock.log.given == [[0, 1, 3, 3]]
    assert offsets(outcomes) == [1, 1, 2, 1]
    assert len({each.durable for each in outcomes if isinstance(each, AppendedBatch)}) == 1


def test_of_each_becomes_what_would_if_it_had_come_alone() -> None:
    dock = Dock()
    dock.arrive(*[(number, one(0, count=2)) for number in range(PARTITIONS)])

    outcomes = dock.arrive(
        (0, one(2)),
        (1, one(0, count=2)),
        (2, one(9)),
        (3, one(4, producer_id=8)),
        (PARTITIONS, one(2)),
        (4, one(2)),
    )
    dock.commit()

    assert offsets(outcomes) == [2, 0, OutOfOrderSequence, 2, UnknownPartition, 2]
    assert dock.log.given == [[0, 3, 4]]
    first = (7, 0, 2)
    assert dock.held(0) == [first, (7, 2, 1)]
    assert dock.held(1) == dock.held(2) == [first]
    assert dock.held(3) == [first, (8, 4, 1)]
    assert dock.held(4) == [first, (7, 2, 1)]


def test_what_comes_behind_a_refused_batch_is_judged_by_what_is_true_then() -> None:
    dock = Dock()
    dock.arrive((0, one(0)), (1, one(0)))

    outcomes = dock.arrive((0, one(2)), (0, one(1)), (0, one(2)), (0, one(9)), (0, one(3)))

    assert offsets(outcomes) == [OutOfOrderSequence, 1, 2, OutOfOrderSequence, 3]


def test_a_batch_that_comes_twice_at_once_is_appended_once() -> None:
    dock = Dock()

    outcomes = dock.arrive((1, one(0)), (0, one(0)), (0, one(0)), (0, one(1)), (1, one(0)))
    dock.commit()

    assert offsets(outcomes) == [0, 0, 0, 1, 0]
    assert dock.held(0) == [(7, 0, 1), (7, 1, 1)]
    assert dock.held(1) == [(7, 0, 1)]


def test_a_batch_that_comes_again_with_new_ones_is_durable_when_the_first_is() -> None:
    dock = Dock()
    (first,) = dock.arrive((0, one(0)))
    dock.commit()

    again, new = dock.arrive((0, one(0)), (1, one(0)))

    assert isinstance(first, AppendedBatch)
    assert isinstance(again, AppendedBatch)
    assert isinstance(new, AppendedBatch)
    assert again.durable is first.durable
    assert again.durable.done
    assert not new.durable.done


def test_producers_take_turns_in_a_partition() -> None:
    dock = Dock()

    outcomes = dock.arrive(
        (0, one(0)),
        (0, one(5, producer_id=8)),
        (0, one(1)),
        (0, one(1, producer_id=8)),
        (0, build([Event(b"plain")], now_ms=0)),
        (0, one(0, epoch=1)),
        (0, one(2)),
    )

    assert offsets(outcomes)[:3] == [0, 1, 2]
    assert isinstance(outcomes[3], OutOfOrderSequence)
    assert offsets(outcomes)[4:6] == [3, 4]
    assert isinstance(outcomes[6], MainstemError)


def test_batches_without_a_producer_are_never_taken_for_one_that_came_before() -> None:
    dock = Dock()
    plain = build([Event(b"plain")], now_ms=0)

    first = dock.arrive((0, one(0)), (1, bytearray(plain)))
    second = dock.arrive((0, one(1)), (1, bytearray(plain)))

    assert offsets([*first, *second]) == [0, 0, 1, 1]
    assert dock.broker.producers.describe("t", 1) == []


def test_what_finds_no_room_is_refused_and_the_rest_is_not_appended_again() -> None:
    dock = Dock(durability=Durability.DISK)
    dock.arrive(*[(number, one(0)) for number in range(PARTITIONS)])
    given = [(number, one(sequence)) for number in range(4) for sequence in (1, 2)]
    # Known already, and behind what is refused.
    given.append((4, one(0)))

    refuse(dock.files, "grow write", "-2/")
    outcomes = dock.arrive(*given)

    assert offsets(outcomes) == [1, 2, 1, 2, StorageFull, OutOfOrderSequence, 1, 2, 0]

    dock.files.before = lambda *_: None

    assert offsets(dock.arrive(*given)) == [1, 2, 1, 2, 1, 2, 1, 2, 0]
    assert dock.log.given == [[2, 2]]
    assert dock.held(2) == [(7, sequence, 1) for sequence in range(3)]


def test_a_commit_that_fails_is_told_of_all_that_shared_it_also_when_they_come_again() -> None:
    dock = Dock()
    dock.arrive((0, one(0)), (1, one(0)))
    dock.commit()
    outcomes = dock.arrive((0, one(1)), (1, one(0)), (1, one(1)))
    outcomes += dock.arrive((1, one(1)))

    refuse(dock.files, "sync", code=errno.EIO)
    dock.commit()

    kept, failed = outcomes.pop(1), outcomes
    assert isinstance(kept, AppendedBatch)
    assert kept.durable.wait(0)
    for each in failed:
        assert isinstance(each, AppendedBatch)
        with pytest.raises(StorageFailed):
            each.durable.wait(0)
    assert offsets(dock.arrive((0, one(2)), (1, one(2)))) == [StorageFailed, StorageFailed]


def test_what_is_first_written_to_partitions_is_written_down_with_it() -> None:
    dock = Dock(partitions=300)
    given = [(number, one(0)) for number in (0, 1, 256, 257)]

    outcomes = dock.arrive(*given)

    # One for each of two stretches of partitions, and the rest in between and after that.
    journal = JOURNAL.number
    assert dock.log.given == [[0, journal], [1], [256, journal], [257]]
    assert offsets(outcomes) == [0] * 4

    dock.commit()
    after = dock.killed()

    assert offsets(after.arrive(*given)) == [0] * 4
    assert after.log.given == []


def test_a_snapshot_amid_batches_that_came_together_misses_none_of_them() -> None:
    dock = Dock(limits=ProducerLimits(snapshot_batches=3))
    dock.arrive((0, one(0)))

    dock.arrive(*[(0, one(sequence)) for sequence in (1, 2, 3)])
    dock.commit()
    after = dock.killed()

    assert offsets(after.arrive((0, one(3)), (0, one(4)))) == [3, 4]


def test_too_many_producers_at_once_are_not_remembered() -> None:
    dock = Dock(limits=ProducerLimits(max_producers=4))

    dock.arrive(*[(number, one(0, producer)) for number in (0, 1) for producer in range(5)])

    described = [dock.broker.producers.describe("t", number) for number in (0, 1)]
    assert sum(map(len, described)) == 4


TELLER = 0
"""The first producer id that a broker gives out: that of a transactional producer."""

VALUE = bytes(150)

arriving = st.tuples(
    st.integers(0, 2),
    st.sampled_from([-1, TELLER, 7, 8]),
    st.integers(0, 4),
    st.integers(1, 2),
    st.sampled_from([0, 0, 0, 1]),
    st.sampled_from([True, True, True, False]),
)
"""Partition, producer, sequence, count, epoch, and whether a transaction's are marked so."""


def built(each: tuple[int, int, int, int, int, bool]) -> tuple[int, bytearray]:
    number, producer_id, sequence, count, epoch, marked = each
    if producer_id < 0:
        return number, build([Event(VALUE)] * count, now_ms=0)
    batch = build(
        [Event(VALUE)] * count,
        now_ms=0,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=marked and producer_id == TELLER,
    )
    return number, batch


def teller_at(files: SimFiles) -> tuple[DiskLog, Broker]:
    log = opened(files)
    broker = new_broker(log)
    # Small segments, so that the log ends runs where it likes.
    broker.create_topic("t", TopicSettings(partitions=3, segment_bytes=1024))
    assert broker.transactions.begin("tx", 60_000).producer_id == TELLER
    return log, broker


def alone(broker: Broker, number: int, batch: bytearray) -> int | str:
    try:
        return append(broker, "t", number, batch, adds_partition=True).offset
    except MainstemError as error:
        return str(error)


@settings(max_examples=60)
@given(st.lists(st.lists(arriving, min_size=1, max_size=12), min_size=1, max_size=4))
def test_arriving_together_and_one_by_one_are_the_same(
    reads: list[list[tuple[int, int, int, int, int, bool]]],
) -> None:
    together, one_by_one = SimFiles(), SimFiles()
    (log, broker), (other_log, other) = teller_at(together), teller_at(one_by_one)

    for read in reads:
        given = [built(each) for each in read]
        outcomes, held = broker.append_batches("t", given, adds_partition=True)
        assert held is None
        found = [each.offset if isinstance(each, AppendedBatch) else str(each) for each in outcomes]

        assert found == [alone(other, *built(each)) for each in read]
    log.committer.commit()
    other_log.committer.commit()

    for number in range(3):
        assert contents(broker, number) == contents(other, number)
        started, also = (each.transactions.started_at("t", number) for each in (broker, other))
        assert started == also
    assert replayed(together) == replayed(one_by_one)


def replayed(files: SimFiles) -> list[object]:
    """Return what is known of producers after kill -9."""
    producers = new_broker(opened(killed(files))).producers
    return [
        sorted(producers.describe("t", number), key=lambda each: each.producer_id)
        for number in range(3)
    ]

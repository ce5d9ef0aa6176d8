"""Idempotent producers: a repeated batch is stored once, and a missing one is detected."""

import pytest
from tests.broker.brokers import LateLog, append, publish, read_all, values
from tests.broker.producers.idempotent_producers import Works

from mainstem.broker.journal import IDS, PRODUCERS
from mainstem.broker.producers.producers import LOOK_MS, ProducerLimits
from mainstem.core.errors import (
    InvalidProducerEpoch,
    OutOfOrderSequence,
    UnknownPartition,
    UnknownTopic,
)
from mainstem.core.event import Event
from mainstem.core.records import build
from mainstem.core.topic_settings import Durability, TopicSettings
from mainstem.core.transaction_markers import build_marker
from mainstem.log.port import PartitionId, Slice

LAST = 2**31 - 1


def test_no_producer_id_is_given_twice_also_after_restarts() -> None:
    works = Works(limits=ProducerLimits(id_block=3))
    ids = [works.broker.producers.new_id().producer_id for _ in range(4)]
    works = works.restarted()
    ids += [works.broker.producers.new_id().producer_id for _ in range(4)]

    assert len(set(ids)) == 8
    assert ids == sorted(ids)


def test_an_id_is_certain_once_its_block_is_durable() -> None:
    log = LateLog()
    works = Works(log)
    log.late = True

    first, second = works.broker.producers.new_id(), works.broker.producers.new_id()

    assert not first.durable.done
    assert not second.durable.done

    log.settle()

    assert first.durable.done
    assert second.durable.done


def test_a_batch_that_comes_again_is_not_appended_again() -> None:
    works = Works()
    works.write(7, 0, b"a", b"b")

    again = works.write(7, 0, b"a", b"b")

    assert again.offset == 0
    assert values(read_all(works.broker, "t")) == [b"a", b"b"]


def test_the_last_five_batches_are_recognised_and_older_ones_refused() -> None:
    works = Works()
    offsets = [works.offset(7, sequence) for sequence in range(6)]

    again = [works.offset(7, sequence) for sequence in range(1, 6)]

    assert again == offsets[1:]
    with pytest.raises(OutOfOrderSequence):
        works.write(7, 0)


def test_a_batch_that_begins_alike_but_is_another_is_refused() -> None:
    works = Works()
    works.write(7, 0, b"a", b"b")

    with pytest.raises(OutOfOrderSequence):
        works.write(7, 0, b"a")


def test_a_gap_is_refused() -> None:
    works = Works()
    works.write(7, 0, b"a", b"b")

    with pytest.raises(OutOfOrderSequence) as refused:
        works.write(7, 3)

    assert (refused.value.sequence, refused.value.expected) == (3, 2)
    assert works.offset(7, 2) == 2


def test_sequences_begin_again_after_the_largest_number() -> None:
    works = Works()
    works.write(7, LAST - 1, b"a", b"b", b"c")

    assert works.write(7, LAST - 1, b"a", b"b", b"c").offset == 0
    assert works.offset(7, 1) == 3

    works.write(8, LAST)

    assert works.offset(8, 0) == 5


def test_every_partition_counts_for_itself() -> None:
    works = Works()
    works.write(7, 0)

    assert works.offset(7, 0, partition=1) == 0
    assert works.offset(7, 1, partition=1) == 1
    assert works.offset(7, 1) == 1


def test_an_unknown_producer_may_begin_anywhere() -> None:
    works = Works()

    assert works.offset(7, 12_345) == 0
    with pytest.raises(OutOfOrderSequence):
        works.write(7, 0)


def test_a_new_epoch_begins_at_zero_and_ends_the_one_before() -> None:
    works = Works()
    works.write(7, 0)

    with pytest.raises(OutOfOrderSequence):
        works.write(7, 1, epoch=1)
    works.write(7, 0, epoch=1)

    with pytest.raises(InvalidProducerEpoch):
        works.write(7, 1)
    with pytest.raises(InvalidProducerEpoch):
        works.write(7, 0)
    assert works.offset(7, 1, epoch=1) == 2


def test_a_restart_forgets_nothing() -> None:
    works = Works()
    offsets = [works.offset(7, sequence) for sequence in range(3)]
    works.write(7, 0, partition=1, epoch=2)

    works = works.restarted()

    assert [works.offset(7, sequence) for sequence in range(4)] == [*offsets, 3]
    with pytest.raises(InvalidProducerEpoch):
        works.write(7, 1, partition=1)


def test_a_batch_that_comes_again_waits_for_the_first_to_be_durable() -> None:
    log = LateLog()
    works = Works(log)
    log.late = True
    first = works.write(7, 0)

    again = works.write(7, 0)

    assert not again.durable.done

    log.settle()

    assert first.durable.done
    assert again.durable.done


def test_a_producer_that_is_silent_is_forgotten_also_after_a_restart() -> None:
    works = Works(limits=ProducerLimits(expire_ms=10_000))
    works.write(7, 0)
    works.clock.now_ms += 6_000
    works.write(8, 0)
    works.clock.now_ms += 4_000

    works.broker.producers.tick()

    for each in (works, works.restarted()):
        ids = [state.producer_id for state in each.broker.producers.describe("t", 0)]
        assert ids == [8]

    works.clock.now_ms += 10_000
    works.broker.producers.tick()

    assert works.broker.producers.snapshots == {}
    assert works.broker.producers.next_deadline() is None


def test_too_many_producers_make_the_most_silent_be_forgotten() -> None:
    works = Works(limits=ProducerLimits(max_producers=10))
    for producer in range(10):
        works.write(producer, 0)
    works.write(0, 1)

    works.write(10, 0)

    ids = {state.producer_id for state in works.broker.producers.describe("t", 0)}
    assert ids == {0, *range(2, 11)}
    assert works.restarted().broker.producers.describe("t", 0)[0].producer_id == 2


def test_only_what_came_after_the_snapshot_is_read_after_a_restart() -> None:
    log = CountingLog()
    works = Works(log, limits=ProducerLimits(snapshot_batches=10))
    for sequence in range(95):
        works.write(7, sequence, b"x" * 10_000)
    log.bytes_read = 0

    again = works.restarted()
    assert log.bytes_read < 50_000
    assert again.broker.producers.describe("t", 0)[0].last_sequence == 94

    assert log.bytes_read < 200_000


def test_plain_events_after_the_last_producer_are_not_read_for_ever() -> None:
    log = CountingLog()
    works = Works(log, limits=ProducerLimits(snapshot_events=50))
    works.write(7, 0)
    for _ in range(3):
        publish(works.broker, "t", *[b"x" * 10_000] * 100, partition=0)
        works.clock.now_ms += LOOK_MS
        works.broker.producers.tick()
        works = works.restarted()
    log.bytes_read = 0

    assert works.offset(7, 0) == 0
    assert log.bytes_read < 100_000


def test_a_partition_without_producers_is_not_read_at_all() -> None:
    log = CountingLog()
    works = Works(log)
    publish(works.broker, "t", *[b"x" * 10_000] * 100, partition=0)
    works = works.restarted()
    log.bytes_read = 0

    works.write(7, 0)

    assert log.bytes_read == 0


class CountingLog(LateLog):
    """A log that counts what is read."""

    bytes_read = 0

    def read(self, partition: PartitionId, offset: int, max_bytes: int) -> Slice:
        """Read, and count."""
        found = super().read(partition, offset, max_bytes)
        self.bytes_read += found.length
        return found


def test_the_first_batch_of_a_topic_is_enough_for_all_its_partitions() -> None:
    works = Works()
    works.write(7, 0)
    journal = PartitionId(IDS[PRODUCERS], 0)
    written = works.log.bounds(journal).end

    works.write(7, 0, partition=1)

    assert works.log.bounds(journal).end == written
    assert works.restarted().offset(7, 0, partition=1) == 0
    assert works.restarted().offset(7, 1, partition=1) == 1


def test_topics_in_memory_write_nothing_down() -> None:
    works = Works(settings=TopicSettings(durability=Durability.MEMORY))
    works.write(7, 0)

    assert works.offset(7, 0) == 0
    assert works.broker.producers.snapshots == {}


def test_a_topic_that_is_deleted_takes_its_producers_with_it() -> None:
    works = Works()
    works.write(7, 3)
    works.broker.delete_topic("t")

    assert works.broker.producers.snapshots == {}
    with pytest.raises(UnknownTopic):
        works.write(7, 4)

    works.broker.create_topic("t")

    assert works.offset(7, 9) == 0
    with pytest.raises(UnknownPartition):
        works.write(7, 0, partition=1)
    with pytest.raises(UnknownPartition):
        works.broker.producers.describe("t", 1)


def test_an_end_that_is_taken_back_takes_the_producers_with_it() -> None:
    works = Works()
    for sequence in range(3):
        works.write(7, sequence)
    works.broker.truncate("t", 0, 1)

    assert works.offset(7, 1) == 1
    assert len(read_all(works.broker, "t")) == 2
    assert works.restarted().offset(7, 1) == 1
    assert len(read_all(works.broker, "t")) == 2


def test_a_snapshot_beyond_the_end_of_the_log_is_not_believed() -> None:
    works = Works(limits=ProducerLimits(snapshot_batches=3))
    for sequence in range(3):
        works.write(7, sequence)
    # As a power cut does to a topic with durability disk.
    works.log.cut(works.broker.topic("t").partitions[0], end=1)

    works = works.restarted()

    assert works.offset(7, 1) == 1
    assert len(read_all(works.broker, "t")) == 2


def test_a_marker_of_a_later_epoch_ends_the_one_before() -> None:
    works = Works()
    works.write(7, 0)
    partition = works.broker.topic("t").partitions[0]
    works.log.append([(partition, build_marker(7, 1, committed=False, now_ms=0))])

    works = works.restarted()

    with pytest.raises(InvalidProducerEpoch):
        works.write(7, 1)
    assert works.offset(7, 0, epoch=1) == 2


def test_a_batch_without_a_producer_id_is_just_appended() -> None:
    works = Works()
    for _ in range(2):
        append(works.broker, "t", 0, build([Event(b"x")], now_ms=0))

    assert len(read_all(works.broker, "t")) == 2

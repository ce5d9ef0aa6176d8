"""Scenarios of offsets: by time, by epoch, and deleting what is before one."""

from collections.abc import Iterator

from tests.heads.kafka.parity.batches import NOW_MS, batch, put
from tests.heads.kafka.parity.compared_server import Said, Side, Topic, alike, unlike, word

from mainstem.kafka_protocol.messages import offsets

_LATEST, _EARLIEST, _OF_LATEST_TIME, _EARLIEST_HERE, _ELSEWHERE, _PENDING = range(-1, -7, -1)
_NAMES = ("none", "", "a b")
_CONSUMER = -1


def _timed(side: Side) -> Topic:
    """Return a topic with three events, of which the second is the latest."""
    topic = side.topic()
    for later_ms in (0, 2_000, 1_000):
        put(side, topic, batch(at_ms=NOW_MS + later_ms))
    return topic


def _listed(
    side: Side,
    topic: str,
    timestamp: int,
    *,
    partition: int = 0,
    epoch: int = -1,
    isolation: int = 0,
    version: int = offsets.LIST_OFFSETS.last,
) -> Said:
    asked = offsets.ListOffsetsTopic(
        topic, [offsets.ListOffsetsPartition(partition, epoch, timestamp)]
    )
    body = offsets.ListOffsetsRequest(_CONSUMER, isolation, [asked], 10_000)
    with side.another() as peer:
        try:
            answer = peer.ask(offsets.LIST_OFFSETS, version, body, offsets.ListOffsetsResponse)
        except (EOFError, ConnectionResetError):
            return "closed"
    (found,) = answer.topics[0].partitions
    shown = found.timestamp - NOW_MS if found.timestamp >= 0 else "none"
    return word(found.error_code), found.partition_index, shown, found.offset, found.leader_epoch


@alike
def offsets_by_time_in_every_version(side: Side) -> Iterator[Said]:
    topic = _timed(side)
    since = {_OF_LATEST_TIME: 7, _EARLIEST_HERE: 8, _ELSEWHERE: 9, _PENDING: 11}
    for version in range(offsets.LIST_OFFSETS.first, offsets.LIST_OFFSETS.last + 1):
        for timestamp in (_LATEST, _EARLIEST, _OF_LATEST_TIME, _EARLIEST_HERE, _ELSEWHERE):
            if version >= since.get(timestamp, 0):
                yield version, timestamp, _listed(side, topic.name, timestamp, version=version)
        for later_ms in (-1, 0, 1, 1_500, 2_000, 2_001):
            timestamp = NOW_MS + later_ms
            yield version, later_ms, _listed(side, topic.name, timestamp, version=version)


@alike
def times_that_are_none(side: Side) -> Iterator[Said]:
    topic = _timed(side)
    for timestamp in (0, 2**63 - 1, _PENDING, -7, -100, -(2**63)):
        yield timestamp, _listed(side, topic.name, timestamp)


@alike
def times_before_their_version(side: Side) -> Iterator[Said]:
    topic = _timed(side)
    for version, timestamp in ((6, _OF_LATEST_TIME), (7, _EARLIEST_HERE), (8, _ELSEWHERE)):
        yield version, timestamp, _listed(side, topic.name, timestamp, version=version)
    yield _listed(side, topic.name, _PENDING, version=10)


@alike
def offsets_of_an_empty_partition(side: Side) -> Iterator[Said]:
    topic = side.topic()
    for timestamp in (_LATEST, _EARLIEST, _OF_LATEST_TIME, _EARLIEST_HERE, _ELSEWHERE, 0, NOW_MS):
        yield timestamp, _listed(side, topic.name, timestamp)


@alike
def offsets_of_what_is_not_there(side: Side) -> Iterator[Said]:
    for timestamp in (_LATEST, _EARLIEST, _OF_LATEST_TIME, 0, -100):
        for partition in (1, -1):
            yield partition, timestamp, _listed(side, side.one.name, timestamp, partition=partition)
        for name in _NAMES:
            yield name, timestamp, _listed(side, name, timestamp)


@alike
def epochs_of_who_asks_for_offsets(side: Side) -> Iterator[Said]:
    topic = _timed(side).name
    for timestamp in (_LATEST, _EARLIEST, _OF_LATEST_TIME, 0, 2**63 - 1):
        for epoch in (-1, 0, 1, 100):
            yield epoch, timestamp, _listed(side, topic, timestamp, epoch=epoch)


@unlike("an epoch below zero is none, as with Fetch; an Apache Kafka has -1 alone for that here")
def epochs_below_zero(side: Side) -> Iterator[Said]:
    for timestamp in (_LATEST, _EARLIEST, 0):
        yield timestamp, _listed(side, side.one.name, timestamp, epoch=-2)
    for epoch in (-2, 0, 1):
        yield _ended(side, side.one.name, epoch, -2)
    yield _ended(side, side.one.name, -2)


@alike
def isolation_of_who_asks_for_offsets(side: Side) -> Iterator[Said]:
    topic = _timed(side)
    for isolation in (0, 1):
        for timestamp in (_LATEST, _EARLIEST, _OF_LATEST_TIME, NOW_MS):
            yield isolation, timestamp, _listed(side, topic.name, timestamp, isolation=isolation)


@unlike("an unknown isolation is none; an Apache Kafka fails with UNKNOWN_SERVER_ERROR")
def isolation_there_is_not(side: Side) -> Iterator[Said]:
    topic = _timed(side)
    for isolation in (2, -1):
        for timestamp in (_LATEST, _EARLIEST, _OF_LATEST_TIME, NOW_MS):
            yield isolation, timestamp, _listed(side, topic.name, timestamp, isolation=isolation)


@unlike("a partition that is named twice is answered twice; there it is INVALID_REQUEST")
def a_partition_twice(side: Side) -> Iterator[Said]:
    both = [offsets.ListOffsetsPartition(0, -1, at) for at in (_LATEST, _EARLIEST)]
    body = offsets.ListOffsetsRequest(_CONSUMER, 0, [offsets.ListOffsetsTopic(side.one.name, both)])
    answer = side.ask(offsets.LIST_OFFSETS, body, offsets.ListOffsetsResponse)
    yield [(word(found.error_code), found.offset) for found in answer.topics[0].partitions]


def _ended(side: Side, topic: str, epoch: int, current: int = -1, partition: int = 0) -> Said:
    asked = offsets.EpochTopic(topic, [offsets.EpochPartition(partition, current, epoch)])
    body = offsets.OffsetForLeaderEpochRequest(topics=[asked])
    answer = side.ask(offsets.OFFSET_FOR_LEADER_EPOCH, body, offsets.OffsetForLeaderEpochResponse)
    (found,) = answer.topics[0].partitions
    return word(found.error_code), found.partition, found.leader_epoch, found.end_offset


@alike
def ends_of_epochs(side: Side) -> Iterator[Said]:
    for epoch in (-1, 0, 1, 100):
        yield epoch, _ended(side, side.one.name, epoch)
        for current in (0, 1, 100):
            yield epoch, current, _ended(side, side.one.name, epoch, current)
    yield "empty", _ended(side, side.topic().name, 0)


@alike
def ends_of_epochs_of_what_is_not_there(side: Side) -> Iterator[Said]:
    for partition in (1, -1):
        yield partition, _ended(side, side.one.name, 0, partition=partition)
    for name in _NAMES:
        yield name, _ended(side, name, 0)


def records_deleted(side: Side, topic: str, offset: int, partition: int = 0) -> Said:
    asked = offsets.DeleteRecordsTopic(topic, [offsets.DeleteRecordsPartition(partition, offset)])
    body = offsets.DeleteRecordsRequest([asked], 10_000)
    answer = side.ask(offsets.DELETE_RECORDS, body, offsets.DeleteRecordsResponse)
    (found,) = answer.topics[0].partitions
    return word(found.error_code), found.partition_index, found.low_watermark


@alike
def deleting_records(side: Side) -> Iterator[Said]:
    topic = side.topic(batches=1).name
    for offset in (0, 3, 3, 1, 0, 11, 100, -2, -100, 5, 10, 11, 9, -1):
        yield offset, records_deleted(side, topic, offset)
        yield offset, _listed(side, topic, _EARLIEST), _listed(side, topic, _LATEST)
    topic = side.topic(batches=1).name
    yield "all", records_deleted(side, topic, -1), _listed(side, topic, _EARLIEST)


@alike
def deleting_records_of_what_is_not_there(side: Side) -> Iterator[Said]:
    for offset in (0, -1, 100):
        for partition in (1, -1):
            yield partition, records_deleted(side, side.one.name, offset, partition)
        for name in _NAMES:
            yield name, records_deleted(side, name, offset)


@alike
def deleting_records_of_a_topic_with_both_policies(side: Side) -> Iterator[Said]:
    topic = side.topic(cleanup_policy="compact,delete")
    put(side, topic, batch(3, key=b"k"))
    yield records_deleted(side, topic.name, 1)


@unlike("every topic can be trimmed, over the network as in the directory")
def deleting_records_that_compaction_keeps(side: Side) -> Iterator[Said]:
    topic = side.topic(cleanup_policy="compact")
    put(side, topic, batch(3, key=b"k"))
    yield records_deleted(side, topic.name, 1)

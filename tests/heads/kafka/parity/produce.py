"""Scenarios of producing: accepted batches, and errors for all others."""

from collections.abc import Iterator

from tests.heads.kafka.parity.batches import (
    ATTRIBUTES,
    BASE,
    BY_NAME,
    COUNT,
    CRC,
    DAY_MS,
    EPOCH,
    FIRST_TIME,
    LAST_DELTA,
    LAST_TIME,
    LENGTH,
    MAGIC,
    NOBODY,
    NOW_MS,
    batch,
    changed,
    put,
)
from tests.heads.kafka.parity.compared_server import Said, Side, Topic, alike, unlike
from tests.heads.kafka.raw_peers import request

from mainstem.core.batch import seal
from mainstem.kafka_protocol.messages import produce
from mainstem.kafka_protocol.messages.metadata import METADATA, MetadataRequest, MetadataResponse


@alike
def producing_in_every_version(side: Side) -> Iterator[Said]:
    topic = side.topic()
    for version in range(produce.PRODUCE.first, produce.PRODUCE.last + 1):
        for acks in (1, -1):
            yield version, acks, put(side, topic, batch(2), version=version, acks=acks)


@alike
def acknowledgements_there_are_not(side: Side) -> Iterator[Said]:
    topic = side.topic()
    for acks in (2, -2, 100):
        for version in (3, BY_NAME, produce.PRODUCE.last):
            yield acks, version, put(side, topic, batch(), acks=acks, version=version)


@alike
def topics_and_partitions_there_are_not(side: Side) -> Iterator[Said]:
    topic = side.topic()
    for version in (3, BY_NAME, produce.PRODUCE.last):
        for partition in (1, 100, -1, -(2**31)):
            yield (
                version,
                partition,
                put(side, topic, batch(), partition=partition, version=version),
            )
    yield put(side, Topic("", NOBODY), batch())
    yield put(side, Topic("", bytes(16)), batch())


@unlike("a topic is created by who names it, also without asking for it first")
def producing_to_a_topic_there_is_not(side: Side) -> Iterator[Said]:
    yield put(side, Topic(side.name("none"), b""), batch(), version=BY_NAME)


@unlike("a topic is created by who names it, and these names say why it is not")
def producing_to_names_that_no_topic_can_have(side: Side) -> Iterator[Said]:
    for name in ("", ".", "a b", "a" * 250, "é"):
        yield name, put(side, Topic(name, b""), batch(), version=BY_NAME)


@alike
def no_records(side: Side) -> Iterator[Said]:
    topic = side.topic()
    for version in (3, BY_NAME, produce.PRODUCE.last):
        yield version, "empty", put(side, topic, b"", version=version)


@alike
def batches_in_pieces(side: Side) -> Iterator[Said]:
    topic, whole = side.topic(), batch(2)
    for size in (1, 11, 12, 16, 17, 60, 61, len(whole) - 1):
        yield size, put(side, topic, whole[:size])


@alike
def lengths_that_lie(side: Side) -> Iterator[Said]:
    topic, length = side.topic(), len(batch(2)) - 12
    for value in (-1, 0, 13, 14, 48, 49, length - 1, length + 1):
        yield value, put(side, topic, changed((LENGTH, value), sealed=False))


@alike
def two_batches(side: Side) -> Iterator[Said]:
    topic = side.topic()
    yield put(side, topic, batch() + batch())
    yield put(side, topic, batch() + batch() + batch()[:20])


@unlike("what is behind a batch would be lost without a word")
def a_batch_and_a_piece(side: Side) -> Iterator[Said]:
    yield put(side, side.topic(), batch() + batch()[:20])
    yield put(side, side.topic(), batch() + b"x")


@alike
def magic(side: Side) -> Iterator[Said]:
    topic = side.topic()
    for value in (0, 1, 3, -1, 127):
        for version in (3, produce.PRODUCE.last):
            yield value, version, put(side, topic, changed((MAGIC, value)), version=version)


@alike
def checksums(side: Side) -> Iterator[Said]:
    topic = side.topic()
    yield put(side, topic, changed((CRC, 7), sealed=False))
    yield put(side, topic, batch()[:-1] + b"\x01")


@alike
def counts_of_records(side: Side) -> Iterator[Said]:
    topic = side.topic()
    for count in (-1, 0, 1, 3, 2**31 - 1):
        yield count, put(side, topic, changed((COUNT, count)))
    for delta in (-1, 0, 2, 2**31 - 1):
        yield delta, put(side, topic, changed((LAST_DELTA, delta)))
    yield 0, put(side, topic, changed((COUNT, 0), (LAST_DELTA, -1)))


@unlike("records are looked into only if a topic says so (mainstem.validate), or is compacted")
def counts_that_only_the_records_contradict(side: Side) -> Iterator[Said]:
    for number in (1, 3):
        topic = side.topic()
        yield number, put(side, topic, changed((COUNT, number), (LAST_DELTA, number - 1)))
    for codec in range(1, 5):
        yield codec, put(side, side.topic(), changed((ATTRIBUTES, codec)))


@alike
def offsets_within_a_batch(side: Side) -> Iterator[Said]:
    topic, whole = side.topic(), batch(2)
    # Length, attributes, the time, then the offset, each of one byte.
    for at, deltas in ((64, (2, 1, 4)), (72, (0, 4, 1))):
        for delta in deltas:
            found = bytearray(whole)
            found[at] = delta
            seal(found)
            yield at, delta, put(side, topic, bytes(found))


@unlike("the offset of a batch is the log's to give, whatever its producer says")
def offsets_that_a_producer_gives(side: Side) -> Iterator[Said]:
    for base in (-1, 1, 7, 2**63 - 1, -(2**63)):
        yield base, put(side, side.topic(), changed((BASE, base)))


@alike
def epochs_that_a_producer_gives(side: Side) -> Iterator[Said]:
    topic = side.topic()
    for epoch in (-1, 7, -7):
        yield epoch, put(side, topic, changed((EPOCH, epoch)))


@alike
def control_batches(side: Side) -> Iterator[Said]:
    yield put(side, side.topic(), changed((ATTRIBUTES, 0x20)))


@unlike("refused as INVALID_RECORD; an Apache Kafka fails, or passes over what it does not know")
def attributes(side: Side) -> Iterator[Said]:
    for value in (5, 6, 7, 8, 0x30, 0x40, 0x80, 0x4000):
        yield hex(value), put(side, side.topic(), changed((ATTRIBUTES, value)))


@alike
def names_of_transactions_without_one(side: Side) -> Iterator[Said]:
    topic = side.topic()
    yield put(side, topic, batch(), transactional_id="t")
    yield put(side, topic, batch(), transactional_id="")


@unlike("a transaction is of a producer with an id; there are no rules of access to fail")
def transactions_without_a_producer(side: Side) -> Iterator[Said]:
    yield put(side, side.topic(), changed((ATTRIBUTES, 0x10)))
    yield put(side, side.topic(), changed((ATTRIBUTES, 0x10)), transactional_id="t")


@alike
def times(side: Side) -> Iterator[Said]:
    topic = side.topic()
    for at_ms in (0, NOW_MS - 400 * DAY_MS, NOW_MS + DAY_MS // 48):
        yield put(side, topic, batch(at_ms=at_ms))
    for first, last in ((-1, -1), (NOW_MS, NOW_MS + 9)):
        yield put(side, topic, changed((FIRST_TIME, first), (LAST_TIME, last)))


@unlike("a batch is stored as it came, so its times must not contradict each other")
def times_that_contradict_each_other(side: Side) -> Iterator[Said]:
    for first, last in ((NOW_MS, 0), (NOW_MS, -1), (-9, NOW_MS)):
        yield put(side, side.topic(), changed((FIRST_TIME, first), (LAST_TIME, last)))


@alike
def times_within_limits(side: Side) -> Iterator[Said]:
    for kind in ("CreateTime", "LogAppendTime"):
        topic = side.topic(
            message_timestamp_after_max_ms=str(DAY_MS),
            message_timestamp_before_max_ms=str(2 * DAY_MS),
            message_timestamp_type=kind,
        )
        for hours in (0, 23, 25, 400, -47, -49, -9000):
            yield kind, hours, put(side, topic, batch(at_ms=NOW_MS + hours * DAY_MS // 24))
        yield kind, "no time", put(side, topic, changed((FIRST_TIME, -1), (LAST_TIME, -1)))


@unlike("a topic has no message.timestamp.after.max.ms unless it is set, and there it is an hour")
def times_far_in_the_future(side: Side) -> Iterator[Said]:
    for days in (2, 400, 40_000):
        yield days, put(side, side.topic(), batch(at_ms=NOW_MS + days * DAY_MS))


@alike
def large_batches(side: Side) -> Iterator[Said]:
    topic = side.topic(max_message_bytes="2000")
    fits = 2000 - len(batch(size=500)) + 500
    for more in (-1, 0, 1, 1000):
        yield more, put(side, topic, batch(size=fits + more))
    yield "two", put(side, topic, batch(size=600) + batch(size=600))


@unlike("two batches are larger than one may be, which is seen first")
def two_large_batches(side: Side) -> Iterator[Said]:
    topic = side.topic(max_message_bytes="2000")
    yield put(side, topic, batch(size=1200) + batch(size=1200))


@alike
def keys_of_compacted_topics(side: Side) -> Iterator[Said]:
    for policy in ("compact", "compact,delete"):
        topic = side.topic(cleanup_policy=policy)
        yield put(side, topic, batch())
        yield put(side, topic, batch(3))
        yield put(side, topic, batch(key=b""))
        yield put(side, topic, batch(key=b"k"))


@alike
def nothing_is_said_without_acknowledgement(side: Side) -> Iterator[Said]:
    topic = side.topic()
    records = memoryview(batch())

    def body(acks: int) -> produce.ProduceRequest:
        data = produce.ProducePartition(0, records)
        return produce.ProduceRequest(
            None, acks, 1000, [produce.ProduceTopic(topic.id, topic.name, [data])]
        )

    with side.another() as peer:
        for _ in range(3):
            peer.send(request(produce.PRODUCE, produce.PRODUCE.last, body(0)))
        answer = peer.ask(produce.PRODUCE, produce.PRODUCE.last, body(1), produce.ProduceResponse)
        yield answer.responses[0].partition_responses[0].base_offset


@alike
def failing_without_acknowledgement(side: Side) -> Iterator[Said]:
    topic = side.topic()
    data = produce.ProducePartition(9, memoryview(batch()))
    body = produce.ProduceRequest(
        None, 0, 1000, [produce.ProduceTopic(topic.id, topic.name, [data])]
    )
    with side.another() as peer:
        peer.send(request(produce.PRODUCE, produce.PRODUCE.last, body))
        try:
            peer.ask(METADATA, METADATA.last, MetadataRequest([]), MetadataResponse)
        except (EOFError, ConnectionResetError, BrokenPipeError):
            yield "closed"
        else:
            yield "open"

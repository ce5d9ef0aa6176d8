"""Record batches that are wrong, over a real socket: refused by code, and nothing is stored."""

import struct
from collections.abc import Callable, Iterator

import pytest
from tests.heads.kafka.raw_peers import Healthy, Peer, fetching, produce, production, request
from tests.heads.server_process import Process

from mainstem.core import compression
from mainstem.core.batch import HEADER_SIZE, seal
from mainstem.core.event import Event
from mainstem.core.records import build
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages.fetch import FETCH, FetchResponse
from mainstem.kafka_protocol.messages.produce import (
    PRODUCE,
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
    ProduceTopic,
)
from mainstem.kafka_protocol.messages.topics import (
    CREATE_TOPICS,
    CreateConfig,
    CreateTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

LIMIT = 1_048_588


@pytest.fixture(scope="module")
def peer(shared: Process) -> Iterator[Peer]:
    with Peer(shared.address) as found:
        create(found, "plain")
        create(found, "compacted", ("cleanup.policy", "compact"))
        create(found, "deep", ("mainstem.validate", "deep"))
        yield found


def create(peer: Peer, name: str, *configs: tuple[str, str]) -> None:
    topic = CreateTopic(
        name, 1, 1, configs=tuple(CreateConfig(key, value) for key, value in configs)
    )
    answer = peer.ask(CREATE_TOPICS, 5, CreateTopicsRequest((topic,), 1000), CreateTopicsResponse)
    assert answer.topics[0].error_code == 0


def tail(peer: Peer, topic: str) -> int:
    answer = peer.ask(FETCH, 12, fetching(topic), FetchResponse)
    return answer.responses[0].partitions[0].high_watermark


def batch(count: int = 3, key: bytes | None = b"k", value: bytes = b"v") -> bytearray:
    return build([Event(value=value, key=key)] * count, now_ms=1)


def altered(position: int, layout: str, value: int, *, sealed: bool = True) -> bytearray:
    """Write a number into a batch that is right otherwise."""
    found = batch()
    struct.pack_into(layout, found, position, value)
    if sealed:
        seal(found)
    return found


def with_records(records: bytes, count: int = 1, codec: int = 0) -> bytearray:
    """Build a batch around records of one's own."""
    found = batch(1)[:HEADER_SIZE] + records
    struct.pack_into(">i", found, 8, len(found) - 12)
    struct.pack_into(">h", found, 21, codec)
    struct.pack_into(">i", found, 23, count - 1)
    struct.pack_into(">i", found, 57, count)
    seal(found)
    return found


CORRUPT, TOO_LARGE, INVALID = Code.CORRUPT_MESSAGE, Code.MESSAGE_TOO_LARGE, Code.INVALID_RECORD

refused: dict[str, tuple[bytearray | bytes, Code]] = {
    "wrong crc": (altered(17, ">I", 12345, sealed=False), CORRUPT),
    "magic 0": (altered(16, ">b", 0), INVALID),
    "magic 1": (altered(16, ">b", 1), INVALID),
    "magic 3": (altered(16, ">b", 3), CORRUPT),
    "batch length too long": (altered(8, ">i", 10**6, sealed=False), INVALID),
    "batch length too short": (altered(8, ">i", 50, sealed=False), CORRUPT),
    "batch length negative": (altered(8, ">i", -1, sealed=False), CORRUPT),
    "cut off": (batch()[:-1], INVALID),
    "header only": (batch()[:HEADER_SIZE], INVALID),
    "one byte": (b"\0", INVALID),
    "two batches": (batch() + batch(), INVALID),
    "no records": (altered(57, ">i", 0), INVALID),
    "-1 records": (altered(57, ">i", -1), INVALID),
    "2^31-1 records": (altered(57, ">i", 2**31 - 1), INVALID),
    "last offset delta not count - 1": (altered(23, ">i", 7), INVALID),
    "unknown codec": (altered(21, ">h", 7), INVALID),
    "control batch": (altered(21, ">h", 0x20), INVALID),
    "stamped by the log": (altered(21, ">h", 0x08), INVALID),
    "unknown attributes": (altered(21, ">h", 0x4000), INVALID),
    "transactional without a producer": (altered(21, ">h", 0x10), INVALID),
    "base timestamp -2": (altered(27, ">q", -2), INVALID),
    "smallest timestamp": (altered(27, ">q", -(2**63)), INVALID),
    "max timestamp before the first": (altered(35, ">q", 0), INVALID),
    "producer -2": (altered(43, ">q", -2), INVALID),
    "one byte over the limit": (batch(1, value=bytes(LIMIT - 72)), TOO_LARGE),
    "far over the limit": (batch(1, value=bytes(8 * LIMIT)), TOO_LARGE),
}


@pytest.mark.parametrize(("sent", "code"), refused.values(), ids=refused.keys())
def test_it_is_refused_and_nothing_is_stored(
    peer: Peer, healthy: Healthy, sent: bytes, code: Code
) -> None:
    before = tail(peer, "plain")

    produced = produce(peer, "plain", bytes(sent))

    assert Code(produced.error_code) is code
    assert produced.base_offset == -1
    assert produced.error_message
    assert tail(peer, "plain") == before
    healthy.check()


def bomb(codec: int, size: int = 1 << 30) -> bytes:
    """Return what unpacks to so many zeros, without ever holding them."""
    return bytes(compression.compress(codec, bytes(min(size, 64 << 20))))


# A record: length, attributes, timestamp delta, offset delta, key, value, headers.
RECORD = bytes([2 * 8, 0, 0, 0, 2, 0x6B, 2, 0x76, 0])

refused_deep: dict[str, Callable[[], bytearray]] = {
    "too few records": lambda: with_records(RECORD, 2),
    "too many records": lambda: with_records(RECORD * 2, 1),
    "record of length 0": lambda: with_records(b"\0"),
    "record past the end": lambda: with_records(b"\x7f" + RECORD[1:]),
    "record of length -1": lambda: with_records(b"\1"),
    "endless varint": lambda: with_records(b"\xff" * 20),
    "offset deltas not 0..n-1": lambda: with_records(RECORD[:3] + b"\x08" + RECORD[4:]),
    "key of length -2": lambda: with_records(RECORD[:4] + b"\x03" + RECORD[5:]),
    "value of length 2^31-1": lambda: with_records(
        b"\x18" + RECORD[1:6] + b"\xfe\xff\xff\xff\x0f" + b"v\0"
    ),
    "a million headers, none there": lambda: with_records(b"\x14" + RECORD[1:8] + b"\x80\x89\x7a"),
    "null header name": lambda: with_records(b"\x14" + RECORD[1:8] + b"\x02\x01\x01"),
    "timestamp over the maximum": lambda: with_records(b"\x10\0\x64" + RECORD[3:]),
    "gzip bit, plain body": lambda: with_records(RECORD, codec=1),
    "snappy bit, plain body": lambda: with_records(RECORD, codec=2),
    "lz4 bit, plain body": lambda: with_records(RECORD, codec=3),
    "zstd bit, plain body": lambda: with_records(RECORD, codec=4),
    "gzip cut off": lambda: with_records(bomb(1, 1000)[:-9], codec=1),
    "zstd cut off": lambda: with_records(bomb(4, 1000)[:-3], codec=4),
    "gzip bomb": lambda: with_records(bomb(1), codec=1),
    "lz4 bomb": lambda: with_records(bomb(3), codec=3),
    "zstd bomb": lambda: with_records(bomb(4), codec=4),
    "snappy that claims 4 GiB": lambda: with_records(b"\xff\xff\xff\xff\x0f" + b"\0a", codec=2),
    "zstd of a 2 GiB window": lambda: with_records(
        b"\x28\xb5\x2f\xfd\x00\xa8\x01\x00\x00", codec=4
    ),
}


@pytest.mark.parametrize("topic", ["compacted", "deep"])
@pytest.mark.parametrize("make", refused_deep.values(), ids=refused_deep.keys())
def test_where_records_are_looked_into_it_is_refused_within_bounded_memory(
    server: Process, peer: Peer, healthy: Healthy, make: Callable[[], bytearray], topic: str
) -> None:
    sent = make()
    assert len(sent) < LIMIT
    before = server.memory_mb()
    server.forget_peak()

    produced = produce(peer, topic, bytes(sent))

    assert Code(produced.error_code) is CORRUPT
    assert tail(peer, topic) == 0
    assert server.peak_mb() - before < 64
    healthy.check()


def test_an_event_without_a_key_is_refused_by_a_compacted_topic(peer: Peer) -> None:
    some = build([Event(b"a", b"k"), Event(b"b"), Event(b"c", b"k"), Event(b"d")], now_ms=1)

    produced = produce(peer, "compacted", bytes(some))

    assert Code(produced.error_code) is INVALID
    assert [each.batch_index for each in produced.record_errors] == [1, 3]
    assert "give every event one" in (produced.error_message or "")
    assert tail(peer, "compacted") == 0


accepted: dict[str, Callable[[], bytearray]] = {
    "at the limit": lambda: batch(1, value=bytes(LIMIT - 73)),
    "empty value": lambda: batch(1, value=b""),
    "bytes that are no text": lambda: batch(1, value=b"\0\n\r\xff\xed\xa0\x80"),
    "a pickle": lambda: batch(1, value=b"\x80\x04\x8c\x02os\x8c\x06system\x93."),
    "deep JSON": lambda: batch(1, value=b"[" * 100_000),
    "far future": lambda: altered(35, ">q", 2**62),
    "timestamp -1": lambda: build([Event(value=b"v")], now_ms=-1),
}


@pytest.mark.parametrize("make", accepted.values(), ids=accepted.keys())
def test_what_is_only_unusual_is_stored_as_it_came(
    peer: Peer, healthy: Healthy, make: Callable[[], bytearray]
) -> None:
    sent = make()
    assert len(sent) <= LIMIT

    produced = produce(peer, "plain", bytes(sent))
    answer = peer.ask(
        FETCH, 12, fetching("plain", produced.base_offset, max_bytes=1), FetchResponse
    )

    assert produced.error_code == 0
    stored = answer.responses[0].partitions[0].records
    assert isinstance(stored, memoryview)
    assert bytes(stored)[16:] == bytes(sent)[16:]
    healthy.check()


LAST = 2**31 - 1


def of_producer(producer_id: int, epoch: int, sequence: int, count: int = 1) -> bytes:
    return bytes(
        build(
            [Event(b"v")] * count,
            now_ms=1,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
        )
    )


IN_ORDER, OUT_OF_ORDER = Code.NONE, Code.OUT_OF_ORDER_SEQUENCE_NUMBER

sequences: dict[str, list[tuple[int, int, int, Code]]] = {
    "in a row": [(0, 0, 3, IN_ORDER), (0, 3, 1, IN_ORDER)],
    "a gap": [(0, 0, 3, IN_ORDER), (0, 4, 1, OUT_OF_ORDER), (0, 3, 1, IN_ORDER)],
    "back": [(0, 5, 3, IN_ORDER), (0, 2, 1, OUT_OF_ORDER)],
    "across the largest number": [(0, LAST - 1, 2, IN_ORDER), (0, 0, 1, IN_ORDER)],
    "beginning at the largest number": [(0, LAST, 3, IN_ORDER), (0, 2, 1, IN_ORDER)],
    "an epoch of the past": [(3, 0, 1, IN_ORDER), (2, 1, 1, Code.INVALID_PRODUCER_EPOCH)],
    "an epoch that does not begin": [(0, 0, 1, IN_ORDER), (1, 7, 1, OUT_OF_ORDER)],
    "the largest epoch": [(32767, 0, 1, IN_ORDER), (32767, 1, 1, IN_ORDER)],
    "an epoch that is none": [(-1, 0, 1, INVALID)],
    "a sequence that is none": [(0, -1, 1, INVALID)],
    "a negative sequence": [(0, -7, 1, INVALID)],
}


@pytest.mark.parametrize("steps", sequences.values(), ids=sequences.keys())
def test_batches_of_an_idempotent_producer_are_taken_in_their_order_only(
    peer: Peer, healthy: Healthy, steps: list[tuple[int, int, int, Code]]
) -> None:
    producer_id = 1000 + list(sequences.values()).index(steps)
    expected = tail(peer, "plain")
    for epoch, sequence, count, code in steps:
        produced = produce(peer, "plain", of_producer(producer_id, epoch, sequence, count))

        assert Code(produced.error_code) is code
        if code is Code.NONE:
            assert produced.base_offset == expected
            expected += count

    assert tail(peer, "plain") == expected
    healthy.check()


def test_a_batch_that_comes_again_is_answered_as_the_first_time(
    peer: Peer, healthy: Healthy
) -> None:
    batches = [of_producer(2000, 0, sequence) for sequence in range(5)]
    first = [produce(peer, "plain", each).base_offset for each in batches]

    again = [produce(peer, "plain", each).base_offset for each in batches]

    assert again == first
    assert tail(peer, "plain") == first[-1] + 1
    healthy.check()


@pytest.mark.parametrize("acks", [2, -2, 32767])
def test_acks_that_mean_nothing_are_refused(peer: Peer, acks: int) -> None:
    wish = production("plain", bytes(batch()), acks=acks)

    answer = peer.ask(PRODUCE, 9, wish, ProduceResponse)

    produced = answer.responses[0].partition_responses[0]
    assert Code(produced.error_code) is Code.INVALID_REQUIRED_ACKS


def test_one_refused_batch_does_not_take_the_others_with_it(peer: Peer) -> None:
    parts = (
        ProducePartition(0, memoryview(bytes(batch()))),
        ProducePartition(9, memoryview(bytes(batch()))),
        ProducePartition(-1, memoryview(bytes(batch()))),
        ProducePartition(1, None),
    )
    wish = ProduceRequest(None, -1, 1000, (ProduceTopic(name="plain", partition_data=parts),))

    answer = peer.ask(PRODUCE, 9, wish, ProduceResponse)

    codes = [Code(each.error_code) for each in answer.responses[0].partition_responses]
    unknown = Code.UNKNOWN_TOPIC_OR_PARTITION
    assert codes == [Code.NONE, unknown, unknown, INVALID]


def test_the_same_partition_twice_in_a_request_is_answered_twice(peer: Peer) -> None:
    part = ProducePartition(0, memoryview(bytes(batch(1))))
    wish = ProduceRequest(
        None, -1, 1000, (ProduceTopic(name="plain", partition_data=(part, part)),)
    )
    before = tail(peer, "plain")

    answer = peer.ask(PRODUCE, 9, wish, ProduceResponse)

    offsets = [each.base_offset for each in answer.responses[0].partition_responses]
    assert offsets == [before, before + 1]


@pytest.mark.parametrize("before", [0, 1, 2, 10])
def test_the_connection_of_a_batch_that_is_refused_with_acks_0_is_closed(
    server: Process, healthy: Healthy, before: int
) -> None:
    good = request(PRODUCE, 9, production("plain", bytes(batch(1)), acks=0))
    bad = production("plain", bytes(altered(17, ">I", 1, sealed=False)), acks=0)
    with Peer(server.address) as hostile:
        stored = tail(hostile, "plain")

        # Three in one read, behind some that taught the server what they look like.
        for _ in range(before):
            hostile.send(good)
        tail(hostile, "plain")
        hostile.send(good + request(PRODUCE, 9, bad) + good)

        assert hostile.is_cut_off()
    with Peer(server.address) as other:
        # What came before it is there; the last one may have come too late.
        assert tail(other, "plain") - stored - before in (1, 2)
    healthy.check()

"""Seeds for fuzzing: valid bytes, made by the real encoders."""

from collections.abc import Iterator
from decimal import Decimal

from tests.core.handmade_batches import CODECS, NOW_MS
from tests.faults.fuzzing.fuzz_targets import AMQP_OPENED, TOPIC
from tests.heads.amqp091.talking import publish_frames
from tests.kafka_protocol.values import EVERY_API, filled

from mainstem.core import compression
from mainstem.core.event import Event
from mainstem.core.records import build
from mainstem.heads.amqp091 import methods
from mainstem.heads.amqp091.codec import HEARTBEAT_FRAME, method_frame
from mainstem.heads.amqp091.fields import Binary, Table, Timestamp
from mainstem.heads.amqp091.properties import Properties, encode_properties
from mainstem.heads.conversation import Piece
from mainstem.heads.kafka.adapter.apis import SERVED
from mainstem.kafka_protocol.apis import APIS
from mainstem.kafka_protocol.client_codec import encode_request
from mainstem.kafka_protocol.fields import Wire
from mainstem.kafka_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from mainstem.kafka_protocol.messages.produce import (
    PRODUCE,
    ProducePartition,
    ProduceRequest,
    ProduceTopic,
)
from mainstem.kafka_protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    TransactionTopic,
    TxnCommitPartition,
    TxnCommitTopic,
    TxnOffsetCommitRequest,
)

NAME = "é".encode()
"""What ``filled`` puts wherever there is text."""


def seeds(target: str) -> list[bytes]:
    """Return what a target starts from."""
    return list(_SEEDS[target]())


def _requests() -> Iterator[bytes]:
    for api, version in EVERY_API:
        yield _frame(api.key, version, filled(api.request, version))[4:]
        yield _frame(api.key, version, api.request())[4:]


def _records() -> Iterator[bytes]:
    plain = [Event(b"value", b"key", (("name", b"header"), ("null", None)))]
    many = [Event(str(number).encode() * 9, None, (), NOW_MS + number) for number in range(5)]
    for codec in CODECS:
        for events in (plain, many):
            yield bytes(build(events, now_ms=NOW_MS, compression=codec))
            yield bytes(
                build(
                    events,
                    now_ms=NOW_MS,
                    compression=codec,
                    producer_id=7,
                    producer_epoch=1,
                    base_sequence=3,
                    transactional=True,
                )
            )


def _unpacking() -> Iterator[bytes]:
    for codec in range(len(CODECS)):
        for data in (b"", b"a", b"abc" * 50, bytes(range(256)), bytes(4096)):
            yield bytes([codec]) + bytes(compression.compress(codec, data))


def _conversations() -> Iterator[bytes]:
    yield from (
        _frame(api.key, version, filled(api.request, version)).replace(NAME, TOPIC.encode())
        for api, version in EVERY_API
        if api.key in SERVED and SERVED[api.key].first <= version <= SERVED[api.key].last
    )
    for version in (3, 9, 12):
        yield _produced(version, transactional=False)
    for rules in ((0, 0, 0, 0, 0, 3, 4), (5, 3, 4, 5, 5, 12, 12)):
        yield _transaction(*rules)


def _produced(version: int, *, transactional: bool) -> bytes:
    first = 0 if transactional else -1
    batch = build(
        [Event(b"value", b"key")],
        now_ms=NOW_MS,
        producer_id=first,
        producer_epoch=first,
        base_sequence=first,
        transactional=transactional,
    )
    topic = ProduceTopic(name=TOPIC, partition_data=(ProducePartition(7, bytes(batch)),))
    name = TOPIC if transactional else None
    return _frame(PRODUCE.key, version, ProduceRequest(name, -1, 1000, (topic,)))


def _transaction(
    init: int, add: int, offsets: int, commit: int, end: int, produce: int, fetch: int
) -> bytes:
    """Return all that is said in a transaction of the first producer, and what is read then."""
    cursor = TxnCommitTopic(TOPIC, (TxnCommitPartition(7, 1),))
    wanted = FetchTopic(topic=TOPIC, partitions=(FetchPartition(7, partition_max_bytes=1000),))
    return b"".join(
        (
            _frame(22, init, InitProducerIdRequest(TOPIC, 60_000)),
            _frame(
                24,
                add,
                AddPartitionsToTxnRequest(
                    v3_and_below_transactional_id=TOPIC,
                    v3_and_below_topics=(TransactionTopic(TOPIC, (7,)),),
                ),
            ),
            _produced(produce, transactional=True),
            _frame(25, offsets, AddOffsetsToTxnRequest(TOPIC, group_id=TOPIC)),
            _frame(28, commit, TxnOffsetCommitRequest(TOPIC, TOPIC, topics=(cursor,))),
            _frame(26, end, EndTxnRequest(TOPIC, committed=True)),
            _frame(1, fetch, FetchRequest(isolation_level=1, topics=(wanted,))),
        )
    )


def _frame(key: int, version: int, body: Wire) -> bytes:
    return b"".join(map(_bytes, encode_request(APIS[key], version, 7, "me", body)))


def _amqp() -> Iterator[bytes]:
    table: Table = {
        "t": True,
        "i": -1,
        "l": 2**40,
        "d": 0.5,
        "D": Decimal("1.23"),
        "S": "text",
        "x": Binary(b"\xff"),
        "T": Timestamp(1),
        "A": [1, None, {"F": {}}],
    }
    properties = encode_properties(
        Properties(content_type="text/plain", headers=table, delivery_mode=2, timestamp=1)
    )
    message = b"".join(publish_frames(1, "q", b"body", properties))
    yield AMQP_OPENED + message
    yield message * 2 + b"".join(publish_frames(2, "q", b"longer", part_bytes=2))
    yield method_frame(1, methods.QueueDeclare(queue="q", arguments=table))
    yield b"".join(
        (
            method_frame(1, methods.BasicAck(1, True)),
            method_frame(1, methods.BasicNack(2)),
            method_frame(1, methods.BasicReject(3)),
            HEARTBEAT_FRAME,
            *publish_frames(1, "q", b""),
        )
    )
    for method in methods.METHODS.values():
        yield method_frame(1, method()) + method_frame(0, method())
    for bare in methods.Bare:
        yield method_frame(1, bare) + method_frame(0, bare)


def _bytes(piece: Piece) -> bytes:
    assert isinstance(piece, bytes | bytearray | memoryview)
    return bytes(piece)


_SEEDS = {
    "requests": _requests,
    "records": _records,
    "unpacking": _unpacking,
    "conversations": _conversations,
    "amqp": _amqp,
}

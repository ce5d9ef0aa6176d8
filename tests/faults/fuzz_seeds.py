"""Where fuzzing begins: bytes that are right, made by the real encoders."""

from collections.abc import Iterator

from tests.core.making import CODECS, NOW_MS
from tests.faults.fuzz_targets import TOPIC
from tests.heads.kafka.values import EVERY_API, filled

from mainstem.core import compression
from mainstem.core.event import Event
from mainstem.core.records import build
from mainstem.heads.kafka.adapter.table import SERVED
from mainstem.heads.kafka.codec import encode_request
from mainstem.heads.kafka.fields import Wire
from mainstem.heads.kafka.messages.produce import (
    PRODUCE,
    ProducePartition,
    ProduceRequest,
    ProduceTopic,
)
from mainstem.heads.shape import Piece

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
    every = [
        _frame(api.key, version, filled(api.request, version)).replace(NAME, TOPIC.encode())
        for api, version in EVERY_API
        if api.key in SERVED and SERVED[api.key].first <= version <= SERVED[api.key].last
    ]
    yield from every
    for version in (3, 9, 12):
        batch = bytes(build([Event(b"value", b"key")], now_ms=NOW_MS))
        partition = ProducePartition(index=7, records=batch)
        topic = ProduceTopic(name=TOPIC, partition_data=(partition,))
        body = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=(topic,))
        produced = _frame(PRODUCE.key, version, body)
        yield produced
        yield produced + every[-1] + produced


def _frame(key: int, version: int, body: Wire) -> bytes:
    return b"".join(map(_bytes, encode_request(key, version, 7, "me", body)))


def _bytes(piece: Piece) -> bytes:
    assert isinstance(piece, bytes | bytearray | memoryview)
    return bytes(piece)


_SEEDS = {
    "requests": _requests,
    "records": _records,
    "unpacking": _unpacking,
    "conversations": _conversations,
}

"""Record batches with nothing wrong about them, or one thing, and how they are produced."""

import struct
import time

from tests.heads.kafka.parity.compared_server import Said, Side, Topic, word

from mainstem.core.batch import seal
from mainstem.core.event import Event
from mainstem.core.records import build
from mainstem.kafka_protocol.messages.produce import (
    PRODUCE,
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
    ProduceTopic,
)

NOBODY = bytes(15) + b"\x07"
"""An id that no topic has."""
BY_NAME = 12
"""The last version that has names of topics."""
NOW_MS = time.time_ns() // 1_000_000
DAY_MS = 86_400_000
# Where the fields of a record batch are, and how they are written.
BASE, LENGTH, EPOCH, MAGIC, CRC = (0, ">q"), (8, ">i"), (12, ">i"), (16, ">b"), (17, ">I")
ATTRIBUTES, LAST_DELTA, FIRST_TIME, LAST_TIME = (21, ">h"), (23, ">i"), (27, ">q"), (35, ">q")
PRODUCER, PRODUCER_EPOCH, SEQUENCE, COUNT = (43, ">q"), (51, ">h"), (53, ">i"), (57, ">i")
Place = tuple[int, str]


def batch(count: int = 1, *, size: int = 1, key: bytes | None = None, at_ms: int = NOW_MS) -> bytes:
    """Return a record batch with nothing wrong about it."""
    return bytes(build([Event(b"x" * size, key=key)] * count, now_ms=at_ms))


def changed(*fields: tuple[Place, int], of: bytes | None = None, sealed: bool = True) -> bytes:
    """Return a record batch of two with some fields changed, and a checksum that fits them."""
    found = bytearray(batch(2) if of is None else of)
    for (at, form), value in fields:
        struct.pack_into(form, found, at, value)
    if sealed:
        seal(found)
    return bytes(found)


def put(
    side: Side,
    topic: Topic,
    records: bytes,
    *,
    partition: int = 0,
    acks: int = -1,
    version: int = PRODUCE.last,
    transactional_id: str | None = None,
) -> Said:
    """Produce on a connection of its own, which a server may close."""
    data = ProducePartition(partition, memoryview(records))
    body = ProduceRequest(
        transactional_id, acks, 10_000, [ProduceTopic(topic.id, topic.name, [data])]
    )
    with side.another() as peer:
        try:
            answer = peer.ask(PRODUCE, version, body, ProduceResponse)
        except (EOFError, ConnectionResetError):
            return "closed"
    (found,) = answer.responses[0].partition_responses
    which = [each.batch_index for each in found.record_errors]
    if found.error_code:
        return word(found.error_code), found.base_offset, which
    return found.base_offset, found.log_start_offset

"""Reads a range through librdkafka, event by event: for brokers with TLS or authentication."""

from collections.abc import Iterator
from typing import cast

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from mainstem.core.errors import OffsetOutOfRange, Unreachable
from mainstem.core.event import Headers
from mainstem.remote.arrow.range import Range
from mainstem.remote.arrow.schema import ARROW
from mainstem.remote.cluster import Cluster
from mainstem.remote.errors import GONE, core_error

_NO_TIME, _LOG_APPEND_TIME = 0, 2
_TURN_S = 0.5


def consume(cluster: Cluster, wanted: Range, batch_rows: int) -> Iterator[pa.RecordBatch]:
    """Read the committed events of an offset range, up to a position at or past its end."""
    consumer = Consumer(
        cluster.reader_config(
            auto_offset_reset="error",
            isolation_level="read_committed",
            fetch_message_max_bytes=8 << 20,
            queued_max_messages_kbytes=64 << 10,
        )
    )
    try:
        consumer.assign([TopicPartition(wanted.topic, wanted.partition, wanted.start)])
        yield from _batches(consumer, cluster, wanted, batch_rows)
    finally:
        consumer.close()


def _batches(
    consumer: Consumer, cluster: Cluster, wanted: Range, batch_rows: int
) -> Iterator[pa.RecordBatch]:
    position, silent_s = wanted.start, 0.0
    while position < wanted.end:
        try:
            taken = consumer.consume(batch_rows, _TURN_S)
        except KafkaException as error:
            raise cluster.refusal(error, topic=wanted.topic, partition=wanted.partition) from None
        silent_s = 0.0 if taken else silent_s + _TURN_S
        if silent_s > cluster.timeout_s:
            raise Unreachable(cluster.address, f"no response within {cluster.timeout_s:g} s")
        events: list[Message] = []
        for message in taken:
            trouble = message.error()
            if trouble is not None:
                position = max(position, _position_told(trouble, message, cluster, wanted))
                continue
            offset = message.offset() or 0
            position = offset + 1
            if offset < wanted.end:
                events.append(message)
        if events:
            yield _record_batch(events, wanted)


def _position_told(error: KafkaError, message: Message, cluster: Cluster, wanted: Range) -> int:
    """Return the position in an end-of-partition message; -1 for a transient error.

    Other errors are raised.
    """
    if error.code() == KafkaError._PARTITION_EOF:
        return message.offset() or 0
    if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
        where = f"partition {wanted.partition} of topic {wanted.topic!r}"
        raise OffsetOutOfRange(where, wanted.start, -1, -1)
    if error.retriable() or error.code() in GONE:
        return -1
    raise core_error(error, cluster.address, topic=wanted.topic, partition=wanted.partition)


def _record_batch(events: list[Message], wanted: Range) -> pa.RecordBatch:
    count = len(events)
    times = [event.timestamp() for event in events]
    headers = [
        [{"key": name, "value": value} for name, value in cast("Headers", event.headers() or ())]
        for event in events
    ]
    stamps = pa.array(
        [None if kind == _NO_TIME or time_ms < 0 else time_ms for kind, time_ms in times],
        pa.timestamp("ms", tz="UTC"),
    )
    columns = [
        pa.array([event.key() for event in events], pa.binary()),
        pa.array([event.value() for event in events], pa.binary()),
        pa.repeat(pa.scalar(wanted.topic, pa.string()), count),
        pa.repeat(pa.scalar(wanted.partition, pa.int32()), count),
        pa.array([event.offset() for event in events], pa.int64()),
        stamps.cast(ARROW.field("timestamp").type),
        pa.array([int(kind == _LOG_APPEND_TIME) for kind, _ in times], pa.int32()),
        pa.array(headers, ARROW.field("headers").type),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=ARROW)

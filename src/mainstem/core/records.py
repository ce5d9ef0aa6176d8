"""Events as record batches, and record batches as events.

``build`` and ``build_one`` build batches; ``events`` and ``keys`` read stored ones;
``check_records`` is the deep check of a producer's batch; ``packed`` changes the compression of a
batch; ``retain`` removes events for compaction. ``record_parser`` parses records of untrusted
bytes.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

from mainstem.core import compression as codecs
from mainstem.core.batch import (
    CHECKED,
    CHECKED_FROM,
    CODEC_MASK,
    HEADER,
    HEADER_SIZE,
    LENGTH_BEFORE,
    MAGIC,
    TRANSACTIONAL,
    UNCHECKED,
    BatchHeader,
    Buffer,
    read_whole,
    seal,
    set_size,
)
from mainstem.core.checksum import crc32c
from mainstem.core.errors import CorruptBatch, InvalidEvent
from mainstem.core.event import NO_TIMESTAMP, Event, Headers
from mainstem.core.record_parser import MAX_HEADERS, unpack, walk
from mainstem.core.varint import unsigned_varint

_MAX_INT32 = 2**31 - 1
_MAX_INT64 = 2**63 - 1


def _varint(number: int) -> bytes:
    """Encode a number as a zigzag varint."""
    return unsigned_varint(number << 1 if number >= 0 else ~(number << 1))


_CACHED = 2048
_VARINTS = tuple(_varint(number) for number in range(_CACHED))
_ABSENT = _varint(-1)
_NO_HEADER = bytes(HEADER_SIZE)
_LARGE_BYTES = 64 * 1024
"""Values of this size or more are copied as rarely as possible."""


def build(
    events: Sequence[Event],
    *,
    now_ms: int,
    compression: str = "none",
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
) -> bytearray:
    """Build one record batch of events; events without a timestamp get ``now_ms``."""
    if not events:
        raise InvalidEvent("a record batch needs at least one event")
    codec = codecs.number(compression)
    first = events[0].timestamp_ms
    if first < 0:
        first = _timestamp(first, now_ms)
    top, parts = _encode(events, first, now_ms)
    if top > _MAX_INT64:
        _timestamp(top, now_ms)
    # Copied only one time, as events may be large.
    batch = bytearray().join(parts)
    if codec:
        batch[HEADER_SIZE:] = codecs.compress(codec, batch[HEADER_SIZE:])
    count, length = len(events), len(batch) - LENGTH_BEFORE
    if length > _MAX_INT32:
        raise InvalidEvent(f"{count} events of {length} bytes are too large for one record batch")
    attributes = codec | TRANSACTIONAL if transactional else codec
    times, producer = (first, top), (producer_id, producer_epoch, base_sequence)
    last = count - 1
    HEADER.pack_into(batch, 0, 0, length, -1, MAGIC, 0, attributes, last, *times, *producer, count)
    seal(batch)
    return batch


def build_one(event: Event, now_ms: int) -> bytearray:
    """Build a record batch of one event, the common case, in half the time of ``build``."""
    if event.value is not None and len(event.value) > _LARGE_BYTES:
        return build((event,), now_ms=now_ms)
    timestamp = event.timestamp_ms
    if not 0 <= timestamp <= _MAX_INT64:
        timestamp = _timestamp(timestamp, now_ms)
    checked = CHECKED.pack(0, 0, timestamp, timestamp, -1, -1, -1, 1) + _encode_one(event)
    length = CHECKED_FROM - LENGTH_BEFORE + len(checked)
    if length > _MAX_INT32:
        raise InvalidEvent(f"an event of {length} bytes is too large for a record batch")
    return bytearray().join((UNCHECKED.pack(0, length, -1, MAGIC, crc32c(checked)), checked))


def _encode_one(event: Event) -> bytes:
    """Encode the only record of a batch: both its deltas are 0."""
    key, value, headers = event.key, event.value, event.headers
    if key is None:
        key_length, key = _ABSENT, b""
    else:
        size = len(key)
        key_length = _VARINTS[size] if size < _CACHED else _varint(size)
    if value is None:
        value_length, value = _ABSENT, b""
    else:
        size = len(value)
        value_length = _VARINTS[size] if size < _CACHED else _varint(size)
    end = _encode_headers(headers) if headers else b"\x00"
    size = 3 + len(key_length) + len(key) + len(value_length) + len(value) + len(end)
    length = _VARINTS[size] if size < _CACHED else _varint(size)
    return b"".join((length, b"\x00\x00\x00", key_length, key, value_length, value, end))


def _encode(events: Sequence[Event], first: int, now_ms: int) -> tuple[int, list[bytes]]:
    """Return the max timestamp, and all encoded records, preceded by space for the header."""
    varints, parts = _VARINTS, [_NO_HEADER]
    top, previous, since = first, events[0].timestamp_ms, b"\x00"
    for delta, event in enumerate(events):
        key, value, headers, timestamp = event.key, event.value, event.headers, event.timestamp_ms
        if timestamp != previous:
            previous = timestamp
            if timestamp < 0:
                timestamp = _timestamp(timestamp, now_ms)
            if timestamp > top:  # noqa: PLR1730 - max() takes three times as long
                top = timestamp
            size = timestamp - first
            since = varints[size] if 0 <= size < _CACHED else _varint(size)
        if key is None:
            key_length, key = _ABSENT, b""
        else:
            size = len(key)
            key_length = varints[size] if size < _CACHED else _varint(size)
        if value is None:
            value_length, value = _ABSENT, b""
        else:
            size = len(value)
            value_length = varints[size] if size < _CACHED else _varint(size)
        at = varints[delta] if delta < _CACHED else _varint(delta)
        end = _encode_headers(headers) if headers else b"\x00"
        size = len(since) + len(at) + len(key_length) + len(key) + len(value_length) + len(value)
        size += 1 + len(end)
        length = varints[size] if size < _CACHED else _varint(size)
        parts += (length, b"\x00", since, at, key_length, key, value_length, value, end)
    return top, parts


def _timestamp(timestamp_ms: int, now_ms: int) -> int:
    """Return an event's timestamp, or ``now_ms`` if it has none; refuses invalid ones."""
    if timestamp_ms == NO_TIMESTAMP:
        return now_ms
    raise InvalidEvent(f"timestamp {timestamp_ms} ms: it must be 0 to {_MAX_INT64}")


def _encode_headers(headers: Headers) -> bytes:
    if len(headers) > MAX_HEADERS:
        raise InvalidEvent(f"{len(headers)} headers on one event; at most {MAX_HEADERS} are kept")
    parts = [_varint(len(headers))]
    for name, value in headers:
        # Only short names are cached, to bound the cache.
        parts.append(_cached_name(name) if len(name) <= 64 else _encode_name(name))
        if value is None:
            parts.append(_ABSENT)
        else:
            size = len(value)
            parts += (_VARINTS[size] if size < _CACHED else _varint(size), value)
    return b"".join(parts)


def _encode_name(name: str) -> bytes:
    try:
        key = name.encode()
    except UnicodeEncodeError:
        raise InvalidEvent(f"header name {name!r:.100} cannot be written as UTF-8") from None
    return _varint(len(key)) + key


_cached_name = lru_cache(maxsize=512)(_encode_name)


def events(
    batch: Buffer,
    *,
    topic: str = "",
    partition: int = -1,
    from_offset: int = 0,
    max_bytes: int | None = None,
) -> Iterator[Event]:
    """Return the events of one batch, in order, from an offset on; a control batch has none.

    The checksum is checked before this returns; a damaged record raises CorruptBatch when the
    iterator reaches it. ``max_bytes`` limits the uncompressed size.
    """
    header = read_whole(batch)
    if header.is_control:
        return iter(())
    data, start = unpack(header, batch, max_bytes)
    return (
        Event(value, key, headers, timestamp_ms, topic, partition, offset)
        for offset, timestamp_ms, key, value, headers, _, _ in walk(header, data, start)
        if offset >= from_offset
    )


def keys(
    batch: Buffer, *, max_bytes: int | None = None
) -> Iterator[tuple[int, bytes | None, bool, int]]:
    """Yield offset, key, whether there is a value, and timestamp of every event of a batch."""
    header = read_whole(batch)
    if header.is_control:
        return iter(())
    data, start = unpack(header, batch, max_bytes)
    return (
        (offset, key, value is not None, timestamp_ms)
        for offset, timestamp_ms, key, value, _, _, _ in walk(header, data, start)
    )


def check_records(
    batch: Buffer, *, max_bytes: int | None = None, needs_keys: bool = False
) -> list[int]:
    """Check every record of a batch from a producer, and return their timestamps.

    Raises InvalidEvent if ``needs_keys`` and some have no key.
    """
    header = read_whole(batch)
    data, start = unpack(header, batch, max_bytes)
    records = walk(header, data, start, "strict")
    keyless: list[int] = []
    times: list[int] = []
    for delta, (offset, timestamp_ms, key, _, _, _, _) in enumerate(records):
        if offset - header.base_offset != delta:
            raise CorruptBatch(
                f"record {delta} of the batch has offset delta {offset - header.base_offset}"
            )
        if timestamp_ms > header.max_timestamp:
            raise CorruptBatch(
                f"record {delta} of the batch has timestamp {timestamp_ms}, "
                f"over the batch's max timestamp {header.max_timestamp}"
            )
        times.append(timestamp_ms)
        if needs_keys and key is None:
            keyless.append(delta)
    if keyless:
        raise InvalidEvent(
            f"event {keyless[0]} of the batch has no key, and the topic is compacted by key: "
            "give every event one",
            keyless,
        )
    return times


def packed(batch: Buffer, compression: str, *, max_bytes: int | None = None) -> bytearray:
    """Return the batch with its records compressed by another codec."""
    header = read_whole(batch)
    data, start = unpack(header, batch, max_bytes)
    codec = codecs.number(compression)
    body = codecs.compress(codec, memoryview(data)[start:])
    remade = bytearray().join((memoryview(batch)[:HEADER_SIZE], body))
    set_size(remade, codec)
    return remade


def retain(
    batch: Buffer,
    keep: Callable[[int, bytes | None, bool], bool],
    *,
    max_bytes: int | None = None,
) -> Buffer | None:
    """Return the batch with only the events for which ``keep(offset, key, has_value)`` is true.

    Offsets, producer and compression stay unchanged. Returns the batch itself if all events are
    kept (always for a control batch), None if none is kept.
    """
    header = read_whole(batch)
    if header.is_control:
        return batch
    data, start = unpack(header, batch, max_bytes)
    parts, top = list[bytes](), NO_TIMESTAMP
    for offset, timestamp_ms, key, value, _, begin, end in walk(header, data, start):
        if keep(offset, key, value is not None):
            parts.append(data[begin:end])
            top = max(top, timestamp_ms)
    if len(parts) == header.count:
        return batch
    return _thinned(header, parts, top) if parts else None


def emptied(batch: Buffer, now_ms: int) -> bytearray:
    """Return the batch without its events; its header keeps the producer's sequence numbers.

    Its base timestamp, otherwise meaningless without events, is the time at which they were
    removed.
    """
    header = read_whole(batch)
    attributes = header.attributes & ~CODEC_MASK
    plain = header._replace(attributes=attributes, base_timestamp=now_ms)
    return _thinned(plain, [], header.max_timestamp)


def _thinned(header: BatchHeader, parts: list[bytes], max_timestamp: int) -> bytearray:
    body = codecs.compress(header.codec, b"".join(parts))
    length = HEADER_SIZE - LENGTH_BEFORE + len(body)
    base_offset, _, epoch, _, attributes, delta, first, _, *producer, _ = header
    head = HEADER.pack(
        *(base_offset, length, epoch, MAGIC, 0, attributes, delta, first, max_timestamp),
        *(*producer, len(parts)),
    )
    batch = bytearray().join((head, body))
    seal(batch)
    return batch

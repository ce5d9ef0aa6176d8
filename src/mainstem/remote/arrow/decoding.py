"""Decodes record batches into Arrow arrays, without a Python object per event.

How this works: the records of many batches are concatenated into one buffer. First the start of
each record is found (``record_starts.py``). Then numpy reads every field for all records at once:
varints byte by byte, for as many rounds as the longest one has bytes.

Keys and values are not copied one by one. Their starts and ends increase through the buffer, so
they are the offsets of an Arrow binary array whose elements are, in turn, a key, the bytes between,
a value, the bytes between; every fourth element is a key, or a value.

The bytes are not trusted: each record must end where its length says, else CorruptBatch is raised.

If only offsets are wanted, and a batch has as many records as offsets, its header tells them all:
its records are not even uncompressed.
"""

from array import array
from collections.abc import Iterable, Iterator

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mainstem.core.batch import HEADER_SIZE, BatchHeader, checksum_matches, read_header
from mainstem.core.errors import CorruptBatch
from mainstem.core.event import NO_TIMESTAMP
from mainstem.core.record_parser import unpack, walk
from mainstem.remote.arrow.record_starts import add_starts, damaged
from mainstem.remote.arrow.schema import ARROW, HEADERS

Numbers = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Part = bytes | memoryview
"""The bytes of all records of one batch."""

_LATEST_MS = (2**63 - 1) // 1000
_SPARE = bytes(16)
"""Padding, so that a varint that is cut off at the end can be read; the cut is detected later."""
ALL = frozenset(ARROW.names)
_BY_HEADER = frozenset({"topic", "partition", "offset"})
"""The columns that the headers of batches tell."""
AT_ONCE_BYTES = 4 << 20
"""Bytes decoded at once: enough for numpy to be fast, little enough for memory."""
_AT_ONCE_ROWS = 100_000


class Columns(msgspec.Struct, frozen=True):
    """The fields of many records, one array for each field."""

    offsets: Numbers
    timestamps_ms: Numbers
    appended: Numbers
    """For each record: 1 if the log set the timestamp, 0 if the producer did."""
    keys: pa.Array | None
    values: pa.Array | None
    headers: pa.Array | None


def record_batches(
    batches: Iterable[memoryview],
    topic: str,
    partition: int,
    start: int,
    end: int,
    columns: frozenset[str] = ALL,
) -> Iterator[pa.RecordBatch]:
    """Return the events in an offset range as Arrow batches of some megabytes each."""
    if columns <= _BY_HEADER:
        yield from _by_header(batches, topic, partition, start, end, columns)
        return
    for heads, parts in _unpacked(batches, start, end):
        found = _decoded(heads, parts, columns)
        if found is None:
            continue
        first, last = np.searchsorted(found.offsets, [start, end])
        if first < last:
            table = _table(found, topic, partition, columns)
            yield table.slice(first, last - first)


def _by_header(
    batches: Iterable[memoryview],
    topic: str,
    partition: int,
    start: int,
    end: int,
    columns: frozenset[str],
) -> Iterator[pa.RecordBatch]:
    """Return the offsets of events as Arrow batches, one for each run of batches without gaps."""
    first = after = start
    for batch in batches:
        header = read_header(batch)
        if header.last_offset < start or header.base_offset >= end:
            continue
        _check(header, batch)
        if header.count != header.last_offset_delta + 1:
            # Compacted: the records tell which offsets are left.
            yield from _offsets(first, after, topic, partition, columns)
            first = after = min(header.last_offset + 1, end)
            for heads, parts in _unpacked([batch], start, end):
                found = _decoded(heads, parts, columns)
                if found is not None:
                    low, high = np.searchsorted(found.offsets, [start, end])
                    yield _table(found, topic, partition, columns).slice(low, high - low)
            continue
        if header.base_offset > after:
            yield from _offsets(first, after, topic, partition, columns)
            first = header.base_offset
        after = min(header.last_offset + 1, end)
    yield from _offsets(first, after, topic, partition, columns)


def _offsets(
    first: int, after: int, topic: str, partition: int, columns: frozenset[str]
) -> Iterator[pa.RecordBatch]:
    """Return Arrow batches with a row for each offset of a range."""
    for low in range(first, after, _AT_ONCE_ROWS):
        offsets = np.arange(low, min(low + _AT_ONCE_ROWS, after), dtype=np.int64)
        zeros = np.zeros_like(offsets)
        yield _table(Columns(offsets, zeros, zeros, None, None, None), topic, partition, columns)


def _check(header: BatchHeader, batch: memoryview) -> None:
    if not checksum_matches(batch, 0, header.size):
        raise CorruptBatch(f"the batch at offset {header.base_offset} has a wrong CRC")


def _unpacked(
    batches: Iterable[memoryview], start: int, end: int
) -> Iterator[tuple[list[BatchHeader], list[Part]]]:
    """Yield uncompressed records of the batches in a range, in groups to be decoded at once."""
    heads, parts, size = list[BatchHeader](), list[Part](), 0
    for batch in batches:
        header = read_header(batch)
        if header.last_offset < start or header.base_offset >= end:
            continue
        _check(header, batch)
        heads.append(header)
        parts.append(unpack(header, batch, None)[0] if header.codec else batch[HEADER_SIZE:])
        size += len(parts[-1])
        if size >= AT_ONCE_BYTES:
            yield heads, parts
            heads, parts, size = [], [], 0
    if heads:
        yield heads, parts


def _decoded(
    heads: list[BatchHeader], parts: list[Part], columns: frozenset[str]
) -> Columns | None:
    """Decode the records of batches into columns; None if there are no records."""
    data = b"".join((*parts, _SPARE))
    starts, at = array("q"), 0
    for header, part in zip(heads, parts, strict=True):
        add_starts(header, data, at, at + len(part), starts)
        at += len(part)
    if not starts:
        return None
    return _columns(heads, parts, data, np.frombuffer(starts, np.int64), columns)


def _table(found: Columns, topic: str, partition: int, names: frozenset[str]) -> pa.RecordBatch:
    count = len(found.offsets)
    # Without a time, or one that does not fit into Spark's microseconds.
    timeless = (found.timestamps_ms < 0) | (found.timestamps_ms > _LATEST_MS)
    stamps = pa.array(found.timestamps_ms * 1000, mask=timeless if timeless.any() else None)
    columns = {
        "key": found.keys,
        "value": found.values,
        "topic": pa.repeat(pa.scalar(topic, pa.string()), count),
        "partition": pa.repeat(pa.scalar(partition, pa.int32()), count),
        "offset": pa.array(found.offsets),
        "timestamp": stamps.view(ARROW.field("timestamp").type),
        "timestampType": pa.array(found.appended.astype(np.int32)),
        "headers": found.headers,
    }
    schema = ARROW if names is ALL else pa.schema([each for each in ARROW if each.name in names])
    return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)


def _columns(
    heads: list[BatchHeader],
    parts: list[Part],
    data: bytes,
    starts: Numbers,
    names: frozenset[str],
) -> Columns:
    raw = np.frombuffer(data, np.uint8)
    counts = [header.count for header in heads]

    def spread(values: Iterable[int]) -> Numbers:
        return np.repeat(np.fromiter(values, np.int64, len(heads)), counts)

    length, at = _varints(raw, starts)
    stops = at + length
    delta_ms, at = _varints(raw, at + 1)
    delta, at = _varints(raw, at)
    key_size, key_at = _varints(raw, at)
    # A wrong length points past the end; then the record does not end where it should.
    key_end = key_at + np.clip(key_size, 0, len(data))
    value_size, value_at = _varints(raw, key_end)
    value_end = value_at + np.clip(value_size, 0, len(data))
    header_count, at = _varints(raw, value_end)
    plain = header_count == 0
    offsets = spread(header.base_offset for header in heads) + delta
    wrong = (length < 0) | (delta < 0) | (key_size < -1) | (value_size < -1)
    wrong |= (delta > spread(header.last_offset_delta for header in heads)) | (at > stops)
    wrong |= plain & (at != stops)
    wrong[1:] |= np.diff(offsets) <= 0
    appended = spread(header.log_append_time for header in heads)
    stamps = spread(
        header.max_timestamp if header.log_append_time else header.base_timestamp
        for header in heads
    )
    stamps += np.where(appended, 0, delta_ms)
    wrong |= (stamps < NO_TIMESTAMP) & (appended == 0)
    if wrong.any():
        raise damaged(heads[int(np.searchsorted(np.cumsum(counts), np.argmax(wrong), "right"))])
    edges = np.empty(4 * len(starts), np.int32)
    edges[0::4], edges[1::4], edges[2::4], edges[3::4] = key_at, key_end, value_at, value_end
    pieces = pa.Array.from_buffers(
        pa.binary(), len(edges) - 1, [None, pa.py_buffer(edges), pa.py_buffer(data)]
    )
    headers = None
    if "headers" in names:
        headers = _no_headers(len(starts)) if plain.all() else _headers(heads, parts)
    return Columns(
        offsets,
        stamps,
        appended,
        _cut(pieces, 0, key_size) if "key" in names else None,
        _cut(pieces, 2, value_size) if "value" in names else None,
        headers,
    )


def _varints(raw: Bytes, at: Numbers) -> tuple[Numbers, Numbers]:
    """Decode the zigzag varints at positions; return them and the positions after them."""
    byte = raw.take(at, mode="clip")
    value = (byte & 127).astype(np.int64)
    after = at + 1
    (rest,) = np.nonzero(byte > 127)
    shift = 7
    while rest.size and shift < 70:
        byte = raw.take(after[rest], mode="clip")
        value[rest] |= (byte & 127).astype(np.int64) << shift
        after[rest] += 1
        rest = rest[byte > 127]
        shift += 7
    # The shift keeps the sign that a number of ten bytes has reached.
    return (value >> 1 & 0x7FFF_FFFF_FFFF_FFFF) ^ -(value & 1), after


def _cut(pieces: pa.Array, first: int, sizes: Numbers) -> pa.Array:
    """Return every fourth piece from ``first`` on; null where the size is -1."""
    wanted = np.arange(first, 4 * len(sizes) + first, 4, dtype=np.int64)
    absent = sizes < 0
    return pieces.take(pa.array(wanted, mask=absent if absent.any() else None))


def _no_headers(count: int) -> pa.Array:
    return pa.ListArray.from_arrays(
        pa.array(np.zeros(count + 1, np.int32)), pa.array([], HEADERS.value_type)
    )


def _headers(heads: list[BatchHeader], parts: list[Part]) -> pa.Array:
    """Decode the headers of all records one by one, because few records have headers."""
    found = [
        record[4]
        for header, part in zip(heads, parts, strict=True)
        for record in walk(header, bytes(part), 0)
    ]
    return pa.array(
        [[{"key": name, "value": value} for name, value in each] for each in found], HEADERS
    )

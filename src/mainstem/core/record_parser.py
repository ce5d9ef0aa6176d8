"""Parses the records of a batch; safe for untrusted bytes.

How this works: a record consists of zigzag varints and bytes,

    length, attributes (1 byte), timestamp delta, offset delta, key length, key, value length,
    value, header count, and for each header: key length, key, value length, value

where a length of -1 means null. A slice never copies more than exists, an index past the end
raises, and every record must end exactly where its length says, the last one where the batch ends.
So the result is either records or CorruptBatch, in no more memory than the uncompressed batch.

The loop is long because it is on the hot path: varints of one and two bytes, the most common ones,
are decoded without a call. Equal short headers, as events of one producer often have, are parsed
only once.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Literal

from mainstem.core import compression
from mainstem.core.batch import HEADER_SIZE, BatchHeader, Buffer
from mainstem.core.errors import CorruptBatch
from mainstem.core.event import Headers

UNPACKED_BYTES = 32 * 1024 * 1024
"""Default limit of the uncompressed size, unless four times the batch size is higher."""
MAX_HEADERS = 10_000
"""Maximum number of headers of one event: a header of two bytes takes a hundred in memory."""

Record = tuple[int, int, bytes | None, bytes | None, Headers, int, int]
"""Offset, timestamp, key, value, headers, and the start and end of the record in the data."""
Malformed = Literal["replace", "strict"]
"""Handling of a header name that is not UTF-8: replace the invalid bytes, or refuse the batch."""

_MAX_INT64 = 2**63 - 1
_SHORT_HEADERS = 256
_SAME_HEADERS = 256
"""Maximum number of different short headers that are cached."""


def unpack(header: BatchHeader, batch: Buffer, max_bytes: int | None) -> tuple[bytes, int]:
    """Return the uncompressed records, and the position at which they begin."""
    if not header.codec or not header.count:
        return _as_bytes(batch), HEADER_SIZE
    if max_bytes is None:
        max_bytes = max(UNPACKED_BYTES, 4 * len(batch))
    data = memoryview(batch)[HEADER_SIZE:]
    return bytes(compression.decompress(header.codec, data, max_bytes)), 0


def _as_bytes(batch: Buffer) -> bytes:
    """Return a batch as bytes, without a copy if it is a view of an entire bytes object."""
    whole = batch.obj if isinstance(batch, memoryview) else batch
    return whole if isinstance(whole, bytes) and len(whole) == len(batch) else bytes(batch)


def walk(  # noqa: C901, PLR0912, PLR0915 - one hot loop
    header: BatchHeader, data: bytes, position: int, malformed: Malformed = "replace"
) -> Iterator[Record]:
    """Yield the records from ``position`` on; CorruptBatch unless the last ends with the data."""
    if header.count < 0:
        raise CorruptBatch(f"record batch with count {header.count}")
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    last_delta, timestamp, appended = header.last_offset_delta, 0, header.log_append_time
    if appended:
        base_timestamp = header.max_timestamp
    previous, end, index = -1, len(data), 0
    no_headers: Headers = ()
    try:
        for index in range(header.count):  # noqa: B007 - named in the error
            start = position
            number = data[position]
            position += 1
            if number > 127:
                more = data[position]
                if more < 128:
                    number += (more << 7) - 128
                    position += 1
                else:
                    number, position = _varint(data, start)
            stop = position + (number >> 1)
            if number & 1 or stop > end:
                raise ValueError(f"length {_signed(number)}, with {end - position} bytes left")

            number = data[position + 1]
            position += 2
            if number > 127:
                more = data[position]
                if more < 128:
                    number += (more << 7) - 128
                    position += 1
                else:
                    number, position = _varint(data, position - 1, 10)
            timestamp = base_timestamp
            if number and not appended:
                timestamp += number >> 1 ^ -(number & 1)
                if not -1 <= timestamp <= _MAX_INT64:
                    raise ValueError(f"timestamp {timestamp}")

            number = data[position]
            position += 1
            if number > 127:
                more = data[position]
                if more < 128:
                    number += (more << 7) - 128
                    position += 1
                else:
                    number, position = _varint(data, position - 1)
            delta = number >> 1
            if number & 1 or not previous < delta <= last_delta:
                raise ValueError(
                    f"offset delta {_signed(number)}, expected {previous + 1} to {last_delta}"
                )
            previous = delta

            number = data[position]
            position += 1
            if number > 127:
                more = data[position]
                if more < 128:
                    number += (more << 7) - 128
                    position += 1
                else:
                    number, position = _varint(data, position - 1)
            if number & 1:
                if number != 1:
                    raise ValueError(f"key length {_signed(number)}")
                key = None
            else:
                begin = position
                position += number >> 1
                key = data[begin:position]

            number = data[position]
            position += 1
            if number > 127:
                more = data[position]
                if more < 128:
                    number += (more << 7) - 128
                    position += 1
                else:
                    number, position = _varint(data, position - 1)
            if number & 1:
                if number != 1:
                    raise ValueError(f"value length {_signed(number)}")
                value = None
            else:
                begin = position
                position += number >> 1
                value = data[begin:position]

            if data[position]:
                if stop - position <= _SHORT_HEADERS:
                    headers, length = _short_headers(data[position:stop], malformed)
                    position += length
                else:
                    headers, position = _headers(data, position, stop, malformed)
            else:
                headers = no_headers
                position += 1
            if position != stop:
                raise ValueError(f"fields end {position - stop} bytes past the record's end")
            yield base_offset + delta, timestamp, key, value, headers, start, stop
    except (IndexError, ValueError) as error:
        reason = "cut off" if isinstance(error, IndexError) else error
        raise CorruptBatch(
            f"record {index} of {header.count} in the batch at offset {base_offset}: {reason}"
        ) from None
    if position != end:
        raise CorruptBatch(
            f"{end - position} bytes are left after the {header.count} records of the batch "
            f"at offset {base_offset}"
        )


def _varint(data: bytes, position: int, most: int = 5) -> tuple[int, int]:
    """Decode an unsigned varint; return it and the position after it."""
    number = 0
    for index in range(most):
        byte = data[position + index]
        number |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            break
    else:
        raise ValueError(f"a number of more than {most} bytes")
    if number >> (32 if most == 5 else 64):
        raise ValueError(f"number {number} is out of range")
    return number, position + index + 1


def _signed(number: int) -> int:
    return number >> 1 ^ -(number & 1)


def _headers(data: bytes, position: int, stop: int, malformed: Malformed) -> tuple[Headers, int]:
    """Decode headers, preceded by their count; return them and the position after them."""
    number, position = _varint(data, position)
    count = _signed(number)
    if not 0 <= count <= min(MAX_HEADERS, (stop - position) // 2):
        raise ValueError(
            f"{count} headers in {stop - position} bytes; at most {MAX_HEADERS} are read"
        )
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        number = data[position]
        position += 1
        if number > 127:
            number, position = _varint(data, position - 1)
        begin = position
        position += number >> 1
        if number & 1 or position > stop:
            raise ValueError(f"header key length {_signed(number)}")
        name = data[begin:position].decode("utf-8", malformed)

        number = data[position]
        position += 1
        if number > 127:
            number, position = _varint(data, position - 1)
        if number == 1:
            headers.append((name, None))
            continue
        begin = position
        position += number >> 1
        if number & 1 or position > stop:
            raise ValueError(f"header value length {_signed(number)}")
        headers.append((name, data[begin:position]))
    return tuple(headers), position


@lru_cache(_SAME_HEADERS)
def _short_headers(data: bytes, malformed: Malformed) -> tuple[Headers, int]:
    return _headers(data, 0, len(data), malformed)

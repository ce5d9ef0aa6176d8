"""The Kafka v2 record batch as bytes: header, checksum, and offsets.

Every batch begins with 61 bytes, big-endian:

    0  base offset       int64    written by the log, outside the checksum
    8  batch length      int32    bytes after this field, outside the checksum
    12 leader epoch      int32    written by the log, outside the checksum
    16 magic             int8     2
    17 crc               uint32   CRC-32C of everything from byte 21 on
    21 attributes        int16    codec (3 bits), log append time, transactional, control, horizon
    23 last offset delta int32    base offset + this = last offset (also if compaction took it out)
    27 base timestamp    int64
    35 max timestamp     int64
    43 producer id       int64    -1: none
    51 producer epoch    int16
    53 base sequence     int32
    57 count             int32    records that follow, compressed as a whole if a codec is set
"""

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from mainstem.core.checksum import crc32c
from mainstem.core.errors import CorruptBatch, EventTooLarge, InvalidBatch

Buffer = bytes | bytearray | memoryview

HEADER_SIZE = 61
MAGIC = 2

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40
"""Attribute bit: the base timestamp is the time after which compaction may drop tombstones."""
_CLIENT_ATTRIBUTES = CODEC_MASK | TRANSACTIONAL
_STORED_ATTRIBUTES = _CLIENT_ATTRIBUTES | LOG_APPEND_TIME | CONTROL | DELETE_HORIZON
_CODECS = 5

HEADER = Struct(">qiibIhiqqqhii")
UNCHECKED, CHECKED = Struct(">qiibI"), Struct(">hiqqqhii")
"""The header fields before the checksum, and those covered by it."""
_BASE_OFFSET = Struct(">q")
_LENGTH = Struct(">i")
_PLACE = Struct(">qii")
_CRC = Struct(">I")
_ATTRIBUTES = Struct(">h")
_LAST_OFFSET_DELTA = Struct(">i")
_MAX_TIMESTAMP = Struct(">q")
_SPAN_AT, _SPAN = 23, Struct(">i8xq")
_new = tuple.__new__
LENGTH_BEFORE = 12
"""Size of base offset and batch length, which the batch length does not include."""
_CRC_AT = 17
CHECKED_FROM = 21
"""The first byte that the CRC covers."""


class BatchHeader(NamedTuple):
    """The fields of a batch's header; ``size``: bytes of the whole batch, header included."""

    base_offset: int
    size: int
    epoch: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody needs here

    @property
    def last_offset(self) -> int:
        """The last offset of the batch, even if compaction removed that record."""
        return self.base_offset + self.last_offset_delta

    @property
    def codec(self) -> int:
        """The number of the compression codec, 0 for none."""
        return self.attributes & CODEC_MASK

    @property
    def log_append_time(self) -> bool:
        """Whether every record's timestamp is the max timestamp, set when it was appended."""
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        """Whether the batch belongs to a transaction."""
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """Whether the batch holds a transaction's marker instead of events."""
        return bool(self.attributes & CONTROL)


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Return the header of the batch at a position; its checksum is not verified."""
    if len(buffer) - position < HEADER_SIZE:
        raise InvalidBatch(
            f"a record batch needs {HEADER_SIZE} bytes of header; "
            f"{max(len(buffer) - position, 0)} are there"
        )
    fields = HEADER.unpack_from(buffer, position)
    magic, length = fields[3], fields[1]
    if magic != MAGIC:
        # Older versions existed; none but 2 is accepted.
        kind = InvalidBatch if 0 <= magic < MAGIC else CorruptBatch
        raise kind(f"record batch with magic {magic}; only magic {MAGIC} is known")
    if length < HEADER_SIZE - LENGTH_BEFORE:
        raise CorruptBatch(
            f"record batch with batch length {length}; "
            f"the header alone is {HEADER_SIZE - LENGTH_BEFORE}"
        )
    # Twice as fast as calling the class; the log reads a header for every batch.
    return _new(BatchHeader, (fields[0], length + LENGTH_BEFORE, fields[2], *fields[4:]))


def read_span(batch: Buffer) -> tuple[int, int]:
    """Return the last offset delta and the max timestamp of a batch that was checked before."""
    return _SPAN.unpack_from(batch, _SPAN_AT)


def checksum_matches(buffer: Buffer, position: int, size: int) -> bool:
    """Tell whether the CRC of the batch at a position is correct."""
    end = position + size
    if size < HEADER_SIZE or end > len(buffer):
        return False
    (crc,) = _CRC.unpack_from(buffer, position + _CRC_AT)
    return bool(crc32c(memoryview(buffer)[position + CHECKED_FROM : end]) == crc)


def seal(batch: bytearray | memoryview) -> None:
    """Recompute a batch's CRC and write it into the header."""
    _CRC.pack_into(batch, _CRC_AT, crc32c(memoryview(batch)[CHECKED_FROM:]))


def place(batch: bytearray | memoryview, base_offset: int, epoch: int) -> None:
    """Write base offset and leader epoch into a batch's header; the CRC does not cover them."""
    _PLACE.pack_into(batch, 0, base_offset, len(batch) - LENGTH_BEFORE, epoch)


def stamp(batch: bytearray | memoryview, timestamp_ms: int) -> None:
    """Set a batch's timestamp type to LogAppendTime: every record then has this timestamp."""
    (attributes,) = _ATTRIBUTES.unpack_from(batch, 21)
    _ATTRIBUTES.pack_into(batch, 21, attributes | LOG_APPEND_TIME)
    _MAX_TIMESTAMP.pack_into(batch, 35, timestamp_ms)
    seal(batch)


def set_size(batch: bytearray, codec: int) -> None:
    """Write batch length and compression codec into a batch's header."""
    _LENGTH.pack_into(batch, 8, len(batch) - LENGTH_BEFORE)
    (attributes,) = _ATTRIBUTES.unpack_from(batch, 21)
    _ATTRIBUTES.pack_into(batch, 21, attributes & ~CODEC_MASK | codec)
    seal(batch)


def set_last_offset(batch: bytearray | memoryview, last_offset: int) -> None:
    """Set the last offset in a batch's header, and recompute the CRC."""
    (base_offset,) = _BASE_OFFSET.unpack_from(batch, 0)
    _LAST_OFFSET_DELTA.pack_into(batch, 23, last_offset - base_offset)
    seal(batch)


def batches(buffer: Buffer) -> Iterator[memoryview]:
    """Split a buffer into record batches; raises CorruptBatch if the last one is incomplete."""
    view = memoryview(buffer)
    position = 0
    while position < len(view):
        size = read_header(view, position).size
        if size > len(view) - position:
            raise CorruptBatch(
                f"record batch of {size} bytes at byte {position}; "
                f"only {len(view) - position} are there"
            )
        yield view[position : position + size]
        position += size


def read_whole(buffer: Buffer) -> BatchHeader:
    """Return the header of a buffer that must hold exactly one intact batch."""
    header = read_header(buffer)
    if header.size != len(buffer):
        # A part of a batch, or several batches, would be refused again if sent again.
        whole = header.size > len(buffer) or checksum_matches(buffer, 0, header.size)
        kind = InvalidBatch if whole else CorruptBatch
        raise kind(
            f"record batch of {header.size} bytes (batch length {header.size - LENGTH_BEFORE}) "
            f"in {len(buffer)} bytes; exactly one batch is expected"
        )
    # A view of a view is twice as slow to create, and producers' batches arrive as views.
    view = buffer if isinstance(buffer, memoryview) else memoryview(buffer)
    if crc32c(view[CHECKED_FROM:]) != header.crc:
        raise CorruptBatch(
            f"record batch of {header.size} bytes does not match its crc {header.crc:#010x}"
        )
    return header


def check_header(
    buffer: Buffer, *, max_bytes: int | None = None, topic: str = "", stored: bool = False
) -> BatchHeader:
    """Check a batch as far as possible without its records, and return its header.

    A batch from a producer must be a single batch of events with consecutive offsets. A ``stored``
    one may also be a control batch, have LogAppendTime, or have gaps from compaction. Raises
    EventTooLarge if it has more than ``max_bytes``, InvalidBatch if its producer built it wrong,
    and CorruptBatch for other damage.
    """
    if max_bytes is not None and len(buffer) > max_bytes:
        raise EventTooLarge(topic, len(buffer), max_bytes)
    header = read_whole(buffer)
    attributes, count, delta = header.attributes, header.count, header.last_offset_delta
    if attributes & CODEC_MASK >= _CODECS:
        raise InvalidBatch(f"record batch with unknown compression codec {header.codec}")
    if stored:
        if attributes & ~_STORED_ATTRIBUTES:
            raise CorruptBatch(f"record batch with unknown attributes {attributes & 0xFFFF:#06x}")
        if not 0 <= count <= delta + 1:
            raise CorruptBatch(f"record batch with count {count}, last offset delta {delta}")
    else:
        if attributes & ~_CLIENT_ATTRIBUTES:
            raise InvalidBatch(_refused_attributes(attributes))
        if count <= 0 or delta != count - 1:
            raise InvalidBatch(f"record batch with count {count}, last offset delta {delta}")
        first, last = header.base_timestamp, header.max_timestamp
        if first < -1 or last < first:
            raise InvalidBatch(f"record batch with base timestamp {first}, max timestamp {last}")
    if header.producer_id != -1 or attributes:
        _check_producer(header)
    return header


def _refused_attributes(attributes: int) -> str:
    if attributes & CONTROL:
        return "control batch from a producer; only the transaction coordinator writes them"
    if attributes & LOG_APPEND_TIME:
        return "record batch from a producer marked as stamped by the log"
    return f"record batch with unknown attributes {attributes & 0xFFFF:#06x}"


def _check_producer(header: BatchHeader) -> None:
    producer, epoch, sequence = header.producer_id, header.producer_epoch, header.base_sequence
    if producer < -1 or (producer >= 0 and epoch < 0):
        raise InvalidBatch(f"record batch with producer id {producer}, producer epoch {epoch}")
    if producer >= 0 and sequence < 0 and not header.is_control:
        raise InvalidBatch(f"record batch with producer id {producer}, base sequence {sequence}")
    if producer < 0 and header.is_transactional:
        raise InvalidBatch("transactional record batch without a producer id")

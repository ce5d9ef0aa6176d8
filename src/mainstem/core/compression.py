"""The codecs of record batches; decompression never uses more memory than allowed.

How this works: before anything is allocated, the size that a stream claims is compared with the
most that its bytes could expand to, and every decoder may write at most ``max_bytes``. The decoders
are imported at first use, so that importing this module costs nothing.
"""

import zlib
from collections.abc import Callable
from struct import Struct

from mainstem.core.errors import CorruptBatch, InvalidSetting

Buffer = bytes | bytearray | memoryview

NAMES = ("none", "gzip", "snappy", "lz4", "zstd")
"""The codecs, in the order of their numbers in a batch's attributes."""
NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
_STEP = 1024 * 1024
"""Bytes decompressed at a time: growing one buffer by steps needs no second copy."""


def number(name: str) -> int:
    """Return the number of a codec, given by its name."""
    if name in NAMES:
        return NAMES.index(name)
    raise InvalidSetting(f"no compression {name!r}; there are {', '.join(NAMES)}")


def compress(codec: int, data: Buffer) -> Buffer:
    """Compress data in the format that Kafka clients expect."""
    return _COMPRESS[codec](data)


def decompress(codec: int, data: Buffer, max_bytes: int) -> Buffer:
    """Return the decompressed data; CorruptBatch if it is damaged or larger than ``max_bytes``."""
    if not 0 <= codec < len(NAMES):
        raise CorruptBatch(f"unknown compression codec {codec}; known are 0 to {len(NAMES) - 1}")
    return _DECOMPRESS[codec](data, max_bytes)


def _too_large(codec: int, max_bytes: int) -> CorruptBatch:
    return CorruptBatch(f"{NAMES[codec]} data unpacks to more than the {max_bytes} bytes allowed")


def _damaged(codec: int, reason: object) -> CorruptBatch:
    return CorruptBatch(f"{NAMES[codec]} data is damaged: {reason}")


def _extend(codec: int, plain: bytearray, part: bytes, max_bytes: int, *, is_end: bool) -> None:
    """Add a decompressed part; raises CorruptBatch if nothing came, or too much."""
    if not part and not is_end:
        raise _damaged(codec, "the stream ends early")
    plain += part
    if len(plain) > max_bytes:
        raise _too_large(codec, max_bytes)


def _compress_none(data: Buffer) -> Buffer:
    return data


def _decompress_none(data: Buffer, max_bytes: int) -> Buffer:
    if len(data) > max_bytes:
        raise CorruptBatch(f"{len(data)} bytes of records, more than the {max_bytes} allowed")
    return data


_GZIP_WBITS = 16 + zlib.MAX_WBITS


def _compress_gzip(data: Buffer) -> bytes:
    return zlib.compress(data, wbits=_GZIP_WBITS)


def _decompress_gzip(data: Buffer, max_bytes: int) -> Buffer:
    stream = zlib.decompressobj(wbits=_GZIP_WBITS)
    plain = bytearray()
    source = data
    while not stream.eof:
        try:
            part = stream.decompress(source, min(_STEP, max_bytes + 1 - len(plain)))
        except zlib.error as error:
            raise _damaged(GZIP, error) from None
        _extend(GZIP, plain, part, max_bytes, is_end=stream.eof)
        source = stream.unconsumed_tail
    if stream.unused_data:
        raise _damaged(GZIP, f"{len(stream.unused_data)} bytes after the stream")
    return plain


# snappy-java's stream, which the Java client and most others use: a header, then blocks of at most
# 32 KiB, each preceded by its length. librdkafka writes a single raw block instead.
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_BLOCK = 32 * 1024
_LENGTH = Struct(">I")
_SNAPPY_EXPANSION = 22
"""Maximum expansion of Snappy: its densest element copies 64 bytes and takes 3."""


def _compress_snappy(data: Buffer) -> bytes:
    from cramjam import snappy  # noqa: PLC0415

    parts = [_XERIAL_HEADER]
    view = memoryview(data)
    for start in range(0, len(view), _XERIAL_BLOCK):
        block = bytes(snappy.compress_raw(view[start : start + _XERIAL_BLOCK]))
        parts += (_LENGTH.pack(len(block)), block)
    return b"".join(parts)


def _decompress_snappy(data: Buffer, max_bytes: int) -> bytes:
    view = memoryview(data)
    if view[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        return _decompress_snappy_block(view, max_bytes, max_bytes)
    if len(view) < len(_XERIAL_HEADER):
        raise _damaged(SNAPPY, "the stream ends early")
    parts: list[bytes] = []
    size, position = 0, len(_XERIAL_HEADER)
    while position < len(view):
        if len(view) - position < _LENGTH.size:
            raise _damaged(SNAPPY, "the stream ends early")
        (length,) = _LENGTH.unpack_from(view, position)
        position += _LENGTH.size
        if length > len(view) - position:
            raise _damaged(SNAPPY, f"a block of {length} bytes, {len(view) - position} are there")
        block = view[position : position + length]
        parts.append(_decompress_snappy_block(block, max_bytes - size, max_bytes))
        size += len(parts[-1])
        position += length
    return b"".join(parts)


def _decompress_snappy_block(block: memoryview, room: int, max_bytes: int) -> bytes:
    import cramjam  # noqa: PLC0415

    try:
        length = cramjam.snappy.decompress_raw_len(block)
        if length > room:
            raise _too_large(SNAPPY, max_bytes)
        if length > len(block) * _SNAPPY_EXPANSION:
            raise _damaged(SNAPPY, f"{len(block)} bytes that claim to hold {length}")
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise _damaged(SNAPPY, error) from None


def _compress_lz4(data: Buffer) -> bytes:
    from lz4 import frame  # type: ignore[import-untyped]  # noqa: PLC0415

    # The Java client can only read independent blocks.
    return bytes(frame.compress(data, block_linked=False, store_size=False))


def _decompress_lz4(data: Buffer, max_bytes: int) -> Buffer:
    from lz4 import frame  # noqa: PLC0415

    stream = frame.LZ4FrameDecompressor()
    plain = bytearray()
    source = data
    # The decoder allocates the whole limit at once, so a small batch gets a small limit.
    room = min(_STEP, max(16 * len(data), 4096))
    while not stream.eof:
        try:
            part = stream.decompress(source, max_length=min(room, max_bytes + 1 - len(plain)))
        except (RuntimeError, EOFError) as error:
            raise _damaged(LZ4, error) from None
        _extend(LZ4, plain, part, max_bytes, is_end=stream.eof)
        source = b""
    if stream.unused_data:
        raise _damaged(LZ4, f"{len(stream.unused_data)} bytes after the stream")
    return plain


_ZSTD_WINDOW = 1 << 27
"""zstd's own default limit for reading, and the largest window of its levels up to 22."""
_ZSTD_BLOCK = 128 * 1024
"""Maximum decompressed size of one block of a zstd frame."""
_ZSTD_PLAIN, _ZSTD_REPEATED = 0, 1
"""The block types whose decompressed size is in the block header: raw, and one byte repeated."""


def _compress_zstd(data: Buffer) -> bytes:
    import zstandard  # noqa: PLC0415

    return zstandard.ZstdCompressor().compress(data)


def _decompress_zstd(data: Buffer, max_bytes: int) -> bytes:
    import zstandard  # noqa: PLC0415

    try:
        frame = zstandard.get_frame_parameters(data)
        claimed = frame.content_size
        # The decoder trusts a claimed size, whatever limit it is given.
        if claimed != zstandard.CONTENTSIZE_UNKNOWN and claimed > max_bytes:
            raise _too_large(ZSTD, max_bytes)
        start = zstandard.frame_header_size(data)
        size, holds = _zstd_frame(memoryview(data), start, frame.has_checksum, max_bytes)
        if size != len(data):
            raise _damaged(ZSTD, f"a frame of {size} bytes in {len(data)}")
        if claimed != zstandard.CONTENTSIZE_UNKNOWN and claimed > holds:
            raise _damaged(ZSTD, f"{len(data)} bytes that claim to hold {claimed}")
        decoder = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW)
        return decoder.decompress(data, max_output_size=max(min(holds, max_bytes), 1))
    except zstandard.ZstdError as error:
        raise _damaged(ZSTD, f"{error} (room for {max_bytes} bytes)") from None


def _zstd_frame(data: memoryview, position: int, checksum: bool, max_bytes: int) -> tuple[int, int]:
    """Return the size of a frame and the most it can expand to, from its block headers alone."""
    surely = perhaps = 0
    last = False
    while not last:
        if len(data) - position < 3:
            raise _damaged(ZSTD, "the frame ends early")
        # [RFC 8878, 3.1.1.2 Blocks]
        header = data[position] | data[position + 1] << 8 | data[position + 2] << 16
        last, kind, size = bool(header & 1), header >> 1 & 3, header >> 3
        position += 3 + (1 if kind == _ZSTD_REPEATED else size)
        if kind in (_ZSTD_PLAIN, _ZSTD_REPEATED):
            surely += size
        else:
            perhaps += _ZSTD_BLOCK
        if surely > max_bytes:
            raise _too_large(ZSTD, max_bytes)
    return position + (4 if checksum else 0), surely + perhaps


_COMPRESS: tuple[Callable[[Buffer], Buffer], ...] = (
    _compress_none,
    _compress_gzip,
    _compress_snappy,
    _compress_lz4,
    _compress_zstd,
)
_DECOMPRESS: tuple[Callable[[Buffer, int], Buffer], ...] = (
    _decompress_none,
    _decompress_gzip,
    _decompress_snappy,
    _decompress_lz4,
    _decompress_zstd,
)

"""The codecs, and decompression bombs."""

import gzip
import tracemalloc
import zlib
from contextlib import suppress
from pathlib import Path

import cramjam
import lz4.frame  # type: ignore[import-untyped]
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from mainstem.core.compression import GZIP, LZ4, NAMES, SNAPPY, ZSTD, compress, decompress, number
from mainstem.core.errors import CorruptBatch, InvalidSetting

MIB = 1024 * 1024
PACKED = (GZIP, SNAPPY, LZ4, ZSTD)


@given(st.sampled_from(range(5)), st.binary(max_size=300), st.integers(1, 2000))
def test_what_is_compressed_comes_back(codec: int, data: bytes, repeated: int) -> None:
    plain = data * repeated

    packed = compress(codec, plain)

    assert decompress(codec, packed, len(plain)) == plain
    assert decompress(codec, memoryview(bytes(packed)), len(plain) + 1) == plain


@pytest.mark.parametrize("codec", range(5))
def test_the_limit_is_exact(codec: int) -> None:
    for size in (1, 100, 3 * MIB):
        packed = compress(codec, b"x" * size)

        assert len(decompress(codec, packed, size)) == size
        with pytest.raises(CorruptBatch):
            decompress(codec, packed, size - 1)


def test_other_writers_are_understood() -> None:
    plain = b"the same again, " * 20_000

    assert decompress(GZIP, gzip.compress(plain), MIB) == plain
    assert decompress(SNAPPY, bytes(cramjam.snappy.compress_raw(plain)), MIB) == plain
    for linked in (True, False):
        for sized in (True, False):
            packed = lz4.frame.compress(
                plain, block_linked=linked, store_size=sized, content_checksum=True
            )
            assert decompress(LZ4, packed, MIB) == plain
    for sized in (True, False):
        for level in (3, 19):
            writer = zstandard.ZstdCompressor(
                level, write_content_size=sized, write_checksum=not sized
            )
            assert decompress(ZSTD, writer.compress(plain), MIB) == plain
            stream = writer.compressobj()
            streamed = stream.compress(plain) + stream.flush()
            assert decompress(ZSTD, streamed, MIB) == plain


def test_snappy_is_framed_as_the_java_client_frames_it() -> None:
    packed = bytes(compress(SNAPPY, b"x" * 40_000))

    assert packed[:16] == b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
    first = int.from_bytes(packed[16:20], "big")
    assert bytes(cramjam.snappy.decompress_raw(packed[20 : 20 + first])) == b"x" * 32_768


def test_lz4_blocks_are_independent_as_the_java_client_needs_them() -> None:
    about = lz4.frame.get_frame_info(compress(LZ4, b"x" * 300_000))

    assert about["block_linked"] is False


@pytest.mark.parametrize("codec", PACKED)
def test_a_stream_cut_off_anywhere_is_refused(codec: int) -> None:
    plain = bytes(range(256)) * 3
    packed = bytes(compress(codec, plain))

    for size in range(len(packed)):
        try:
            # A snappy stream of no blocks is whole, and holds nothing.
            assert decompress(codec, packed[:size], MIB) == b""
        except CorruptBatch:
            continue
        assert (codec, size) == (SNAPPY, 16)


@pytest.mark.parametrize("codec", PACKED)
def test_bytes_after_the_stream_are_refused(codec: int) -> None:
    with pytest.raises(CorruptBatch):
        decompress(codec, bytes(compress(codec, b"plain")) + b"\x00", MIB)


@pytest.mark.parametrize("codec", PACKED)
def test_no_bytes_are_no_stream(codec: int) -> None:
    with pytest.raises(CorruptBatch):
        decompress(codec, b"", MIB)


@given(st.sampled_from(PACKED), st.binary(max_size=300), st.data())
def test_mutated_streams_are_plain_data_or_corrupt(
    codec: int, plain: bytes, data: st.DataObject
) -> None:
    packed = bytearray(compress(codec, plain))
    for place in data.draw(st.lists(st.integers(0, len(packed) - 1), max_size=3)):
        packed[place] = data.draw(st.integers(0, 255))

    with suppress(CorruptBatch):
        assert len(decompress(codec, packed, 5_000)) <= 5_000


def zstd_frame(blocks: bytes, *, window: int = 0x58, sized: bytes = b"") -> bytes:
    """Return a frame by hand; the content size, if given, has 8 bytes."""
    descriptor = 0xC0 if sized else 0x00
    return b"\x28\xb5\x2f\xfd" + bytes([descriptor, window]) + sized + blocks


def zstd_zeros(count: int) -> bytes:
    """Return blocks that stand for 128 KiB of zeros in four bytes each."""
    block = (128 * 1024 << 3 | 1 << 1).to_bytes(3, "little") + b"\x00"
    last = (128 * 1024 << 3 | 1 << 1 | 1).to_bytes(3, "little") + b"\x00"
    return block * (count - 1) + last


def lz4_zeros(count: int) -> bytes:
    """Return a frame of many blocks that stand for 4 MiB of zeros each."""
    frame: bytes = lz4.frame.compress(
        bytes(4 * MIB), block_size=lz4.frame.BLOCKSIZE_MAX4MB, block_linked=False, store_size=False
    )
    return frame[:7] + frame[7:-4] * count + frame[-4:]


def gzip_zeros(mebibytes: int) -> bytes:
    packer = zlib.compressobj(wbits=31)
    return b"".join(packer.compress(bytes(MIB)) for _ in range(mebibytes)) + packer.flush()


def snappy_blocks(count: int) -> bytes:
    block = bytes(cramjam.snappy.compress_raw(bytes(MIB)))
    header = b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
    return header + (len(block).to_bytes(4, "big") + block) * count


BOMBS = {
    "gzip, 128 MiB": (GZIP, gzip_zeros(128)),
    "zstd, 32 GiB in 1 MiB": (ZSTD, zstd_frame(zstd_zeros(262_144))),
    "zstd, 32 GiB that says so": (
        ZSTD,
        zstd_frame(zstd_zeros(262_144), sized=(2**35).to_bytes(8, "little")),
    ),
    "zstd that claims to be small": (
        ZSTD,
        zstd_frame(zstd_zeros(1_000), sized=(1000).to_bytes(8, "little")),
    ),
    "zstd that claims 2^63 in a few bytes": (
        ZSTD,
        zstd_frame(zstd_zeros(1), sized=(2**63).to_bytes(8, "little")),
    ),
    "zstd that claims 4 MiB in a few bytes": (
        ZSTD,
        zstd_frame(zstd_zeros(1), sized=(4 * MIB).to_bytes(8, "little")),
    ),
    "zstd with a 2 GiB window": (ZSTD, zstd_frame(zstd_zeros(1), window=0xA8)),
    "zstd, 64 MiB of no repeated byte": (
        ZSTD,
        zstandard.ZstdCompressor(write_content_size=False).compress(b"ab" * 32 * MIB),
    ),
    "lz4, 1 GiB": (LZ4, lz4_zeros(256)),
    "snappy, 128 MiB": (SNAPPY, bytes(cramjam.snappy.compress_raw(bytes(128 * MIB)))),
    "snappy, 128 MiB in blocks": (SNAPPY, snappy_blocks(128)),
    "snappy that claims 4 GiB": (SNAPPY, b"\xff\xff\xff\xff\x0f" + b"\x00a" * 20),
    "snappy that claims 4 MiB in a few bytes": (SNAPPY, b"\x80\x80\x80\x02" + b"\x00a" * 20),
    "snappy block of 4 GiB": (SNAPPY, b"\x82SNAPPY\x00" + bytes(8) + b"\xff\xff\xff\xff" + b"a"),
}


@pytest.mark.parametrize("case", BOMBS)
def test_a_bomb_is_refused_within_the_memory_allowed(case: str) -> None:
    codec, bomb = BOMBS[case]
    limit = 8 * MIB
    decompress(codec, compress(codec, b"the decoder is loaded before memory is counted"), MIB)
    tracemalloc.start()
    high = high_water_bytes(reset=True)

    with pytest.raises(CorruptBatch):
        decompress(codec, bomb, limit)

    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # Beside the data: two blocks of 4 MiB in the decoder of lz4, and the last step.
    assert peak < limit + 12 * MIB
    assert high_water_bytes() - high < limit + 16 * MIB


def high_water_bytes(*, reset: bool = False) -> int:
    """Return the most memory the process has had, also in foreign code, since the last reset."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


@pytest.mark.parametrize(
    "case", ["snappy that claims 4 MiB in a few bytes", "zstd that claims 4 MiB in a few bytes"]
)
def test_a_claim_that_the_bytes_cannot_hold_is_refused_before_it_is_allocated(case: str) -> None:
    codec, bomb = BOMBS[case]

    with pytest.raises(CorruptBatch, match="bytes that claim to hold 4194304"):
        decompress(codec, bomb, 8 * MIB)


def test_a_zstd_frame_with_a_small_lie_is_damaged_not_believed() -> None:
    frame = zstd_frame(zstd_zeros(1), sized=(1000).to_bytes(8, "little"))

    with pytest.raises(CorruptBatch):
        decompress(ZSTD, frame, MIB)


def test_codecs_have_names() -> None:
    assert [number(name) for name in NAMES] == [0, 1, 2, 3, 4]
    with pytest.raises(InvalidSetting, match="'snapy'"):
        number("snapy")
    with pytest.raises(CorruptBatch, match="codec 5"):
        decompress(5, b"", MIB)

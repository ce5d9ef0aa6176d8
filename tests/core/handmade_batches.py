"""Batches made by hand, good and bad, always with the checksum that fits."""

from hypothesis import strategies as st

from mainstem.core.batch import HEADER, HEADER_SIZE, seal
from mainstem.core.event import Event

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
NOW_MS = 1_700_000_000_000

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
blobs = st.none() | st.binary(max_size=150) | st.just(b"long " * 500)
events_without_place = st.builds(
    Event,
    value=blobs,
    key=blobs,
    headers=st.lists(st.tuples(names, blobs), max_size=4).map(tuple),
    timestamp_ms=st.integers(0, 2**45) | st.sampled_from([NOW_MS, NOW_MS + 64, 2**62]),
)
event_lists = st.lists(events_without_place, min_size=1, max_size=8)


def sealed(
    body: bytes,
    *,
    count: int = 1,
    last_offset_delta: int | None = None,
    attributes: int = 0,
    base_timestamp: int = NOW_MS,
    max_timestamp: int = NOW_MS,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    base_offset: int = 0,
    length: int | None = None,
    magic: int = 2,
) -> bytearray:
    """Return a batch with any header and any bytes as its records."""
    batch = bytearray(HEADER_SIZE)
    HEADER.pack_into(
        batch,
        0,
        base_offset,
        HEADER_SIZE - 12 + len(body) if length is None else length,
        -1,
        magic,
        0,
        attributes,
        count - 1 if last_offset_delta is None else last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    )
    batch += body
    seal(batch)
    return batch


def varint(number: int) -> bytes:
    """Return a zigzag varint, written the slow and obvious way."""
    rest = number * 2 if number >= 0 else -number * 2 - 1
    digits = []
    while True:
        digits.append(rest % 128)
        rest //= 128
        if not rest:
            break
    return bytes(digit + 128 for digit in digits[:-1]) + bytes(digits[-1:])


def record(*fields: bytes, length: int | None = None) -> bytes:
    """Return a record of the given fields, which begin with the attributes."""
    body = b"".join(fields)
    return varint(len(body) if length is None else length) + body

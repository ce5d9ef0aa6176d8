"""Entries of the write-ahead log for atomic appends in which several batches are copies of one.

How this works: a publish that is routed to many queues appends the same batch to each of their
partitions. The copies differ only in base offset and leader epoch, which lie outside the checksum.
So an entry of kind APPEND_SHARED holds each different batch once, and the places where it belongs.
Recovery makes the copies again, and treats them like those of an APPEND entry.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence

from mainstem.core.batch import place
from mainstem.log.commit.wal import Entry, Kind, Part, decode_parts, encode_parts
from mainstem.log.files.files import Buffer

_COUNTS = struct.Struct(">II")
"""Header of the payload: the number of different batches, and of places to write them to."""
_LENGTH = struct.Struct(">I")
_PLACE = struct.Struct(">20sqII?Iqi")
"""One place: partition, segment, generation, position, synced; batch number; offset, epoch."""
_PLACED = struct.Struct(">q4xi")
"""Base offset and leader epoch of a batch."""
_CHECKSUM = slice(17, 21)
SAME_FROM = 16
"""Copies of a batch are equal from this byte on; before, base offset and epoch may differ."""


def sources(batches: Iterable[Buffer]) -> list[int]:
    """Return for each batch the index of the first batch that it equals, which may be itself.

    Base offset and leader epoch are not compared.
    """
    found = list(batches)
    first: dict[tuple[int, bytes], int] = {}
    copies: list[int] = []
    for at, each in enumerate(found):
        # Different batches hardly ever have the same checksum, so few are compared.
        source = first.setdefault((len(each), bytes(each[_CHECKSUM])), at)
        if source != at and each is not found[source] and not _is_copy(each, found[source]):
            source = at
        copies.append(source)
    return copies


def _is_copy(batch: Buffer, other: Buffer) -> bool:
    return memoryview(batch)[SAME_FROM:] == memoryview(other)[SAME_FROM:]


def encode_append(parts: Sequence[Part], copies: Sequence[int]) -> tuple[Kind, list[Buffer]]:
    """Return kind and payload of an append's entry; ``copies``: the result of ``sources``.

    Of a batch that is a copy, only the first SAME_FROM bytes are used.
    """
    if all(source == at for at, source in enumerate(copies)):
        return Kind.APPEND, encode_parts(parts)
    numbers: dict[int, int] = {}
    bodies: list[Buffer] = []
    places: list[Buffer] = []
    for part, source in zip(parts, copies, strict=True):
        key, base, generation, position, synced, batch = part
        if source not in numbers:
            numbers[source] = len(numbers)
            bodies += (_LENGTH.pack(len(batch)), batch)
        offset, epoch = _PLACED.unpack_from(batch)
        where = (key, base, generation, position, synced, numbers[source])
        places.append(_PLACE.pack(*where, offset, epoch))
    return Kind.APPEND_SHARED, [_COUNTS.pack(len(numbers), len(places)), *bodies, *places]


def appended_parts(entry: Entry) -> Iterator[Part]:
    """Yield the batches of an APPEND or APPEND_SHARED entry, as they were appended."""
    if entry.kind is Kind.APPEND:
        yield from decode_parts(entry.payload)
    elif entry.kind is Kind.APPEND_SHARED:
        yield from _decode_shared(entry.payload)


def _decode_shared(payload: memoryview) -> Iterator[Part]:
    bodies, places = _COUNTS.unpack_from(payload)
    at = _COUNTS.size
    batches: list[memoryview] = []
    for _ in range(bodies):
        (length,) = _LENGTH.unpack_from(payload, at)
        at += _LENGTH.size
        batches.append(payload[at : at + length])
        at += length
    for _ in range(places):
        key, base, generation, position, synced, number, offset, epoch = _PLACE.unpack_from(
            payload, at
        )
        at += _PLACE.size
        batch = bytearray(batches[number])
        place(batch, offset, epoch)
        yield Part(key, base, generation, position, synced, batch)

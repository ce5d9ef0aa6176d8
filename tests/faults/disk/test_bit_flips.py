"""Every single bit of a segment of 64 KiB flipped, and every length it may be cut to.

Each is detected (DamagedLog or CorruptBatch when the place is read) or harmless (readers get
exactly the original events); never are events wrong, or missing without a word.

Why this is exhaustive though not every flip is followed by opening a log and reading all of it: a
reader gets a batch through three steps. The log finds the batch by headers and checks those by the
sums of their blocks; the bytes are handed over as they are; and the reader checks the batch by its
own CRC. The first step reads nothing but the index and the headers, so a flip in a body cannot
change it (checked below), and every flip in a body is tried against the third step alone. Every
flip in a header is tried against all steps, from every offset where reading could go wrong. A flip
in one block cannot matter in another: blocks are found by the index, which is another file.
"""

from functools import cache
from random import Random

import pytest
from tests.faults.disk.sample_segments import KINDS, PARTITION, Written, opened, segment_of, write
from tests.faults.ledger import Found, read_all

from mainstem.core.batch import HEADER_SIZE, checksum_matches, read_header
from mainstem.core.errors import CorruptBatch, DamagedLog
from mainstem.core.records import events
from mainstem.log.disk import DiskLog
from mainstem.log.segments.segment import Segment

FOUND_OUT = (DamagedLog, CorruptBatch)

written = cache(write)


class Flips:
    """An open log whose segment can be damaged and mended again and again."""

    def __init__(self, made: Written) -> None:
        self.log = opened(made.image)
        self.segment: Segment = segment_of(self.log, made.path)
        files = self.log._files
        node = files.names_of[made.path]  # type: ignore[attr-defined]
        self.data = bytearray(files.data[node][: self.segment.size])  # type: ignore[attr-defined]
        files.data[node] = self.data  # type: ignore[attr-defined]
        self.expected = [
            each
            for each in made.expected
            if self.segment.base <= each.offset < self.segment.next_offset
        ]
        self.batches = self._batches()

    def _batches(self) -> list[tuple[int, int, int, int]]:
        """Return (position, size, first offset, last offset) of every batch."""
        found, position = [], 0
        while position < len(self.data):
            header = read_header(self.data, position)
            found.append((position, header.size, header.base_offset, header.last_offset))
            position += header.size
        return found

    def distrust(self) -> None:
        """Let the log look at everything as if it had just been opened."""
        self.segment.index.trusted[:] = bytes(len(self.segment.index.trusted))
        self.segment._hints.clear()

    def read(self, offset: int, end: int) -> list[Found]:
        """Read what a reader gets who asks for ``offset`` and goes on to ``end``."""
        self.distrust()
        found: list[Found] = []
        while offset < end:
            piece = self.log.read(PARTITION, offset, 1).tobytes()
            last = read_header(piece).last_offset
            found += [
                Found(event.offset, event.key, event.value)
                for event in events(piece, from_offset=offset)
            ]
            if last < offset:
                raise AssertionError(f"asked for {offset}, got a batch up to {last}")
            offset = last + 1
        return [each for each in found if each.offset < end]

    def harmless(self, offset: int, end: int) -> bool:
        """Tell whether reading is as it should be; if not, it must have been found out."""
        try:
            found = self.read(offset, end)
        except FOUND_OUT:
            return False
        assert found == [each for each in self.expected if offset <= each.offset < end]
        return True


@pytest.mark.parametrize("kind", KINDS)
def test_every_flipped_bit_of_every_header_is_detected_or_harmless(kind: str) -> None:
    flips = Flips(written(kind))
    tried = 0
    for number, (position, _, first, last) in enumerate(flips.batches):
        before = flips.batches[max(number - 1, 0)][2]
        after = flips.batches[min(number + 1, len(flips.batches) - 1)]
        for bit in range(HEADER_SIZE * 8):
            flips.data[position + bit // 8] ^= 1 << bit % 8
            tried += 1

            # From before it, into it, into its middle, and from behind it.
            passes_over = flips.harmless(before, after[3] + 1)
            flips.harmless(first, last + 1)
            flips.harmless(last, after[3] + 1)
            flips.harmless(after[2], after[3] + 1)
            assert not passes_over, f"bit {bit} of the batch at {position}"

            flips.data[position + bit // 8] ^= 1 << bit % 8
    assert tried == len(flips.batches) * HEADER_SIZE * 8


@pytest.mark.parametrize("kind", KINDS)
def test_every_flipped_bit_of_every_body_is_detected(kind: str) -> None:
    flips = Flips(written(kind))
    tried = 0
    for position, size, _, _ in flips.batches:
        batch = flips.data[position : position + size]
        for bit in range(HEADER_SIZE * 8, size * 8):
            batch[bit // 8] ^= 1 << bit % 8
            assert not checksum_matches(batch, 0, size)
            batch[bit // 8] ^= 1 << bit % 8
            tried += 1
    headers = len(flips.batches) * HEADER_SIZE * 8
    assert tried + headers == len(flips.data) * 8


@pytest.mark.parametrize("kind", KINDS)
def test_the_way_to_a_batch_does_not_depend_on_any_body(kind: str) -> None:
    flips = Flips(written(kind))
    places = [flips.log.read(PARTITION, first, 1) for _, _, first, _ in flips.batches]
    for position, size, _, _ in flips.batches:
        body = range(position + HEADER_SIZE, position + size)
        flips.data[body.start : body.stop] = bytes(len(body))

    flips.distrust()

    found = [flips.log.read(PARTITION, first, 1) for _, _, first, _ in flips.batches]
    assert [(each.position, each.length) for each in found] == [
        (each.position, each.length) for each in places
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_every_truncation_is_detected(kind: str) -> None:
    flips = Flips(written(kind))
    whole = bytes(flips.data)
    index = flips.segment.index
    for length in reversed(range(len(whole))):
        del flips.data[length:]
        block = index.block_at(length)
        flips.distrust()

        # Blocks before it are as they were; reading into the one that was cut must fail.
        with pytest.raises(DamagedLog):
            flips.log.read(PARTITION, index.offsets[block], 1)
    assert not flips.data


@pytest.mark.parametrize("kind", KINDS)
def test_a_sample_of_flips_and_truncations_from_opening_to_reading(kind: str) -> None:
    made = written(kind)
    rng = Random(2)
    size = len(made.image.data[made.image.names[made.path]])
    for _ in range(150):
        image = made.image.copy()
        data = bytearray(image.data[image.names[made.path]])
        if rng.random() < 0.3:
            del data[rng.randrange(size) :]
        else:
            data[rng.randrange(size)] ^= 1 << rng.randrange(8)
        image.data[image.names[made.path]] = bytes(data)

        log = opened(image)

        assert _outcome(log, made.expected)


def _outcome(log: DiskLog, expected: list[Found]) -> str:
    """Return what became of some damage; wrong or missing events are an error here."""
    try:
        found = read_all(log, PARTITION, 1 << 20)
    except FOUND_OUT:
        return "detected"
    if found != expected:
        assert log.recovery.findings, "events are missing, and nobody said so"
        assert found == expected[: len(found)]
        return "reported"
    return "harmless"

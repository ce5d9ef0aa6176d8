"""Sequence numbers and offsets, with gaps between offsets as transactions leave them."""

import bisect
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from mainstem.heads.moldudp64.numbering import FAR, NEAR, Mark, Numbering, merged

runs = st.lists(st.tuples(st.integers(1, 300), st.integers(0, 3)), min_size=1, max_size=30)
"""Events without a gap, and the gap that follows."""


def offsets_of(runs: list[tuple[int, int]]) -> list[int]:
    found: list[int] = []
    offset = 0
    for count, gap in runs:
        found += range(offset, offset + count)
        offset += count + gap
    return found


def found(numbering: Numbering, offsets: list[int], sequence: int) -> tuple[int, int]:
    """Return the offset of a message, read as its place says, and how many others were read."""
    place = numbering.place(sequence)
    return offsets[bisect.bisect_left(offsets, place.offset) + place.skip], place.skip


@given(runs)
def test_every_number_leads_to_its_event(runs: list[tuple[int, int]]) -> None:
    offsets = offsets_of(runs)
    numbering = Numbering([Mark(1, 0)])

    assert [numbering.add(offset) for offset in offsets] == list(range(1, len(offsets) + 1))

    for sequence, offset in enumerate(offsets, 1):
        at, skipped = found(numbering, offsets, sequence)
        assert at == offset
        assert skipped <= NEAR


@given(runs, st.data())
def test_a_restart_from_any_mark_gives_the_same_numbers(
    runs: list[tuple[int, int]], data: st.DataObject
) -> None:
    offsets = offsets_of(runs)
    at = data.draw(st.integers(0, len(offsets) - 1))
    before = Numbering([Mark(1, 0)])
    for offset in offsets[:at]:
        before.add(offset)

    after = Numbering([Mark(1, 0), before.next] if at else [before.next])
    for offset in offsets[at:]:
        after.add(offset)

    assert after.next == Mark(len(offsets) + 1, offsets[-1] + 1)
    for sequence, offset in enumerate(offsets, 1):
        assert found(after, offsets, sequence)[0] == offset


@given(runs, st.integers(1, 7))
def test_exact_numbers_lead_to_their_offsets_without_reading(
    runs: list[tuple[int, int]], portion: int
) -> None:
    offsets = offsets_of(runs)
    stored = {1: Mark(1, 0)}
    before = Numbering(stored.values(), exact=True)
    for at in range(0, len(offsets), portion):
        first = before.next.sequence
        for offset in offsets[at : at + portion]:
            before.add(offset)
        stored |= {mark.sequence: mark for mark in before.since(first)}

    for numbering in (before, Numbering(stored.values(), exact=True)):
        assert numbering.next == Mark(len(offsets) + 1, offsets[-1] + 1)
        assert numbering.offsets(1, 10**6) == offsets
        assert numbering.offsets(3, 2) == offsets[2:4]
        for sequence, offset in enumerate(offsets, 1):
            assert numbering.place(sequence) == (offset, 0)


def test_without_gaps_only_two_marks_are_stored() -> None:
    marks = [Mark(1, 0)]
    for sequence in range(FAR, 50 * FAR, FAR):
        marks, _ = merged(marks, Mark(sequence + 1, sequence))

    assert marks == [Mark(1, 0), Mark(49 * FAR + 1, 49 * FAR)]


def test_with_gaps_marks_stay_far_apart() -> None:
    marks = [Mark(1, 0)]
    for sequence in range(51, 100_000, 50):
        marks, _ = merged(marks, Mark(sequence, 2 * sequence))

    assert all(b.sequence - a.sequence >= FAR - 50 for a, b in pairwise(marks[:-1]))
    assert len(marks) < 100_000 // FAR + 3

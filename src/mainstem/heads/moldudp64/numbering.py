"""Which offset a sequence number has: a session numbers its messages without gaps.

How this works: offsets have gaps, as transactions take some for their markers. So for some messages
a mark records their sequence number and offset. If there is no gap between two marks, the offset of
any sequence number between them is known; otherwise it is found by reading on from the mark before
it. After a gap marks are ``NEAR`` messages apart in memory, and ``FAR`` in the definitions, from
which they are read after a restart. The numbers follow from the log alone, as long as only
retention removes events from it: after a crash a session gives each message the same number as
before.

Compaction and ``delete_acked`` remove events between others, after which the numbers cannot be
found by reading. Sessions of such topics are ``exact``: there is a mark after every gap, and all
marks are stored before their messages are sent.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import NamedTuple

NEAR = 100
FAR = 10_000


class Mark(NamedTuple):
    """A sequence number, and an offset: its message is the first one at or after the offset."""

    sequence: int
    offset: int


class Place(NamedTuple):
    """Where to read a message: ``skip`` messages after the first one from ``offset`` on."""

    offset: int
    skip: int


class Numbering:
    """The marks of a session, and the mark of its next message."""

    def __init__(self, marks: Iterable[Mark], *, exact: bool = False) -> None:
        """Start with stored marks: at least one, in order. ``exact``: one after every gap."""
        known = list(marks)
        self._is_exact = exact
        self._sequences = array("Q", (it.sequence for it in known))
        self._offsets = array("Q", (it.offset for it in known))
        self.next = known[-1]
        """The mark of the next message that will be numbered."""

    @property
    def first(self) -> Mark:
        """The first mark."""
        return Mark(self._sequences[0], self._offsets[0])

    def add(self, offset: int) -> int:
        """Return the number of the next message, which has this offset."""
        sequence = self.next.sequence
        since = sequence - self._sequences[-1]
        if self._is_exact:
            if offset != self.next.offset:
                self.learn(Mark(sequence, offset))
        elif since >= NEAR and offset - self._offsets[-1] != since:
            # There is a gap before the next message, or there was one since the last mark.
            self.learn(self.next)
        self.next = Mark(sequence + 1, offset + 1)
        return sequence

    def skip_to(self, offset: int) -> None:
        """Continue at a later offset: the events before it were deleted before they got numbers."""
        self.next = Mark(self.next.sequence, offset)
        self.learn(self.next)

    def learn(self, mark: Mark) -> None:
        """Add a mark that is known from reading the log."""
        at = bisect_left(self._sequences, mark.sequence)
        if at == len(self._sequences) or self._sequences[at] != mark.sequence:
            self._sequences.insert(at, mark.sequence)
            self._offsets.insert(at, mark.offset)
        else:
            self._offsets[at] = max(self._offsets[at], mark.offset)

    def place(self, sequence: int) -> Place:
        """Return where to read a message that has a number."""
        at = bisect_right(self._sequences, sequence) - 1
        mark = Mark(self._sequences[at], self._offsets[at])
        after = self.after(sequence)
        has_no_gap = after.offset - mark.offset == after.sequence - mark.sequence
        if self._is_exact or has_no_gap:
            return Place(mark.offset + sequence - mark.sequence, 0)
        return Place(mark.offset, sequence - mark.sequence)

    def around(self, offset: int) -> tuple[Mark, Mark]:
        """Return the last mark before an offset, and the first one at or after it.

        The mark of the next message counts as the last one. If none is before the offset, both
        returned marks are the same.
        """
        at = bisect_left(self._offsets, offset)
        after = self.next
        if at < len(self._offsets):
            after = min(after, Mark(self._sequences[at], self._offsets[at]))
        before = Mark(self._sequences[at - 1], self._offsets[at - 1]) if at else after
        return before, after

    def offsets(self, sequence: int, count: int) -> list[int]:
        """Return the offsets of up to ``count`` numbered messages; only for ``exact`` sessions."""
        end = min(sequence + count, self.next.sequence)
        found: list[int] = []
        while sequence < end:
            before = min(end, self.after(sequence).sequence)
            first = self.place(sequence).offset
            found += range(first, first + before - sequence)
            sequence = before
        return found

    def since(self, sequence: int) -> list[Mark]:
        """Return the marks from a sequence number on, and the mark of the next message."""
        at = bisect_left(self._sequences, sequence)
        end = bisect_left(self._sequences, self.next.sequence)
        return [*map(Mark, self._sequences[at:end], self._offsets[at:end]), self.next]

    def after(self, sequence: int) -> Mark:
        """Return the first mark after a sequence number; at the end that of the next message."""
        at = bisect_right(self._sequences, sequence)
        if at == len(self._sequences):
            return self.next
        return Mark(self._sequences[at], self._offsets[at])


def merged(marks: list[Mark], new: Mark) -> tuple[list[Mark], Mark | None]:
    """Return stored marks and a new one, and the mark that it replaces, if any."""
    if len(marks) > 1:
        (first, first_at), (last, last_at) = marks[-2:]
        has_no_gap = new.offset - first_at == new.sequence - first
        if new.sequence - first < FAR or (has_no_gap and last_at - first_at == last - first):
            return [*marks[:-1], new], marks[-1]
    return [*marks, new], None

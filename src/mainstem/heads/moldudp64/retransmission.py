"""Reads messages again by their sequence numbers, to answer requests.

A message that compaction or ``delete_acked`` has removed is empty in the answer.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

from mainstem.broker.door import Door
from mainstem.broker.door import Feed as Reader
from mainstem.core.errors import Failure, MainstemError, OffsetOutOfRange
from mainstem.heads.moldudp64.codec import MAX_MESSAGE_BYTES, blocked, fitting
from mainstem.heads.moldudp64.feeds import Feed
from mainstem.heads.moldudp64.numbering import NEAR, Mark, Numbering
from mainstem.heads.moldudp64.recent import Recent

RUN_MESSAGES = 2_000
RUN_BYTES = 1024 * 1024
"""How much is read from the log for a request: more than it asks for, as the next request is often
for what follows.
"""
REMOVED = blocked(b"")


class NotSent(MainstemError, failure=Failure.NOT_FOUND):
    """The session has not sent a message with this number yet."""

    def __init__(self, session: str, sequence: int) -> None:
        super().__init__(f"session {session} has no message {sequence} yet")


class Deleted(MainstemError, failure=Failure.NOT_FOUND):
    """Retention has deleted the message."""

    def __init__(self, session: str, sequence: int) -> None:
        super().__init__(f"message {sequence} of session {session} is older than the retention")


class Replay(NamedTuple):
    """Messages for an answer, and how many events were read from the log to find them."""

    blocks: Sequence[bytes]
    read: int


class Retransmission:
    """Finds numbered messages of a session."""

    def __init__(self, feed: Feed, numbering: Numbering, max_packet_bytes: int) -> None:
        self._session, self._is_exact = feed.session, feed.stores_numbers
        self._partition = (feed.topic, feed.partition)
        self._numbering, self._max_bytes = numbering, max_packet_bytes
        self.recent = Recent()

    def read(self, door: Door, sequence: int, count: int, end: int) -> Replay:
        """Return up to ``count`` messages, as many as fit into a packet, but at least one.

        ``end``: the sequence number of the first message that was not sent yet. Raises NotSent,
        Deleted, and the errors of ``door``.
        """
        # This checks the permission, too.
        reader = door.follow(*self._partition, door.bounds(*self._partition).start)
        if sequence >= end:
            raise NotSent(self._session, sequence)
        count = min(count, end - sequence)
        read, found = 0, self.recent.find(sequence, count)
        if not found:
            read, run = self._run(reader, sequence)
            self.recent.add(sequence, run)
            found = run[:count]
        fit, _ = fitting(map(len, found), self._max_bytes, count)
        return Replay(found[:fit], read)

    def sequence_at(self, door: Door, offset: int) -> int:
        """Return the number of the first message at or after an offset that was numbered.

        Raises OffsetOutOfRange if retention has deleted the offset, and the errors of ``door``.
        """
        bounds = door.bounds(*self._partition)
        if offset < bounds.start:
            raise OffsetOutOfRange("{}[{}]".format(*self._partition), offset, *bounds[:2])
        reader = door.follow(*self._partition, offset)
        before, after = self._numbering.around(offset)
        if offset >= after.offset or before is after:
            return after.sequence
        has_no_gap = after.offset - before.offset == after.sequence - before.sequence
        if self._is_exact or has_no_gap:
            return min(after.sequence, before.sequence + offset - before.offset)
        return after.sequence - _count_before(reader, after.offset)

    def _run(self, reader: Reader, sequence: int) -> tuple[int, Sequence[bytes]]:
        """Read consecutive messages; return how many events were read, and the messages."""
        start = reader.offset
        read = self._learn_start(reader, sequence)
        if sequence < self._numbering.first.sequence:
            raise Deleted(self._session, sequence)
        place = self._numbering.place(sequence)
        if place.offset < start:
            raise Deleted(self._session, sequence)
        if self._is_exact:
            return self._run_of_numbers(reader, sequence)
        reader.seek(place.offset)
        self._skip(reader, sequence, place.skip)
        count = min(RUN_MESSAGES, self._numbering.next.sequence - sequence)
        found: list[bytes] = []
        left = RUN_BYTES
        while len(found) < count and left > 0:
            messages = _messages(reader, count - len(found), left)
            if not messages:
                break
            found += messages
            left -= sum(map(len, messages))
        return read + place.skip + len(found), found

    def _run_of_numbers(self, reader: Reader, sequence: int) -> tuple[int, Sequence[bytes]]:
        offsets = self._numbering.offsets(sequence, RUN_MESSAGES)
        reader.seek(offsets[0])
        found: list[bytes] = []
        read, left = 0, RUN_BYTES
        while len(found) < len(offsets) and left > 0:
            events = reader.take(len(offsets) - len(found), left)
            read += len(events)
            for event in events:
                at = bisect_left(offsets, event.offset, len(found))
                found += [REMOVED] * (at - len(found))
                # An event that is too large for UDP has no number.
                if at < len(offsets) and offsets[at] == event.offset:
                    found.append(blocked(event.value or b""))
                    left -= len(found[-1])
            if not events:
                found += [REMOVED] * (len(offsets) - len(found))
        return read, found

    def _skip(self, reader: Reader, sequence: int, skip: int) -> None:
        while skip:
            # Not more events than messages to skip, so the requested message is not read past.
            skipped = len(_messages(reader, min(skip, NEAR)))
            if not skipped:
                raise NotSent(self._session, sequence)
            skip -= skipped
            self._numbering.learn(Mark(sequence - skip, reader.offset))

    def _learn_start(self, reader: Reader, sequence: int) -> int:
        """Find the number of the log's first event if needed; return how many events it read."""
        start = reader.offset
        place, after = self._numbering.place(sequence), self._numbering.after(sequence)
        if not place.skip or place.offset >= start or after.offset <= start:
            return 0
        count = _count_before(reader, after.offset)
        self._numbering.learn(Mark(after.sequence - count, start))
        return count


def _count_before(reader: Reader, end: int) -> int:
    """Return how many messages are between the reader's position and an offset."""
    count = 0
    while reader.offset < end:
        events = reader.take(NEAR)
        if not events:
            break
        count += sum(it.offset < end and _is_message(it.value) for it in events)
    return count


def _messages(reader: Reader, count: int, max_bytes: int = MAX_MESSAGE_BYTES) -> list[bytes]:
    """Return the next messages as blocks; empty only at the end of the log."""
    while events := reader.take(count, max_bytes):
        if found := [blocked(it.value or b"") for it in events if _is_message(it.value)]:
            return found
    return []


def _is_message(value: bytes | None) -> bool:
    return len(value or b"") <= MAX_MESSAGE_BYTES

"""Publisher confirms of one channel: confirms each delivery tag once, in as few frames as possible.

Messages may be confirmed in any order. A frame with ``multiple``, which confirms all tags up to its
own, is sent only if none of them was confirmed before, because some clients treat a repeated tag as
an error.
"""

from collections.abc import Sequence

from mainstem.heads.amqp091.codec import ack_frame, nack_frame


class Confirms:
    """Numbers a channel's published messages, and encodes their confirms."""

    def __init__(self, channel: int) -> None:
        self._channel = channel
        self._last = 0
        self._first_open = 1
        """The lowest delivery tag that is not confirmed yet."""
        self._ahead: set[int] = set()
        """Tags above ``_first_open`` that were confirmed out of order."""

    def next(self) -> int:
        """Return the delivery tag of the next published message."""
        self._last += 1
        return self._last

    def ack(self, numbers: Sequence[int]) -> list[bytes]:
        """Return the frames that confirm the messages with these tags, which must be ascending."""
        if not numbers:
            return []
        first, last = numbers[0], numbers[-1]
        is_run = last - first == len(numbers) - 1
        if first == self._first_open and is_run:
            self._first_open = last + 1
            self._catch_up()
            return [ack_frame(self._channel, last, multiple=first != last)]
        self._note(numbers)
        return [ack_frame(self._channel, each) for each in numbers]

    def nack(self, numbers: Sequence[int]) -> list[bytes]:
        """Return the frames (BasicNack) that report the messages with these tags as not stored."""
        self._note(numbers)
        return [nack_frame(self._channel, each) for each in numbers]

    def _note(self, numbers: Sequence[int]) -> None:
        self._ahead.update(numbers)
        self._catch_up()

    def _catch_up(self) -> None:
        while self._first_open in self._ahead:
            self._ahead.remove(self._first_open)
            self._first_open += 1

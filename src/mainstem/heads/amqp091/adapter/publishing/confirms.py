"""Publisher confirms of one channel: every number once, in as few frames as can be.

Numbers may be confirmed in any order. A frame for all up to a number is only sent if none of them
was confirmed before: some clients take a number that comes twice for an error.
"""

from collections.abc import Sequence

from mainstem.heads.amqp091.codec import ack_frame, nack_frame


class Confirms:
    """Numbers the messages of a channel, and confirms them."""

    def __init__(self, channel: int) -> None:
        self._channel = channel
        self._last = 0
        self._first_open = 1
        """The lowest number that is not confirmed."""
        self._ahead: set[int] = set()
        """Numbers above that are confirmed already."""

    def next(self) -> int:
        """Return the number of the next message."""
        self._last += 1
        return self._last

    def ack(self, numbers: Sequence[int]) -> list[bytes]:
        """Confirm messages, given in order."""
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
        """Say that messages were not taken."""
        self._note(numbers)
        return [nack_frame(self._channel, each) for each in numbers]

    def _note(self, numbers: Sequence[int]) -> None:
        self._ahead.update(numbers)
        self._catch_up()

    def _catch_up(self) -> None:
        while self._first_open in self._ahead:
            self._ahead.remove(self._first_open)
            self._first_open += 1

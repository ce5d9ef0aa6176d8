"""Reads a topic from a position on, in portions, without blocking the event loop."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mainstem.broker.door import Door
from mainstem.core.errors import OffsetOutOfRange
from mainstem.core.event import Event

if TYPE_CHECKING:
    from mainstem.broker.door import Feed
    from mainstem.heads.http.adapter.waits import Wait

PORTION_EVENTS = 256
PORTION_BYTES = 256 * 1024
"""Maximum size of what is read at once; the event loop runs other work between portions."""


class TopicReader:
    """Reads partitions of a topic round robin; ``offsets`` has the next offset of each."""

    def __init__(
        self,
        door: Door,
        topic: str,
        starts: Mapping[int, int],
        ends: Mapping[int, int] | None = None,
        *,
        skips: bool = False,
    ) -> None:
        """Begin at ``starts``; stop before ``ends``: an offset in each partition.

        ``skips``: if retention has deleted the next events, continue after them and count their
        offsets in ``missed``; otherwise OffsetOutOfRange is raised.
        """
        self._door, self._topic = door, topic
        self._ends, self._skips = ends, skips
        self._feeds: dict[int, Feed] = {
            number: door.follow(topic, number, offset) for number, offset in starts.items()
        }
        self._turns = list(self._feeds)
        self.offsets = dict(starts)
        """The next offset to read in each partition."""
        self.missed = 0
        """How many offsets retention deleted before they were read."""

    def take(self, max_events: int, max_bytes: int = PORTION_BYTES) -> list[Event]:
        """Return the next events of one partition; empty if no partition has any now."""
        for _ in self._feeds:
            # Round robin, so that no partition starves.
            number = self._turns.pop(0)
            self._turns.append(number)
            if events := self._of(number, max_events, max_bytes):
                return events
        return []

    def add(self, number: int, offset: int) -> None:
        """Also read this partition, from this offset on."""
        self._feeds[number] = self._door.follow(self._topic, number, offset)
        self._turns.append(number)
        self.offsets[number] = offset

    @property
    def is_done(self) -> bool:
        """Whether all partitions were read to their ``ends``."""
        ends = self._ends
        return ends is not None and all(
            offset >= ends.get(number, 0) for number, offset in self.offsets.items()
        )

    def watch(self, wait: "Wait") -> None:
        """Make ``wait.next()`` return when a partition may have more events."""
        for number, feed in self._feeds.items():
            wait.watch(number, feed.watch)

    def _of(self, number: int, max_events: int, max_bytes: int) -> list[Event]:
        feed = self._feeds[number]
        end = None if self._ends is None else self._ends.get(number, 0)
        if end is not None and self.offsets[number] >= end:
            return []
        try:
            events = feed.take(max_events, max_bytes)
        except OffsetOutOfRange as error:
            if not self._skips or error.offset >= error.start:
                raise
            self.missed += error.start - error.offset
            feed.seek(error.start)
            events = feed.take(max_events, max_bytes)
        self.offsets[number] = feed.offset
        if end is not None and feed.offset > end:
            self.offsets[number] = end
            events = [event for event in events if event.offset < end]
        return events

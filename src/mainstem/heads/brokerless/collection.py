"""Appends the messages that a socket receives to a topic.

How this works: the messages that a socket has received in one iteration of the event loop are
appended together. A full topic with backpressure pauses the socket, so that its peers wait. Senders
get no answers: messages that a topic refuses are lost, and counted; a log message says when that
begins and when it ends.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from mainstem.broker.door import Door, HeldPublish
from mainstem.core.errors import MainstemError, TopicExists
from mainstem.core.event import Event
from mainstem.heads.brokerless.metrics import CommonMetrics
from mainstem.heads.context import HeadContext
from mainstem.heads.metric import Metric, Sample

if TYPE_CHECKING:
    from mainstem.heads.brokerless.addresses import Place

Call = Callable[[], None]
_logger = logging.getLogger("mainstem.heads")


class Collection:
    """Appends the messages of one socket to one topic."""

    def __init__(self, context: HeadContext, topic: str) -> None:
        self._context, self.topic = context, topic
        self._pause = self._resume = _nothing
        self._calls: set[Call] = set()
        self._refused = ""
        self._held: list[tuple[Door, Sequence[Event]]] = []
        self.collected = self.lost = 0

    def attach(self, pause: Call, resume: Call) -> None:
        """Set the functions that pause and resume the socket."""
        self._pause, self._resume = pause, resume

    def add(self, door: Door, events: Sequence[Event]) -> None:
        """Append events, after earlier ones that wait for room in the topic."""
        if self._held:
            self._held.append((door, events))
        else:
            self._append(door, events, None)

    def lose(self, count: int, why: str) -> None:
        """Count messages that were not appended, and log why if they are the first."""
        self.lost += count
        if not self._refused:
            _logger.error("messages for topic %s are being lost: %s", self.topic, why)
        self._refused = why

    def samples(self, metrics: CommonMetrics) -> Iterator[tuple[Metric, Sample]]:
        """Yield the numbers of appended and lost messages."""
        yield metrics.collected, ((self.topic,), self.collected)
        yield metrics.lost, ((self.topic,), self.lost)

    def _append(self, door: Door, events: Sequence[Event], held: HeldPublish | None) -> None:
        try:
            found = door.try_publish(self.topic, events, held=held, lazy=True)
        except MainstemError as error:
            self.lose(len(events), str(error))
            self._go_on()
            return
        if isinstance(found, HeldPublish):
            if held is None:
                self._held.insert(0, (door, events))
                self._pause()
            self._context.when_room(
                self._calls, found, lambda again: self._append(door, events, again)
            )
            return
        found.durable.then(lambda error: self._decided(len(events), error))
        self._go_on()

    def _go_on(self) -> None:
        """Append the events that arrived while an append was held, and resume the socket."""
        if self._held:
            waiting, self._held = self._held[1:], []
            self._resume()
            for door, events in waiting:
                self.add(door, events)

    def _decided(self, count: int, error: MainstemError | None) -> None:
        self._context.on_loop(lambda: self._count(count, error))

    def _count(self, count: int, error: MainstemError | None) -> None:
        if error is not None:
            self.lose(count, str(error))
            return
        self.collected += count
        if self._refused:
            _logger.warning("topic %s takes messages again; %d were lost", self.topic, self.lost)
            self._refused = ""


def create_topics(context: HeadContext, wanted: "Sequence[Place]") -> None:
    """Create the topics to collect into, unless automatic creation of topics is off."""
    for each in wanted if context.auto_create else ():
        try:
            context.broker.create_topic(each.topic, context.defaults)
        except TopicExists:
            continue


def event_of(frames: Sequence[bytes]) -> Event:
    """Convert the frames of a message: the last is the value, the first of several the key.

    Frames in between become headers, named by their number.
    """
    if len(frames) == 1:
        return Event(frames[0])
    between = tuple((f"frame-{at}", frame) for at, frame in enumerate(frames[1:-1], 1))
    return Event(frames[-1], frames[0], between)


def _nothing() -> None:
    """Do nothing: the placeholder until a socket is attached."""

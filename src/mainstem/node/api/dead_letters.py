"""Operations on dead letters: list, peek, redrive (publish again), drop.

How this works: as with ``mainstem dead``, a queue on the dead-letter topic stores which letters
were redriven. One append publishes a letter's event and settles the letter, so that a redrive can
be interrupted at any time without losing or repeating an event.
"""

from collections.abc import Callable
from functools import partial
from secrets import token_hex
from typing import Annotated

import msgspec
from msgspec import Meta

from mainstem.auth import Peer
from mainstem.broker.door import (
    Delivery,
    Door,
    HeldPublish,
    Outcome,
    QueueSettings,
    QueueSettlements,
    Settlement,
    TopicEvents,
    Unsettled,
)
from mainstem.core.dead_letters import SUFFIX, Origin, origin_of, revived, topic_of
from mainstem.core.errors import Failure, MainstemError
from mainstem.core.event import Event, Position
from mainstem.heads.admin_operations import NoArguments, operation
from mainstem.heads.context import HeadContext
from mainstem.node.api.door_operations import DoorOperations
from mainstem.node.api.queues import MAX_PEEKED, After, Limit
from mainstem.node.queue_peek import PeekedEvent, peeked

QUEUE = "mainstem.redrive"
"""The queue on a dead-letter topic that stores which letters were redriven."""
SETTINGS = QueueSettings(max_deliveries=None)
_PIECE = 100
_PIECE_BYTES = 4 * 1024 * 1024
_SAID = 10


class DeadLetterTopic(msgspec.Struct, frozen=True):
    """A dead-letter topic, and how many letters it has."""

    name: str
    letters: int
    """Number of dead letters that are not settled; fewer, if the topic is compacted."""


class DeadLetter(msgspec.Struct, frozen=True):
    """A dead letter, and the reason why it is one."""

    letter: PeekedEvent
    origin: Origin | None
    """None if its headers do not tell."""


class PeekLetters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Show the first dead letters of a topic, with their reasons."""

    topic: str
    limit: Limit = 10
    after: After = ""


class RedriveLetters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Publish dead letters again: to their topics of origin, or to another topic."""

    topic: str
    to: Annotated[str | None, Meta(description="A topic; otherwise each letter's origin.")] = None
    limit: Annotated[int, Meta(ge=1, description="Maximum number of dead letters.")] = 1000
    dry_run: Annotated[
        bool, Meta(description="Whether only to report what would be done, and change nothing.")
    ] = False


class Redriven(msgspec.Struct, frozen=True):
    """Result of a redrive."""

    published: dict[str, int]
    """Number of events that were published, or would be, by topic."""
    kept: int
    """Number of dead letters that could not be published, and stay."""
    reasons: list[str]
    """Why the first of these could not be published."""


class NameTopic(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Names a topic that has dead letters, or the dead-letter topic itself."""

    topic: str


class Dropped(msgspec.Struct, frozen=True):
    """Result of a drop: the number of dead letters that were settled."""

    dropped: int


class DeadLetterOperations(DoorOperations):
    """Operations on dead letters."""

    @operation("dead-letters/list", "GET dead-letters")
    def every(self, peer: Peer, _: NoArguments) -> list[DeadLetterTopic]:
        """List the topics of dead letters."""
        door = self._door(peer)
        return [DeadLetterTopic(it.name, _left(door, it.name)) for it in door.topics(f"*{SUFFIX}")]

    @operation("dead-letters/peek", "GET dead-letters/{topic}")
    def peek(self, peer: Peer, asked: PeekLetters) -> list[DeadLetter]:
        """Show the first dead letters of a topic, with their reasons."""
        door, name = self._door(peer), _name(asked.topic)
        partition, _, offset = asked.after.partition(":")
        after = Position(int(partition), int(offset)) if asked.after else None
        found = _peeked(door, name, asked.limit, after)
        return [
            DeadLetter(peeked(each.event, each.deliveries, each.owner), origin_of(each.event))
            for each in found
        ]

    @operation("dead-letters/redrive", "POST dead-letters/{topic}/redrive")
    def redrive(self, peer: Peer, asked: RedriveLetters) -> Redriven:
        """Publish dead letters again: to their topics of origin, or to another topic."""
        door, name = self._door(peer), _name(asked.topic)
        door.topic(name)
        if asked.dry_run:
            tally = _Tally()
            for each in _peeked(door, name, min(asked.limit, MAX_PEEKED), None):
                tally.add(partial(_target, door, each.event, asked.to), each.event)
            return tally.result()
        _ensure_queue(door, name)
        return _Redrive(self._context, door, name, asked.to).run(asked.limit)

    @operation("dead-letters/drop", "DELETE dead-letters/{topic}")
    def drop(self, peer: Peer, asked: NameTopic) -> Dropped:
        """Delete the dead letters of a topic, including redriven ones."""
        door, name = self._door(peer), _name(asked.topic)
        numbers = [each.number for each in door.topic(name).partitions]
        tails = {each: door.bounds(name, each).tail for each in numbers}
        _ensure_queue(door, name)
        count, durable = door.queues.purge(name, QUEUE)
        durable.wait()
        for number, tail in tails.items():
            door.trim(name, number, tail)
        return Dropped(count)


class _Tally:
    """Counts a redrive: letters published by topic, letters that could not be, and why."""

    def __init__(self) -> None:
        self.published: dict[str, int] = {}
        self.kept = 0
        self.reasons: list[str] = []

    def add(self, publish: Callable[[], str], letter: Event) -> bool:
        """Call ``publish`` for a letter and count the result; return whether it succeeded."""
        try:
            topic = publish()
        except MainstemError as error:
            self.kept += 1
            if len(self.reasons) < _SAID:
                self.reasons.append(f"partition {letter.partition}@{letter.offset}: {error}")
            return False
        self.published[topic] = self.published.get(topic, 0) + 1
        return True

    def result(self) -> Redriven:
        return Redriven(self.published, self.kept, self.reasons)


class _Redrive:
    """A redrive of one dead-letter topic, as a consumer of its queue."""

    def __init__(self, context: HeadContext, door: Door, name: str, to: str | None) -> None:
        self._context, self._door, self._name, self._to = context, door, name, to
        self._owner = f"redrive-{token_hex(8)}"

    def run(self, limit: int) -> Redriven:
        """Publish up to ``limit`` letters; those that cannot be published stay in the queue."""
        tally, left = _Tally(), limit
        try:
            while left > 0 and (taken := self._take(left)):
                left -= len(taken)
                for each in taken:
                    tally.add(partial(self._publish, each), each.event)
        finally:
            # Letters that were not published go back to the queue.
            self._door.queues.leave(self._name, QUEUE, self._owner).wait()
        return tally.result()

    def _take(self, limit: int) -> list[Delivery]:
        return self._door.queues.acquire(
            self._name,
            QUEUE,
            self._owner,
            max_events=min(limit, _PIECE),
            max_bytes=_PIECE_BYTES,
            locked=False,
        )

    def _publish(self, delivery: Delivery) -> str:
        entry = _entry(self._door, delivery.event, self._to)
        ack = Settlement(*delivery.event.position, Outcome.ACK, delivery.lease)
        settled = [QueueSettlements(self._name, QUEUE, self._owner, [ack])]
        published = self._door.publish_all([entry], settled)
        while isinstance(published, HeldPublish):
            left_ms = max(0, published.until_ms - self._context.now_ms())
            if not published.room.wait(left_ms / 1000):
                published = published._replace(until_ms=0)
            published = self._door.publish_all([entry], settled, published)
        published.durable.wait()
        return entry.topic


def _entry(door: Door, letter: Event, to: str | None) -> TopicEvents:
    """Return a letter's event with the topic to publish it to: ``to``, or its origin.

    At its origin it keeps its partition.
    """
    event, origin = revived(letter), origin_of(letter)
    if to is not None:
        door.topic(to)
        is_letter = to.endswith(SUFFIX) and origin_of(event) is None
        kept = letter if is_letter else event
        return TopicEvents(to, [Event(kept.value, kept.key, kept.headers)], None)
    if origin is None:
        raise NoOrigin("its topic of origin is unknown; give a topic: to")
    # Keep the partition, as the producer may have chosen it with another partitioner.
    known = len(door.topic(origin.topic).partitions)
    partition = origin.partition if origin.partition < known else None
    return TopicEvents(origin.topic, [Event(event.value, event.key, event.headers)], partition)


def _target(door: Door, letter: Event, to: str | None) -> str:
    return _entry(door, letter, to).topic


class NoOrigin(MainstemError, failure=Failure.INVALID):
    """Raised for a dead letter whose headers do not name the topic it came from."""


def _name(topic: str) -> str:
    return topic if topic.endswith(SUFFIX) else topic_of(topic)


def _ensure_queue(door: Door, name: str) -> None:
    if door.queues.created_with(name, QUEUE) is None:
        door.queues.create(name, QUEUE, SETTINGS).wait()


def _left(door: Door, name: str) -> int:
    if door.queues.created_with(name, QUEUE) is not None:
        return sum(each.unsettled for each in door.queues.show(name, QUEUE).windows)
    bounds = [door.bounds(name, each.number) for each in door.topic(name).partitions]
    return sum(each.tail - each.start for each in bounds)


def _peeked(door: Door, name: str, limit: int, after: Position | None) -> list[Unsettled]:
    if door.queues.created_with(name, QUEUE) is not None:
        return door.queues.peek(name, QUEUE, limit, after)
    found: list[Unsettled] = []
    for each in door.topic(name).partitions:
        start = door.bounds(name, each.number).start
        if after is not None and each.number < after.partition:
            continue
        if after is not None and each.number == after.partition:
            start = max(start, after.offset + 1)
        feed = door.follow(name, each.number, start)
        while len(found) < limit and (more := feed.take(limit - len(found))):
            found.extend(map(Unsettled, more))
    return found

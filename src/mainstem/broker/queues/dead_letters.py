"""Dead letters: failed, expired or excess events, published to the topic ``<topic>.dead``.

If a queue has a ``dead_letter_route``, its dead letters go elsewhere: a router, which a head
registers, maps that route (in AMQP an exchange and routing key) to topics. Such dead letters wait
until a router is registered. If the router raises an error, or a topic refuses the letter, it goes
to ``<topic>.dead`` after all.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from mainstem.broker.publishing.batching import runs
from mainstem.broker.queues.live_queue import LiveQueue
from mainstem.broker.queues.records import Cause
from mainstem.broker.state import State
from mainstem.broker.topics.catalog import Topic
from mainstem.core.dead_letters import buried, topic_of
from mainstem.core.errors import MainstemError, TopicExists, UnknownTopic
from mainstem.core.event import Event
from mainstem.core.partitioner import partition_for
from mainstem.core.records import build
from mainstem.core.topic_settings import TopicSettings
from mainstem.log.port import PartitionId, WritableBatch

_logger = logging.getLogger("mainstem.broker")

CreateTopic = Callable[[str, TopicSettings], object]

_HEADERS_BYTES = 64 * 1024
"""By how many bytes a dead letter may exceed the event's maximum size: for added headers."""


class Death(NamedTuple):
    """Why an event becomes a dead letter: the cause, and an explanation in words."""

    cause: Cause
    reason: str


class DeadEvent(NamedTuple):
    """An event to be routed as a dead letter: its topic and queue, and why it is one."""

    topic: str
    queue: str
    event: Event
    cause: Cause
    deliveries: int


class RoutedEvent(NamedTuple):
    """An event to be appended to a partition of a topic."""

    topic: str
    partition: int
    event: Event


DeadLetterRouter = Callable[[str, DeadEvent], Sequence[RoutedEvent]]
"""Maps a route name and a dead event to the events to append; an empty result drops the dead event.
Must not block.
"""


class Letters(NamedTuple):
    """Dead letters as record batches, ready to be appended."""

    batches: list[tuple[PartitionId, WritableBatch]]
    missed: dict[int, int]
    """Number of events per partition that were deleted before they could become dead letters."""


NO_LETTERS = Letters([], {})


class DeadLetters:
    """Makes dead letters, and creates their topic; used under the queues' lock."""

    def __init__(self, state: State, create_topic: CreateTopic) -> None:
        self._state = state
        self._create_topic = create_topic
        self._now_ms = state.clocks.now_ms
        self.router: DeadLetterRouter | None = None

    def make(self, live: LiveQueue, dead: Mapping[int, Mapping[int, Death]]) -> Letters:
        """Return dead letters for events, given by partition and offset with their ``Death``."""
        letters = Letters([], {})
        for number, deaths in dead.items():
            # Read all events together, so that each batch is decoded only once.
            found = live.again(number, deaths)
            for offset, event in found.items():
                letters.batches.extend(self._letter(live, number, event, deaths[offset]))
            start = live.bounds(number).start
            letters.missed[number] = sum(at < start for at in deaths if at not in found)
        return letters

    def _letter(
        self, live: LiveQueue, number: int, event: Event, death: Death
    ) -> list[tuple[PartitionId, WritableBatch]]:
        entry = live.windows[number].entries.get(event.offset)
        deliveries = 0 if entry is None else entry.deliveries
        if route := live.settings.dead_letter_route:
            dead = DeadEvent(live.topic.name, live.key.name, event, death.cause, deliveries)
            if self.router is None:
                raise MainstemError(
                    f"dead letters of queue {dead.queue!r} go to {route!r}, which only the "
                    "protocol that declared the queue knows, and it is not served: switch it on "
                    "(--amqp)"
                )
            try:
                return self._routed(self.router(route, dead))
            except Exception as error:
                # Events that are settled with this one must not suffer from a bug in a head, or
                # from a topic that refuses the letter.
                _logger.error("%r: a dead letter cannot be routed", dead.queue, exc_info=error)
                problem = f"it cannot be routed to {route!r}: {error}"
                death = death._replace(reason=f"{death.reason}; {problem}")
        letter = buried(event, live.key.name, deliveries, death.reason)
        partitions = self._topic(live.topic).partitions
        at = 0 if letter.key is None else partition_for(letter.key, len(partitions))
        return [(partitions[at], build((letter,), now_ms=self._now_ms()))]

    def _routed(self, routed: Sequence[RoutedEvent]) -> list[tuple[PartitionId, WritableBatch]]:
        batches: list[tuple[PartitionId, WritableBatch]] = []
        for name, partition, event in routed:
            opened = self._state.opened.get(name)
            if opened is not None:
                made = runs(opened.topic, (event,), partition, opened.turns, self._now_ms())
                batches += [(opened.topic.partitions[each.partition], each.batch) for each in made]
        return batches

    def _topic(self, topic: Topic) -> Topic:
        name, settings = topic_of(topic.name), topic.settings
        if (found := self._state.topics.find(name)) is not None:
            return found
        most = settings.max_batch_bytes + _HEADERS_BYTES
        # Another thread may have created the topic first.
        with suppress(TopicExists):
            self._create_topic(
                name, TopicSettings(durability=settings.durability, max_batch_bytes=most)
            )
        if (found := self._state.topics.find(name)) is not None:
            return found
        raise UnknownTopic(name)

"""Dead letters: events that a queue gives up, as they go to the topic ``<topic>.dead``."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from mainstem.broker.queues.live_queue import LiveQueue
from mainstem.broker.state import State
from mainstem.broker.topics.catalog import Topic
from mainstem.core.dead_letters import buried, topic_of
from mainstem.core.errors import TopicExists, UnknownTopic
from mainstem.core.partitioner import partition_for
from mainstem.core.records import build
from mainstem.core.topic_settings import TopicSettings
from mainstem.log.port import PartitionId, WritableBatch

CreateTopic = Callable[[str, TopicSettings], object]

_HEADERS_BYTES = 64 * 1024
"""What the headers of a dead letter may add to the largest event."""


class Letters(NamedTuple):
    """Dead letters that are ready to be appended."""

    batches: list[tuple[PartitionId, WritableBatch]]
    missed: dict[int, int]
    """By partition, how many events were deleted before they could become dead letters."""


NO_LETTERS = Letters([], {})


class DeadLetters:
    """Makes dead letters, and the topic for them; used under the queues' lock."""

    def __init__(self, state: State, create_topic: CreateTopic, now_ms: Callable[[], int]) -> None:
        self._state = state
        self._create_topic = create_topic
        self._now_ms = now_ms

    def make(self, live: LiveQueue, dead: Mapping[int, Mapping[int, str]]) -> Letters:
        """Return events as dead letters, by partition and offset with the reason."""
        letters = Letters([], {})
        partitions: Sequence[PartitionId] = ()
        for number, reasons in dead.items():
            # All at once: a batch is unpacked once, however many of its events are dead.
            found = live.again(number, reasons)
            entries = live.windows[number].entries
            for offset, event in found.items():
                letter = buried(event, live.key.name, entries[offset].deliveries, reasons[offset])
                partitions = partitions or self._topic(live.topic).partitions
                at = 0 if letter.key is None else partition_for(letter.key, len(partitions))
                batch = build((letter,), now_ms=self._now_ms())
                letters.batches.append((partitions[at], batch))
            start = live.bounds(number).start
            letters.missed[number] = sum(at < start for at in reasons if at not in found)
        return letters

    def _topic(self, topic: Topic) -> Topic:
        name, settings = topic_of(topic.name), topic.settings
        if (found := self._state.topics.find(name)) is not None:
            return found
        most = settings.max_batch_bytes + _HEADERS_BYTES
        # Somebody else may have been quicker.
        with suppress(TopicExists):
            self._create_topic(
                name, TopicSettings(durability=settings.durability, max_batch_bytes=most)
            )
        if (found := self._state.topics.find(name)) is not None:
            return found
        raise UnknownTopic(name)

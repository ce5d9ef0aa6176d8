"""Replays: deliver the events of a range to one endpoint again.

How this works: a replay is a definition and a queue, which begins at the range. The endpoint's
sender delivers the queue's events like others, with the same ids, schedule and signatures; order
``key`` or ``endpoint`` holds within the replay. When all events of the range are settled, the queue
and the definition are deleted. Both are stored, so a replay continues after a crash.
"""

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import msgspec

from mainstem.broker.door import Durable
from mainstem.core.errors import MainstemError
from mainstem.core.event import Event

if TYPE_CHECKING:
    from mainstem.broker.door import QueueSettings
    from mainstem.heads.webhooks.adapter.service import Service

_logger = logging.getLogger("mainstem.heads.webhooks")

REPLAY = "replay"
"""The kind of the stored definitions."""


class Replay(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="replay/1"):
    """A replay: its endpoint, and its range of offsets in each partition of a topic."""

    id: str
    endpoint: str
    topic: str
    ranges: dict[int, tuple[int, int]]
    """First offset and end (exclusive), by partition."""
    created_ms: int

    @property
    def key(self) -> str:
        """The key under which the definition is stored."""
        return f"{self.endpoint}/{self.id}"

    @property
    def queue(self) -> tuple[str, str]:
        """Topic and name of the queue of this replay."""
        return self.topic, f"webhook.{self.endpoint}.replay.{self.id}"

    def has(self, event: Event) -> bool:
        """Tell whether an event is in the range of this replay."""
        first, end = self.ranges.get(event.partition, (0, 0))
        return first <= event.offset < end


class Replays:
    """All replays that are not finished; only the event loop may call it."""

    def __init__(self, service: "Service", start: Callable[[Replay], None]) -> None:
        """``start``: called with a new replay to deliver it, if its endpoint is active."""
        self._service, self._start = service, start
        self._broker = service.context.broker
        self._replays: dict[str, Replay] = {}
        decode = msgspec.json.Decoder(Replay).decode
        for key, value in service.definitions.items(REPLAY).items():
            replay = self._replays[key] = decode(value)
            if self._broker.queues.settings(*replay.queue) is None:
                # The topic was deleted, or a crash came after the queue was deleted (``_end``).
                self._forget(replay)

    def of(self, endpoint: str) -> list[Replay]:
        """Return the unfinished replays to an endpoint, the oldest first."""
        found = [each for each in self._replays.values() if each.endpoint == endpoint]
        return sorted(found, key=lambda each: each.created_ms)

    def queues(self, endpoint: str) -> list[tuple[str, str]]:
        """Return the queues of the unfinished replays to an endpoint."""
        return [each.queue for each in self.of(endpoint)]

    def add(
        self,
        endpoint: str,
        topic: str,
        ranges: Mapping[int, tuple[int, int]],
        settings: "QueueSettings",
    ) -> tuple[Replay, Durable]:
        """Store a replay and start to deliver it; return it and its ``Durable``."""
        now_ms = self._service.context.now_ms()
        number = 1 + max((int(each.id) for each in self.of(endpoint)), default=0)
        replay = Replay(
            id=str(number),
            endpoint=endpoint,
            topic=topic,
            ranges={at: found for at, found in ranges.items() if found[0] < found[1]},
            created_ms=now_ms,
        )
        count = len(self._broker.topic(topic).partitions)
        starts = {at: self._broker.bounds(topic, at).tail for at in range(count)}
        starts |= {at: first for at, (first, _) in replay.ranges.items()}
        # The queue first: a crash in between leaves one without a definition, which does nothing.
        self._broker.queues.create(*replay.queue, settings, starts)
        durable = self._service.definitions.set(REPLAY, replay.key, msgspec.json.encode(replay))
        self._replays[replay.key] = replay
        self._start(replay)
        return replay, durable

    def remove(self, endpoint: str) -> None:
        """End all replays to an endpoint."""
        for replay in self.of(endpoint):
            self._end(replay)

    def settled(self, replay: Replay, drop: Callable[[tuple[str, str]], None]) -> None:
        """End a replay if all its events are settled; ``drop`` stops deliveries of its queue."""
        try:
            windows = self._broker.queues.show(*replay.queue).windows
        except MainstemError:
            self._forget(replay)
            return
        ends = {at: end for at, (_, end) in replay.ranges.items()}
        if all(each.start >= ends.get(each.partition, 0) for each in windows):
            drop(replay.queue)
            self._end(replay)

    def _end(self, replay: Replay) -> None:
        try:
            self._broker.queues.delete(*replay.queue)
        except MainstemError as error:
            _logger.warning("the queue of a replay to %s stays: %s", replay.endpoint, error)
        self._forget(replay)

    def _forget(self, replay: Replay) -> None:
        self._replays.pop(replay.key, None)
        try:
            self._service.definitions.delete(REPLAY, replay.key)
        except MainstemError as error:
            _logger.warning("a replay to %s is not forgotten: %s", replay.endpoint, error)

"""The ids of received webhooks, to find duplicates; they are read from ``webhooks.received``.

How this works: an id is appended together with its event, all or nothing. At start the ids of the
longest possible window are read again. A duplicate is answered only when the first append is
durable, too: otherwise its sender would not repeat an event that a power cut could still lose.
"""

import logging
from collections import OrderedDict
from typing import TYPE_CHECKING

from mainstem.broker.door import AT_ONCE, Durable, TopicEvents
from mainstem.core.errors import MainstemError, TopicExists
from mainstem.core.event import Event
from mainstem.heads.webhooks.adapter.own_topics import events_since
from mainstem.heads.webhooks.endpoints import OWN_TOPICS
from mainstem.heads.webhooks.sources import MAX_WINDOW_MS

if TYPE_CHECKING:
    from mainstem.heads.webhooks.adapter.service import Service

_logger = logging.getLogger("mainstem.heads.webhooks")

TOPIC = OWN_TOPICS + "received"
SEGMENT_BYTES = 16 * 1024 * 1024


class ReceivedIds:
    """The ids of received webhooks of all sources; only the event loop may call it."""

    def __init__(self, service: "Service") -> None:
        self._service = service
        self._ids: OrderedDict[tuple[str, str], tuple[int, Durable]] = OrderedDict()
        """By source and message id, the oldest first: when the message came, and the durability of
        its event.
        """

    def start(self) -> None:
        """Create the topic of ids, or read the ids that are not too old from it."""
        context = self._service.context
        broker = context.broker
        try:
            wanted = context.defaults.altered(
                partitions=1, retention_ms=MAX_WINDOW_MS, segment_bytes=SEGMENT_BYTES
            )
            broker.create_topic(TOPIC, wanted)
        except TopicExists:
            since_ms = context.now_ms() - MAX_WINDOW_MS
            at = broker.offset_at(TOPIC, 0, since_ms)
            if at is not None:
                for each in events_since(broker, TOPIC, at.offset):
                    key = ((each.key or b"").decode(), (each.value or b"").decode())
                    self._remember(key, each.timestamp_ms, AT_ONCE)

    def __len__(self) -> int:
        return len(self._ids)

    def find(self, source: str, message_id: str, window_ms: int) -> Durable | None:
        """Return the ``Durable`` of an earlier event with this id, None if it is new."""
        found = self._ids.get((source, message_id))
        if found is None or self._service.context.now_ms() - found[0] > window_ms:
            return None
        return found[1]

    def entry(self, source: str, message_id: str) -> TopicEvents:
        """Return the entry with a message's id, to append together with the message's event."""
        at_ms = self._service.context.now_ms()
        return TopicEvents(TOPIC, [Event(message_id.encode(), source.encode(), (), at_ms)], 0)

    def add(self, source: str, message_id: str, durable: Durable) -> None:
        """Remember the id of a message whose event was appended."""
        key = (source, message_id)
        self._remember(key, self._service.context.now_ms(), durable)

        def decided(error: MainstemError | None) -> None:
            if error is not None:
                self._service.context.on_loop(lambda: self._forget(key, durable))

        durable.then(decided)

    def _remember(self, key: tuple[str, str], at_ms: int, durable: Durable) -> None:
        self._ids[key] = (at_ms, durable)
        self._ids.move_to_end(key)
        while len(self._ids) > self._service.settings.max_ids:
            self._ids.popitem(last=False)

    def _forget(self, key: tuple[str, str], durable: Durable) -> None:
        """Forget an id whose append failed, so that its sender may try again."""
        if key in self._ids and self._ids[key][1] is durable:
            del self._ids[key]

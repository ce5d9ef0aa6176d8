"""The subscriptions of one WebSocket: to topics from a position on, and to queues."""

from collections.abc import Sequence
from contextlib import suppress
from secrets import token_hex

from mainstem.broker.door import Delivery, Door, Outcome, Settled, Settlement
from mainstem.core.errors import InvalidSetting, MainstemError, StaleDelivery, UnknownPartition
from mainstem.core.event import Event
from mainstem.heads.http.adapter.broadcast import Call
from mainstem.heads.http.adapter.groups import check_position, committed
from mainstem.heads.http.adapter.queues import delivery_json
from mainstem.heads.http.adapter.reader import PORTION_EVENTS, TopicReader
from mainstem.heads.http.adapter.service import Service
from mainstem.heads.http.adapter.settling import delivery_named
from mainstem.heads.http.adapter.waits import Wait
from mainstem.heads.http.adapter.websocket import messages
from mainstem.heads.http.adapter.websocket.messages import Settle, Subscribe
from mainstem.heads.http.adapter.websocket.outbox import SocketOutbox
from mainstem.heads.http.filters import matching
from mainstem.heads.http.formats.event_json import event_json
from mainstem.heads.http.positions import EARLIEST, LATEST, starts, written
from mainstem.heads.queue_consumer import QueueConsumer

QUEUE_CREDIT = 100
_YEAR_MS = 365 * 86_400_000


class TopicSubscription:
    """Sends the events of a topic from a position on, limited by credit."""

    def __init__(
        self, service: Service, door: Door, outbox: SocketOutbox, asked: Subscribe, peer: set[Call]
    ) -> None:
        self._service, self._door, self._outbox = service, door, outbox
        self._id = messages.quoted(asked.id)
        self.topic, self.group = asked.topic, asked.group
        self._follows_all = asked.partitions is None
        self._matches = matching(asked.key, asked.filters)
        self._credit = asked.credit
        first = _first(door, asked)
        check_position(door, asked.topic, first)
        self._reader = TopicReader(door, asked.topic, first, skips=True)
        self._missed = 0
        self._wait = Wait(service.context, peer, _YEAR_MS)

    def add_credit(self, count: int) -> None:
        """Increase how many events may be sent; no effect on a subscription without a limit."""
        if self._credit is not None:
            self._credit += count
            self._wait.wake()

    def close(self) -> None:
        """Stop sending events."""
        self._wait.end()

    async def run(self) -> None:
        """Send events until cancelled, the server stops, or the topic is deleted."""
        reader, outbox, wait = self._reader, self._outbox, self._wait
        try:
            while wait.over is None:
                await outbox.until_room()
                events = [] if self._credit == 0 else reader.take(self._portion())
                if reader.missed > self._missed:
                    outbox.send((messages.missed(self._id, reader.missed - self._missed),))
                    self._missed = reader.missed
                if events:
                    self._send(events)
                    continue
                reader.watch(wait)
                wait.watch("topics", self._door.watch_topics)
                await wait.next()
                self._look()
        except MainstemError as error:
            outbox.send((messages.ended(self._id, error),))

    def _portion(self) -> int:
        return PORTION_EVENTS if self._credit is None else min(self._credit, PORTION_EVENTS)

    def _send(self, events: Sequence[Event]) -> None:
        if self._matches is not None:
            events = [event for event in events if self._matches(event)]
        offsets = dict(self._reader.offsets)
        said: list[bytes] = []
        for event in events:
            offsets[event.partition] = event.offset + 1
            said.append(messages.event(self._id, written(offsets).encode(), event_json(event)))
        self._outbox.send(said)
        self._service.counts.read += len(said)
        if self._credit is not None:
            self._credit -= len(said)

    def _look(self) -> None:
        """Follow partitions that were added to the topic, from their start."""
        if self._follows_all:
            for number in range(len(self._door.topic(self.topic).partitions)):
                if number not in self._reader.offsets:
                    self._reader.add(number, self._door.bounds(self.topic, number).start)


class QueueSubscription:
    """Sends deliveries of a queue, which stay with the client until settled or disconnected."""

    group = None

    def __init__(
        self, service: Service, door: Door, outbox: SocketOutbox, asked: Subscribe, name: str
    ) -> None:
        self._id, self.topic = messages.quoted(asked.id), asked.topic
        self._service, self._door, self._outbox = service, door, outbox
        self._owner = f"ws-{token_hex(8)}"
        self._held: set[tuple[int, int, int]] = set()
        """Partition, offset and lease of each delivery that is not settled."""
        self._consumer = QueueConsumer(
            service.context,
            door,
            outbox,
            (asked.topic, name),
            self._owner,
            self._send,
            self._gone,
            credit=QUEUE_CREDIT if asked.credit is None else asked.credit,
            locked=False,
        )
        self.add_credit = self._consumer.add_credit

    def close(self) -> None:
        """Stop sending deliveries, and return the unsettled ones to the queue."""
        self._consumer.close()
        # If the queue was deleted, there is nothing to return to it.
        with suppress(MainstemError):
            self._consumer.leave()

    def settlements(self, asked: Settle) -> list[Settlement]:
        """Convert a Settle message to settlements.

        Raises StaleDelivery for deliveries that are settled, or of another subscription.
        """
        found: list[Settlement] = []
        for name in asked.deliveries:
            leased = delivery_named(name)
            held = (*leased.position, leased.lease)
            if leased.owner != self._owner or held not in self._held:
                raise StaleDelivery(
                    f"delivery {name}", self._owner, "it is settled, or of another subscription"
                )
            outcome = Outcome(asked.action)
            found.append(Settlement(*held[:2], outcome, held[2], asked.delay_ms, asked.reason))
        return found

    def settle(self, settlements: Sequence[Settlement]) -> Settled:
        """Settle deliveries; return the result, whose ``durable`` the caller must wait for."""
        self._forget(settlements)
        return self._consumer.settle(settlements)

    def settle_unconfirmed(self, settlements: Sequence[Settlement]) -> None:
        """Settle deliveries together with those of other connections; only report errors."""
        self._forget(settlements)
        returns = any(each.outcome is not Outcome.ACK for each in settlements)
        self._service.context.settlements.add(
            self._door, self._consumer.queue, self._owner, settlements, self._refused, soon=returns
        )

    def _forget(self, settlements: Sequence[Settlement]) -> None:
        for each in settlements:
            self._held.discard((each.partition, each.offset, each.lease or 0))
        self._consumer.add_credit(len(settlements))

    def _send(self, deliveries: list[Delivery]) -> None:
        for each in deliveries:
            self._held.add((each.event.partition, each.event.offset, each.lease))
        self._outbox.send(
            [messages.delivery(self._id, delivery_json(each, self._owner)) for each in deliveries]
        )
        self._service.counts.read += len(deliveries)

    def _refused(self, error: MainstemError) -> None:
        self._outbox.send((messages.error(error),))

    def _gone(self, error: MainstemError) -> None:
        self._outbox.send((messages.ended(self._id, error),))


Subscription = TopicSubscription | QueueSubscription


def _first(door: Door, asked: Subscribe) -> dict[int, int]:
    """Return where a subscription to a topic begins: the first offset in each partition."""
    count = len(door.topic(asked.topic).partitions)
    numbers = list(range(count)) if asked.partitions is None else asked.partitions
    for number in numbers:
        if not 0 <= number < count:
            raise UnknownPartition(asked.topic, number, count)
    if not numbers:
        raise InvalidSetting("a subscription needs at least one partition")
    if asked.group is None:
        return starts(door, asked.topic, asked.from_ or LATEST, numbers)
    known = committed(door, asked.topic, asked.group, numbers)
    rest = [number for number in numbers if number not in known]
    return known | (starts(door, asked.topic, asked.from_ or EARLIEST, rest) if rest else {})

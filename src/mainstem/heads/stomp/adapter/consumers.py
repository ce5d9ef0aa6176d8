"""Who receives messages: subscriptions to queues, and followers of topics.

How this works: a consumer hands messages to its peer (``Deliveries``), which numbers them. What a
client has to acknowledge stays with its consumer, by its number, until it is settled.
"""

from collections.abc import Callable, Iterable
from itertools import takewhile
from typing import NamedTuple

from mainstem.broker.door import Outcome, QueueSettlements, Settlement
from mainstem.core.errors import MainstemError
from mainstem.core.event import Event
from mainstem.heads.context import HeadContext
from mainstem.heads.conversation import Outbox
from mainstem.heads.follower import Follower
from mainstem.heads.stomp.adapter.destinations import Destination
from mainstem.heads.stomp.adapter.messages import carried
from mainstem.heads.stomp.codec import Version
from mainstem.heads.stomp.metrics import Counts
from mainstem.heads.stomp.session import AckMode, Session, Subscribe

TAKE_EVENTS = 256
TAKE_BYTES = 256 * 1024
"""So much is sent before it is looked whether the peer reads."""

Gone = Callable[["Consumer", MainstemError], None]


class Given(NamedTuple):
    """A message that the client has to acknowledge."""

    event: Event
    lease: int = 0


class Deliveries:
    """What one peer is sent."""

    def __init__(
        self,
        context: HeadContext,
        outbox: Outbox,
        session: Session,
        session_id: str,
        counts: Counts,
        clock_ms: Callable[[], int],
    ) -> None:
        self.context = context
        self.outbox = outbox
        self.session_id = session_id
        self.counts = counts
        self._session = session
        self._clock_ms = clock_ms
        self._last = 0
        self._unsettled: dict[int, Consumer] = {}

    def send(self, consumer: "Consumer", batch: Iterable[tuple[Given, bool]]) -> None:
        """Send events as messages, each with whether it was delivered before."""
        session, named, is_auto = self._session, consumer.subscribe.id, consumer.is_auto
        has_ack = session.version is Version.V1_2 and not is_auto
        frames: list[bytes] = []
        for given, again in batch:
            self._last += 1
            message_id = f"{self.session_id}-{self._last}"
            headers = [
                ("destination", consumer.destination.shown),
                ("message-id", message_id),
                ("redelivered", "true" if again else "false"),
            ]
            if named is not None:
                headers.append(("subscription", named))
            if not is_auto:
                consumer.unsettled[self._last] = given
                self._unsettled[self._last] = consumer
                if has_ack:
                    headers.append(("ack", message_id))
            headers.extend(carried(given.event))
            frames.append(session.message(headers, given.event.value or b""))
        self.outbox.send(frames)
        session.sent_ms = self._clock_ms()
        self.counts.messages += len(frames)

    def settle(self, message_id: str) -> "tuple[Consumer, list[Given]] | None":
        """Take out what an ACK or NACK is about, None if there is no such message.

        With ack mode client that is also every message of the subscription before it.
        """
        session_id, _, digits = message_id.rpartition("-")
        if session_id != self.session_id or not digits.isdecimal() or len(digits) > 18:
            return None
        number = int(digits)
        consumer = self._unsettled.get(number)
        if consumer is None:
            return None
        numbers = [number]
        if consumer.subscribe.ack is AckMode.CLIENT:
            numbers = list(takewhile(lambda each: each <= number, consumer.unsettled))
        for each in numbers:
            del self._unsettled[each]
        return consumer, [consumer.unsettled.pop(each) for each in numbers]


class QueueConsumer:
    """A subscription to a queue, driven by the dispatcher."""

    def __init__(
        self,
        deliveries: Deliveries,
        subscribe: Subscribe,
        destination: Destination,
        gone: Gone,
        *,
        credit: int,
        priority: int,
    ) -> None:
        self.subscribe = subscribe
        self.destination = destination
        self.is_auto = subscribe.ack is AckMode.AUTO
        self.unsettled: dict[int, Given] = {}
        self._deliveries = deliveries
        self._queues = deliveries.context.broker.queues
        self._place = destination.topic, destination.queue
        self._owner = f"stomp {deliveries.session_id} {subscribe.key}"
        self._waits_for_room = self._has_taken = False
        self._consumer = deliveries.context.dispatcher.consume(
            *self._place,
            self._take,
            gone=lambda error: gone(self, error),
            # Whoever acknowledges nothing is limited by how fast it reads.
            credit=None if self.is_auto else credit,
            priority=priority,
        )
        self.add_credit = self._consumer.add_credit

    def settlements(self, given: Iterable[Given], outcome: Outcome) -> QueueSettlements:
        """Return what to append when messages are settled."""
        said = [Settlement(*each.event.position, outcome, each.lease) for each in given]
        return QueueSettlements(*self._place, self._owner, said)

    def renew(self) -> None:
        """Keep what the client works on."""
        if self.unsettled:
            kept = self.settlements(self.unsettled.values(), Outcome.RENEW)
            self._queues.settle(*kept)

    def lock_ms(self) -> int | None:
        """Return how long the client may work on its messages without that; None if it has none."""
        settings = self._queues.settings(*self._place) if self.unsettled else None
        return None if settings is None else settings.lock_ms

    def close(self) -> None:
        """Send nothing more; what the client has may still be settled."""
        self._consumer.close()

    def leave(self) -> None:
        """Give back what the client has not settled: it is delivered again."""
        if self._has_taken and not self.is_auto:
            self._queues.leave(*self._place, self._owner, failed=True)

    def _take(self, limit: int) -> int:
        self._has_taken = True
        taken = self._queues.acquire(
            *self._place,
            self._owner,
            max_events=min(limit, TAKE_EVENTS),
            max_bytes=TAKE_BYTES,
        )
        if not taken:
            return 0
        given = [(Given(each.event, each.lease), each.count > 1) for each in taken]
        self._deliveries.send(self, given)
        if self.is_auto:
            self._queues.settle(*self.settlements((each for each, _ in given), Outcome.ACK))
        outbox = self._deliveries.outbox
        if outbox.is_full and not self._waits_for_room:
            self._waits_for_room = True
            self._consumer.pause()
            outbox.when_room(self._has_room)
        return len(taken)

    def _has_room(self) -> None:
        self._waits_for_room = False
        self._consumer.resume()


class TopicConsumer:
    """A subscription to a topic that ends with its session.

    What the client gives back comes again at once, as the topic knows nothing of its followers.
    """

    def __init__(
        self,
        deliveries: Deliveries,
        subscribe: Subscribe,
        destination: Destination,
        gone: Gone,
        *,
        credit: int,
        from_start: bool,
    ) -> None:
        self.subscribe = subscribe
        self.destination = destination
        self.is_auto = subscribe.ack is AckMode.AUTO
        self.unsettled: dict[int, Given] = {}
        self._deliveries = deliveries
        self._follower = Follower(
            deliveries.context,
            deliveries.outbox,
            destination.topic,
            self._send,
            lambda error: gone(self, error),
            credit=None if self.is_auto else credit,
            from_start=from_start,
        )
        self.add_credit = self._follower.add_credit
        self.look = self._follower.look

    def give_back(self, given: Iterable[Given]) -> None:
        """Send messages again that the client did not accept."""
        self._deliveries.send(self, ((each, True) for each in given))

    def close(self) -> None:
        """Send nothing more."""
        self._deliveries.counts.missed += self._follower.missed
        self._follower.close()

    def _send(self, events: list[Event]) -> None:
        self._deliveries.send(self, ((Given(event), False) for event in events))


Consumer = QueueConsumer | TopicConsumer

"""Subscriptions: send a client the messages of a queue, or of a topic from its end on.

How this works: ``Messages`` numbers the messages that are sent to a client. Under that number it
remembers the position of each unacknowledged message, but not the event, which stays in the log.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import takewhile

from mainstem.broker.door import Delivery, Door, Outcome, Settlement
from mainstem.core.errors import MainstemError
from mainstem.core.event import Event
from mainstem.heads.conversation import Outbox
from mainstem.heads.queue_consumer import QueueConsumer, settlement
from mainstem.heads.stomp.adapter.destinations import Destination, Kind
from mainstem.heads.stomp.adapter.messages import carried
from mainstem.heads.stomp.adapter.service import Service
from mainstem.heads.stomp.codec import Version
from mainstem.heads.stomp.session import AckMode, Session, Subscribe
from mainstem.heads.topic_consumer import TopicConsumer


class Messages:
    """Sends one client's MESSAGE frames, and remembers the unacknowledged ones."""

    def __init__(self, service: Service, outbox: Outbox, session: Session, session_id: str) -> None:
        self.service, self.outbox = service, outbox
        self._session, self.session_id = session, session_id
        self._last = 0
        self._unsettled: dict[int, Subscription] = {}

    def send(
        self, subscription: "Subscription", batch: Iterable[tuple[Event, Settlement, bool]]
    ) -> None:
        """Send events as messages; each has its settlement, and whether it is a redelivery."""
        session, named, is_auto = self._session, subscription.request.id, subscription.is_auto
        has_ack = session.version is Version.V1_2 and not is_auto
        frames: list[bytes] = []
        for event, settles, again in batch:
            self._last += 1
            message_id = f"{self.session_id}-{self._last}"
            headers = [
                ("destination", subscription.destination.shown),
                ("message-id", message_id),
                ("redelivered", "true" if again else "false"),
            ]
            if named is not None:
                headers.append(("subscription", named))
            if not is_auto:
                subscription.unsettled[self._last] = settles
                self._unsettled[self._last] = subscription
                if has_ack:
                    headers.append(("ack", message_id))
            headers.extend(carried(event))
            frames.append(session.message(headers, event.value or b""))
        self.outbox.send(frames)
        session.sent_ms = self.service.clock_ms()
        self.service.counts.messages += len(frames)

    def settle(self, message_id: str) -> "tuple[Subscription, list[Settlement]] | None":
        """Remove and return the settlements of the messages that an ACK or NACK covers.

        None if there is no such message. In ack mode client these include all earlier messages of
        the subscription.
        """
        session_id, _, digits = message_id.rpartition("-")
        if session_id != self.session_id or not digits.isdecimal() or len(digits) > 18:
            return None
        number = int(digits)
        subscription = self._unsettled.get(number)
        if subscription is None:
            return None
        numbers = [number]
        if subscription.request.ack is AckMode.CLIENT:
            numbers = list(takewhile(lambda each: each <= number, subscription.unsettled))
        for each in numbers:
            del self._unsettled[each]
        return subscription, [subscription.unsettled.pop(each) for each in numbers]


class Subscription:
    """A client's subscription: sends the messages of a queue, or of a topic from its end on."""

    def __init__(
        self,
        messages: Messages,
        door: Door,
        request: Subscribe,
        destination: Destination,
        cancelled: Callable[["Subscription", MainstemError], None],
        *,
        credit: int,
        priority: int,
    ) -> None:
        self.request = request
        self.destination = destination
        self.is_auto = request.ack is AckMode.AUTO
        self.unsettled: dict[int, Settlement] = {}
        self._messages = messages
        # Without acknowledgements, sending is limited only by how fast the client reads.
        limit = None if self.is_auto else credit
        self.source: QueueConsumer | TopicConsumer
        if destination.queue:
            self.source = QueueConsumer(
                messages.service.context,
                door,
                messages.outbox,
                (destination.topic, destination.queue),
                f"stomp {messages.session_id} {request.key}",
                self._send_deliveries,
                lambda error: cancelled(self, error),
                credit=limit,
                priority=priority,
                auto_ack=self.is_auto,
            )
        else:
            self.source = TopicConsumer(
                messages.service.context,
                door,
                messages.outbox,
                destination.topic,
                self._send_events,
                lambda error: cancelled(self, error),
                credit=limit,
                from_start=destination.kind is Kind.TEMPORARY,
            )
        self.add_credit = self.source.add_credit

    @property
    def queue(self) -> QueueConsumer | None:
        """The consumer of the queue; None if the subscription is to a topic."""
        return self.source if isinstance(self.source, QueueConsumer) else None

    def upkeep(self) -> None:
        """Renew the locks of a queue's unsettled messages; or read a topic's new partitions."""
        if isinstance(self.source, TopicConsumer):
            self.source.look()
        elif self.unsettled:
            self.source.renew(self.unsettled.values())

    def settle_followed(self, settled: Sequence[Settlement]) -> None:
        """Settle messages of a topic: send nacked ones again, unless retention has deleted them."""
        assert isinstance(self.source, TopicConsumer)
        nacked = [each for each in settled if each.outcome is Outcome.NACK]
        found = [self.source.again(each.partition, each.offset) for each in nacked]
        events = [each for each in found if each is not None]
        self._send_events(events, again=True)
        self.add_credit(len(settled) - len(events))

    def close(self) -> None:
        """Stop sending messages; the client may still acknowledge those that were sent."""
        if isinstance(self.source, TopicConsumer):
            self._messages.service.counts.missed += self.source.missed
        self.source.close()

    def _send_deliveries(self, deliveries: list[Delivery]) -> None:
        batch = ((each.event, settlement(each), each.redelivered) for each in deliveries)
        self._messages.send(self, batch)

    def _send_events(self, events: list[Event], *, again: bool = False) -> None:
        batch = ((event, Settlement(*event.position), again) for event in events)
        self._messages.send(self, batch)

"""Subscriptions: the messages of a queue, or of a topic from its end on, sent to a client.

How this works: ``Messages`` numbers what a client is sent. What it has to acknowledge is kept by
that number, as a position and no event: however long a client takes, its messages are in the log.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import takewhile

from mainstem.broker.door import Delivery, Door, QueueSettlements, Settlement
from mainstem.core.errors import MainstemError
from mainstem.core.event import Event
from mainstem.heads.conversation import Outbox
from mainstem.heads.follower import Follower
from mainstem.heads.queue_consumer import QueueConsumer, settlement
from mainstem.heads.stomp.adapter.destinations import Destination, Kind
from mainstem.heads.stomp.adapter.messages import carried
from mainstem.heads.stomp.adapter.service import Service
from mainstem.heads.stomp.codec import Version
from mainstem.heads.stomp.session import AckMode, Session, Subscribe

Cancelled = Callable[["Subscription", MainstemError], None]


class Messages:
    """The MESSAGE frames of one client."""

    def __init__(self, service: Service, outbox: Outbox, session: Session, session_id: str) -> None:
        self.service = service
        self.outbox = outbox
        self.session_id = session_id
        self._session = session
        self._last = 0
        self._unsettled: dict[int, Subscription] = {}

    def send(
        self, subscription: "Subscription", batch: Iterable[tuple[Event, Settlement, bool]]
    ) -> None:
        """Send events, each with what settles it, and whether it was delivered before."""
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
        """Take out what an ACK or NACK is about, None if there is no such message.

        With ack mode client that is also every message of the subscription before it.
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


class QueueSubscription:
    """A subscription to a queue."""

    def __init__(
        self,
        messages: Messages,
        door: Door,
        request: Subscribe,
        destination: Destination,
        cancelled: Cancelled,
        *,
        credit: int,
        priority: int,
    ) -> None:
        self.request = request
        self.destination = destination
        self.is_auto = request.ack is AckMode.AUTO
        self.unsettled: dict[int, Settlement] = {}
        self._messages = messages
        self.consumer = QueueConsumer(
            messages.service.context,
            door,
            messages.outbox,
            (destination.topic, destination.queue),
            f"stomp {messages.session_id} {request.key}",
            self._send,
            lambda error: cancelled(self, error),
            # Whoever acknowledges nothing is limited by how fast it reads.
            credit=None if self.is_auto else credit,
            priority=priority,
            auto_ack=self.is_auto,
        )
        self.add_credit = self.consumer.add_credit
        self.close = self.consumer.close

    def settlements(self, settled: Sequence[Settlement]) -> QueueSettlements:
        """Return what to append with the events of a transaction."""
        return QueueSettlements(*self.consumer.queue, self.consumer.owner, settled)

    def renew(self) -> None:
        """Keep what the client works on."""
        if self.unsettled:
            self.consumer.renew(self.unsettled.values())

    def _send(self, deliveries: list[Delivery]) -> None:
        batch = ((each.event, settlement(each), each.count > 1) for each in deliveries)
        self._messages.send(self, batch)


class TopicSubscription:
    """A subscription to a topic that ends with its session.

    What the client gives back comes again at once, as the topic knows nothing of its followers.
    """

    def __init__(
        self,
        messages: Messages,
        door: Door,
        request: Subscribe,
        destination: Destination,
        cancelled: Cancelled,
        *,
        credit: int,
    ) -> None:
        self.request = request
        self.destination = destination
        self.is_auto = request.ack is AckMode.AUTO
        self.unsettled: dict[int, Settlement] = {}
        self._messages = messages
        self._follower = Follower(
            messages.service.context,
            door,
            messages.outbox,
            destination.topic,
            lambda events: self._send(events, again=False),
            lambda error: cancelled(self, error),
            credit=None if self.is_auto else credit,
            from_start=destination.kind is Kind.TEMPORARY,
        )
        self.add_credit = self._follower.add_credit
        self.look = self._follower.look

    def send_again(self, settled: Iterable[Settlement]) -> None:
        """Send messages again that the client did not accept, as far as they are still there."""
        found = [self._follower.again(each.partition, each.offset) for each in settled]
        events = [each for each in found if each is not None]
        self._send(events, again=True)
        self.add_credit(len(found) - len(events))

    def close(self) -> None:
        """Send nothing more."""
        self._messages.service.counts.missed += self._follower.missed
        self._follower.close()

    def _send(self, events: list[Event], *, again: bool) -> None:
        batch = ((event, Settlement(*event.position), again) for event in events)
        self._messages.send(self, batch)


Subscription = QueueSubscription | TopicSubscription

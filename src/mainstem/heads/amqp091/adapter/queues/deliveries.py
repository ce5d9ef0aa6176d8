"""Deliveries of one channel: sends them to consumers, and settles them by delivery tag."""

from collections.abc import Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

from mainstem.broker.door import Delivery, Outcome, QueueSettlements, Settlement
from mainstem.core.errors import MainstemError, UnknownQueue, UnknownTopic
from mainstem.core.event import Event
from mainstem.heads.amqp091 import codec
from mainstem.heads.amqp091.adapter.messages import MAX_FOREIGN_BYTES, Content, with_delivery_count
from mainstem.heads.amqp091.adapter.topology.declared import NO_ARGUMENTS
from mainstem.heads.amqp091.adapter.topology.queue_arguments import QueueType
from mainstem.heads.amqp091.errors import AmqpError, ReplyCode
from mainstem.heads.amqp091.fields import Table, short_string
from mainstem.heads.amqp091.messages import Publish
from mainstem.heads.conversation import Piece
from mainstem.heads.dispatcher import SessionCredit
from mainstem.heads.queue_consumer import QueueConsumer, settlement
from mainstem.heads.settlements import RETRY_MS

if TYPE_CHECKING:
    from mainstem.heads.amqp091.adapter.conversation import AmqpConversation
    from mainstem.heads.amqp091.adapter.queues.queues import DeclaredQueue


MAX_UNREAD_REPLIES = 16 * 1024 * 1024
"""Limit on direct replies that a client has not read, because no queue stores them."""


class Consumer:
    """A consumer of one channel."""

    def __init__(
        self,
        tag: str,
        queue: "DeclaredQueue",
        *,
        no_ack: bool,
        exclusive: bool,
        prefetch: int | None = None,
        arguments: Table = NO_ARGUMENTS,
    ) -> None:
        self.tag = tag
        self.tag_bytes = short_string(tag)
        self.queue = queue
        self.no_ack = no_ack
        self.exclusive = exclusive
        self.prefetch = prefetch
        self.arguments = arguments
        self.source: QueueConsumer

    def add_credit(self, count: int) -> None:
        """Increase the consumer's credit; no effect without a prefetch limit."""
        self.source.add_credit(count)


class Unacked(NamedTuple):
    """An unacknowledged delivery."""

    tag: int
    queue: "DeclaredQueue"
    settlement: Settlement
    consumer: Consumer | None
    """The consumer that got the delivery; None for BasicGet."""


class Deliveries:
    """Unacknowledged deliveries of one channel, by delivery tag."""

    def __init__(self, connection: "AmqpConversation", channel: int, owner: str) -> None:
        self._connection = connection
        self._channel = channel
        self.owner = owner
        """The owner of all this channel's deliveries, as the broker knows it.

        Not that of an earlier channel of the same number: on a full disk the deliveries of a closed
        channel are given back later, when its number may be in use again.
        """
        self.session: SessionCredit = connection.service.context.dispatcher.session()
        """The prefetch limit that all consumers of the channel share (BasicQos with global=true).
        """
        self._last_tag = 0
        self._unacked: dict[int, Unacked] = {}
        self._unread_replies = 0
        """Bytes of direct replies that were queued since the client stopped reading."""
        self.used: dict[DeclaredQueue, None] = {}
        """Queues whose deliveries on this channel need acknowledgements; used as an ordered set."""

    @property
    def unacked(self) -> int:
        """The number of unacknowledged deliveries."""
        return len(self._unacked)

    # Sending

    def send(self, consumer: Consumer, deliveries: Sequence[Delivery]) -> None:
        """Send the deliveries that a consumer acquired from its queue."""
        connection = self._connection
        frame_max, channel, queue = connection.session.frame_max, self._channel, consumer.queue
        messages, tag = connection.service.messages, self._last_tag
        counts = queue.record.settings.queue_type is QueueType.QUORUM
        unacked: dict[int, Unacked] = {}
        frames: list[Piece] = []
        last, content = None, None
        for each in deliveries:
            tag += 1
            event = each.event
            if event.headers is not last:
                # Messages of one publisher often have the same route and properties.
                last, content = event.headers, messages.signed_content(event.headers)
            route, properties, _ = content or self._derived(event, queue)
            if counts:
                properties = with_delivery_count(properties, each)
            if not consumer.no_ack:
                unacked[tag] = Unacked(tag, queue, settlement(each), consumer)
            frames += codec.deliver_frames(
                channel,
                consumer.tag_bytes,
                tag,
                each.redelivered,
                route,
                properties,
                event.value or b"",
                frame_max,
            )
        # Only now, so that an error leaves no trace: the caller then gives back all deliveries.
        self._last_tag = tag
        if unacked:
            self._unacked |= unacked
            self.used[queue] = None
        else:
            # Deliveries without acknowledgement do not count towards the prefetch limit.
            self.session.add_credit(len(deliveries))
        connection.service.counts.delivered += len(deliveries)
        connection.send(frames)

    def _derived(self, event: Event, queue: "DeclaredQueue") -> Content:
        """Return an event's route and properties, also if no AMQP client has published it."""
        connection = self._connection
        most = min(MAX_FOREIGN_BYTES, connection.session.frame_max - codec.HEADER_BYTES)
        return connection.service.messages.content_of(event, queue.name, most)

    def send_reply(self, tag: bytes, message: Publish) -> None:
        """Send a direct reply; disconnect a client that leaves MAX_UNREAD_REPLIES bytes unread."""
        self._last_tag += 1
        outbox = self._connection.outbox
        if outbox.is_full:
            if not self._unread_replies:
                outbox.when_room(self._has_read)
            self._unread_replies += len(message.body) + len(message.properties)
            if self._unread_replies > MAX_UNREAD_REPLIES:
                outbox.close(f"does not read its replies: {self._unread_replies} bytes wait")
                return
        self._connection.send(
            codec.deliver_frames(
                self._channel,
                tag,
                self._last_tag,
                False,
                message.target.route,
                message.properties,
                message.body,
                self._connection.session.frame_max,
            )
        )

    def _has_read(self) -> None:
        self._unread_replies = 0

    def get(self, queue: "DeclaredQueue", *, no_ack: bool) -> list[Piece] | None:
        """Acquire the queue's next message; return its BasicGetOk frames, None if there is none."""
        connection = self._connection
        queue.serve_consumers(connection.service.context)
        taken = connection.door.queues.acquire(*queue.place, self.owner, max_events=1, locked=False)
        if not taken:
            return None
        (delivery,) = taken
        tag = self._last_tag + 1
        try:
            event = delivery.event
            route, properties, _ = self._derived(event, queue)
            if queue.record.settings.queue_type is QueueType.QUORUM:
                properties = with_delivery_count(properties, delivery)
            frames: list[Piece] = [
                *codec.get_ok_frames(
                    self._channel,
                    tag,
                    delivery.redelivered,
                    route,
                    queue.ready(connection.door),
                    properties,
                    event.value or b"",
                    connection.session.frame_max,
                )
            ]
        except BaseException:
            # A delivery without a lock does not expire, so nothing else would return it.
            said = settlement(delivery, Outcome.NACK)
            connection.door.queues.settle(*queue.place, self.owner, (said,))
            raise
        self._last_tag = tag
        if no_ack:
            self._settle(queue, settlement(delivery))
        else:
            self._unacked[tag] = Unacked(tag, queue, settlement(delivery), None)
            self.used[queue] = None
        connection.service.counts.delivered += 1
        return frames

    # Settling

    def take(self, tag: int, *, multiple: bool) -> list[Unacked]:
        """Remove and return the deliveries that an acknowledgement covers.

        Tag 0 with ``multiple`` covers all deliveries of the channel.
        """
        if not multiple:
            found = self._unacked.pop(tag, None)
            if found is None:
                raise _unknown_tag(tag)
            return [found]
        if tag and tag not in self._unacked:
            raise _unknown_tag(tag)
        tags = list(self._unacked) if tag == 0 else self._up_to(tag)
        return [self._unacked.pop(each) for each in tags]

    def put_back(self, deliveries: Sequence[Unacked]) -> None:
        """Make deliveries unacknowledged again after their transaction was rolled back."""
        found = {each.tag: each for each in deliveries} | self._unacked
        # Sorted by tag, so that an acknowledgement of all up to a tag includes them.
        self._unacked = dict(sorted(found.items()))

    def limit(self, prefetch: int | None) -> None:
        """Limit the unacknowledged deliveries of all consumers of the channel together."""
        used = sum(each.consumer is not None for each in self._unacked.values())
        self.session.limit(None if prefetch is None else prefetch - used)

    def _up_to(self, tag: int) -> list[int]:
        return list(takewhile(lambda each: each <= tag, self._unacked))

    def settle(self, deliveries: Sequence[Unacked], outcome: Outcome) -> None:
        """Settle deliveries (ack, nack or reject), and return their prefetch credit.

        Acks are collected and appended a little later, other outcomes at once.
        """
        if outcome is Outcome.ACK:
            for _, queue, said, _ in deliveries:
                self._settle(queue, said)
        else:
            for _, queue, said, _ in deliveries:
                self._settle(queue, said._replace(outcome=outcome), soon=True)
        self.credit(deliveries)

    def settlements(
        self, deliveries: Sequence[Unacked], outcome: Outcome
    ) -> list[QueueSettlements]:
        """Return the settlements of deliveries, to be appended with their transaction."""
        return [
            QueueSettlements(*queue.place, self.owner, [said._replace(outcome=outcome)])
            for _, queue, said, _ in deliveries
        ]

    def credit(self, deliveries: Sequence[Unacked]) -> None:
        """Return the prefetch credit of settled deliveries to their consumers and channel."""
        if len(deliveries) == 1:
            if (only := deliveries[0].consumer) is not None:
                self.session.add_credit(1)
                only.add_credit(1)
            return
        counts: dict[Consumer, int] = {}
        for _, _, _, consumer in deliveries:
            if consumer is not None:
                counts[consumer] = counts.get(consumer, 0) + 1
        self.session.add_credit(sum(counts.values()))
        for consumer, count in counts.items():
            consumer.add_credit(count)

    def _settle(self, queue: "DeclaredQueue", said: Settlement, *, soon: bool = False) -> None:
        connection = self._connection
        connection.service.context.settlements.add(
            connection.door, queue.place, self.owner, (said,), self._refused, soon=soon
        )

    def _refused(self, error: MainstemError) -> None:
        """Count a settlement that had no effect: its queue or delivery no longer exists."""
        self._connection.service.counts.stale += 1

    def give_back(self) -> None:
        """Requeue all unacknowledged deliveries, because the channel is closed."""
        self._connection.service.context.settlements.flush()
        self._unacked.clear()
        used, self.used = list(self.used), {}
        for queue in used:
            self._leave(queue)

    def _leave(self, queue: "DeclaredQueue", *, is_retry: bool = False) -> None:
        context = self._connection.service.context
        try:
            context.broker.queues.leave(*queue.place, self.owner, failed=True)
        except (UnknownTopic, UnknownQueue):
            # The queue was deleted with all its messages.
            return
        except MainstemError as error:
            if not is_retry:
                problem = f"giving back deliveries of queue {queue.name!r}: {error}"
                self._connection.warn(problem)
            if error.retriable:
                # Deliveries without a lock do not expire, so nothing else would return them.
                context.after(RETRY_MS, lambda: self._leave_again(queue))

    def _leave_again(self, queue: "DeclaredQueue") -> None:
        # Acknowledgements that wait because the disk is full come first.
        self._connection.service.context.settlements.flush()
        self._leave(queue, is_retry=True)


def _unknown_tag(tag: int) -> AmqpError:
    return AmqpError(ReplyCode.PRECONDITION_FAILED, f"unknown delivery tag {tag}")

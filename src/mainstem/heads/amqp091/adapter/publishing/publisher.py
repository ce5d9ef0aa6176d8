"""Publishes the messages of one connection: routes each, appends them together, confirms them.

How this works: messages that were read together are routed one by one, and appended together for
all channels and queues: they share one append and one wait until it is durable. A message is in all
queues that it is routed to, or in none. Its body is in memory and in the write-ahead log once,
whatever the number of queues.

Methods that must see earlier messages of the connection (BasicGet, the message count of a queue)
wait until everything published before is durable.
"""

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from mainstem.broker.door import (
    AT_ONCE,
    Cause,
    DeadEvent,
    DelayedEvent,
    Durable,
    HeldPublish,
    QueueSettlements,
    TopicEvents,
)
from mainstem.core.errors import Failure, MainstemError, StorageFull
from mainstem.core.event import Event, Headers
from mainstem.heads.amqp091 import codec
from mainstem.heads.amqp091.adapter.failures import refusal
from mainstem.heads.amqp091.adapter.publishing.delayed_messages import (
    DELAY,
    HEAD,
    delay_of,
    delayed_event,
)
from mainstem.heads.amqp091.adapter.publishing.replies import REPLY_PREFIX, REPLY_TO
from mainstem.heads.amqp091.adapter.queues.queues import DeclaredQueue
from mainstem.heads.amqp091.adapter.topology.queue_arguments import MAX_EXPIRY_MS, Overflow
from mainstem.heads.amqp091.adapter.topology.routing import BCC, without_bcc
from mainstem.heads.amqp091.errors import AmqpError, ReplyCode
from mainstem.heads.amqp091.messages import Publish, Target
from mainstem.heads.amqp091.methods import BasicPublish
from mainstem.heads.amqp091.properties import Properties, decode_properties, encode_properties
from mainstem.heads.conversation import Later

if TYPE_CHECKING:
    from mainstem.heads.amqp091.adapter.channel import AmqpChannel
    from mainstem.heads.amqp091.adapter.conversation import AmqpConversation

PERSISTENT = 2
"""The delivery mode of messages that survive a power cut."""
_FINAL = frozenset(
    {
        Failure.INVALID,
        Failure.DENIED,
        Failure.UNAUTHENTICATED,
        Failure.TOO_LARGE,
        Failure.UNSUPPORTED,
    }
)
"""Errors that a retry of the publish would repeat; they close the channel instead of a BasicNack.
"""
_EXPIRY_DIGITS = 15
_KNOWN_ROUTES, _KNOWN_BYTES = 200, 400
"""Limits on the routes that a connection remembers: their number, and the size of each."""
_PLACE_BYTES = 1000
"""Estimated bytes per message and queue in addition to the body."""
PORTION_BYTES = 2 * 1024 * 1024
"""Maximum number of bytes in one append, unless it is a single message; other connections are
served between two appends.
"""


class Routed(NamedTuple):
    """A routed message that is to be appended."""

    channel: "AmqpChannel"
    number: int
    """The delivery tag to confirm; 0 if the channel has not selected publisher confirms."""
    event: Event
    places: Sequence[tuple[str, int]]
    """Topics and partitions to append it to."""
    waits: bool
    """Whether the message is confirmed only when it is durable, rather than once it is appended."""
    delayed: Sequence[DelayedEvent] = ()
    """The delayed copies of the message, one per exchange that delays it."""

    @property
    def size(self) -> int:
        """Approximate number of bytes to append: the copies for all queues together."""
        return (len(self.places) + len(self.delayed)) * (
            len(self.event.value or b"") + _PLACE_BYTES
        )


class _KnownRoute(NamedTuple):
    """Where messages with equal route and properties go, remembered for later messages."""

    names: Collection[str]
    """The names of the queues, as the topology remembers them until it changes."""
    queues: Sequence[DeclaredQueue]
    headers: Headers
    places: Sequence[tuple[str, int]]
    waits: bool


class Publisher:
    """Appends the messages that one connection publishes."""

    def __init__(self, connection: "AmqpConversation") -> None:
        self._connection = connection
        self._known: dict[tuple[bytes, bytes], _KnownRoute] = {}
        """Routes of the messages published last, by route and properties as received."""
        self._pending: list[Routed] = []
        self._pending_bytes = 0
        self._later: Later | None = None
        """Settled when all pending messages are appended; None if none are pending."""
        self.last: Durable = AT_ONCE
        """The latest append; when it is durable, all earlier appends are too."""

    # Receiving

    def publish(self, channel: "AmqpChannel", message: Publish) -> None:
        """Route a message, so that ``flush`` appends it; raises AmqpError."""
        number = 0 if channel.confirms is None else channel.confirms.next()
        routed = self.route(channel, number, message)
        if routed is not None:
            self._pending.append(routed)
            self._pending_bytes += routed.size

    def route(self, channel: "AmqpChannel", number: int, message: Publish) -> Routed | None:
        """Return a message with the topics of the queues that it is routed to; raises AmqpError.

        None if there is nothing to append: the message was a direct reply, unroutable, or refused.
        """
        connection = self._connection
        target, properties = message.target, message.properties
        if (known := self._known_route(target.route, properties)) is not None:
            connection.service.counts.published += 1
            event = Event(message.body, None, known.headers)
            event = connection.service.for_all(event, len(known.places))
            return Routed(channel, number, event, known.places, known.waits)
        said = decode_properties(properties)
        connection.check_user_id(said.user_id)
        if said.expiration is not None:
            _check_expiration(said.expiration)
        connection.service.counts.published += 1
        if not target.exchange and target.routing_key.startswith(REPLY_PREFIX):
            channel.at_commit(message, partial(self._reply, channel, number, message))
            return None
        if said.reply_to == REPLY_TO:
            said = self._with_reply_name(channel, said)
            properties = encode_properties(said)
        queues, delayed = self._targets(message, said, properties)
        if not queues and not delayed:
            channel.at_commit(message, partial(self._unroutable, channel, number, message))
            return None
        if said.headers is not None and BCC in said.headers:
            said = msgspec.structs.replace(said, headers=without_bcc(said.headers))
            properties = encode_properties(said)
        headers = connection.service.messages.headers_of(target.route, properties)
        event = Event(message.body, None, headers)
        if any(each.refuses for each in queues) and (full := self._full(queues, event)):
            return self._reject(channel, number, full, event)
        level = said.priority or 0
        places = [(each.place[0], min(level, each.most_priority)) for each in queues]
        waits = said.delivery_mode == PERSISTENT or bool(delayed)
        if not said.headers and said.expiration is None and properties is message.properties:
            self._know_route(target.route, properties, queues, event.headers, places, waits)
        event = connection.service.for_all(event, len(places))
        return Routed(channel, number, event, places, waits, delayed)

    def _known_route(self, route: bytes, properties: bytes) -> "_KnownRoute | None":
        """Return the remembered queues for a message; None if there are none, or outdated ones."""
        known = self._known.get((route, properties))
        if known is None:
            return None
        service, vhost = self._connection.service, self._connection.vhost
        if service.topology.remembered_route(vhost, route) is not known.names:
            return None
        for queue in known.queues:
            if service.queues.get(vhost, queue.name) is not queue:
                return None
        return known

    def _know_route(
        self,
        route: bytes,
        properties: bytes,
        queues: Sequence[DeclaredQueue],
        headers: Headers,
        places: Sequence[tuple[str, int]],
        waits: bool,
    ) -> None:
        """Store the queues of a message for later messages of the same route and properties.

        Not if one of the queues can refuse messages, which is decided for each message.
        """
        names = self._connection.service.topology.remembered_route(self._connection.vhost, route)
        is_whole = names is not None and len(names) == len(queues)
        if names is None or not is_whole or len(route) + len(properties) > _KNOWN_BYTES:
            return
        if any(each.refuses for each in queues):
            return
        if len(self._known) >= _KNOWN_ROUTES:
            self._known.clear()
        self._known[route, properties] = _KnownRoute(names, queues, headers, places, waits)

    def _targets(
        self, message: Publish, said: Properties, properties: bytes
    ) -> tuple[list[DeclaredQueue], list[DelayedEvent]]:
        """Return a message's queues, and an event per exchange that delays it; raises AmqpError."""
        headers = said.headers
        delay_ms = delay_of(headers) if headers is not None and DELAY in headers else 0
        if headers is None or not delay_ms:
            return self._queues(message.target, said), []
        service, vhost, target = self._connection.service, self._connection.vhost, message.target
        names, exchanges = service.topology.route_delayed(
            vhost, target.exchange, target.routing_key, headers
        )
        queues = [service.queues.get(vhost, name) for name in names]
        event = Event(message.body, None, service.messages.headers_of(target.route, properties))
        due_ms = service.context.now_ms() + delay_ms
        return [each for each in queues if each is not None], [
            delayed_event(vhost, exchange, event, due_ms) for exchange in exchanges
        ]

    def _queues(self, target: Target, said: Properties) -> list[DeclaredQueue]:
        """Return the queues that a message is routed to.

        Raises AmqpError if the exchange does not exist.
        """
        connection = self._connection
        service, vhost = connection.service, connection.vhost
        topology, queues = service.topology, service.queues
        names = topology.remembered_route(vhost, target.route) if not said.headers else None
        if names is None:
            names = topology.route(
                vhost, target.exchange, target.routing_key, said.headers, target.route
            )
        found = (queues.get(vhost, name) for name in names)
        return [each for each in found if each is not None]

    def _full(self, queues: Sequence[DeclaredQueue], event: Event) -> list[DeclaredQueue]:
        """Return those of the queues that refuse messages and have no space for this event."""
        # Earlier messages count towards the limit, so they are appended first.
        self.flush()
        door, full_queues = self._connection.door, self._connection.service.full_queues
        size = len(event.value or b"")
        return [each for each in queues if each.refuses and full_queues.is_full(each, door, size)]

    def _reject(
        self, channel: "AmqpChannel", number: int, full: Sequence[DeclaredQueue], event: Event
    ) -> Routed | None:
        """Refuse a message for all its queues, because the queues ``full`` have no space.

        Return the dead letter of the first of them with ``reject-publish-dlx``, None if there is
        none.
        """
        service = self._connection.service
        service.counts.refused += 1
        if number and channel.confirms is not None:
            self._connection.send(channel.confirms.nack([number]))
        for queue in full:
            if queue.record.settings.overflow is Overflow.REJECT_PUBLISH_DLX:
                dead = DeadEvent(*queue.place, event, Cause.LENGTH, deliveries=0)
                letters = service.dead_letters(HEAD, dead)
                places = [(each.topic, each.partition) for each in letters]
                return Routed(channel, 0, letters[0].event, places, waits=False) if places else None
        return None

    def _with_reply_name(self, channel: "AmqpChannel", said: Properties) -> Properties:
        """Return the properties with the channel's unique direct-reply name as ``reply_to``."""
        name = self._connection.service.replies.name_of(channel)
        if name is None:
            detail = "fast reply consumer does not exist"
            raise AmqpError(ReplyCode.PRECONDITION_FAILED, detail, *BasicPublish.ids)
        return msgspec.structs.replace(said, reply_to=name)

    def _reply(self, channel: "AmqpChannel", number: int, message: Publish) -> None:
        """Send a message to the channel that waits for it as a direct reply; no queue stores it."""
        if not self._connection.service.replies.send(message.target.routing_key, message):
            self._unroutable(channel, number, message)
        elif number and channel.confirms is not None:
            self._connection.send(channel.confirms.ack([number]))

    def _unroutable(self, channel: "AmqpChannel", number: int, message: Publish) -> None:
        connection, target = self._connection, message.target
        connection.service.counts.unroutable += 1
        if target.mandatory:
            connection.send(
                codec.return_frames(
                    channel.number,
                    ReplyCode.NO_ROUTE,
                    ReplyCode.NO_ROUTE.name,
                    target.route,
                    message.properties,
                    message.body,
                    connection.session.frame_max,
                )
            )
        if number and channel.confirms is not None:
            connection.send(channel.confirms.ack([number]))

    # Appending

    def flush(self) -> Later | None:
        """Append the pending messages.

        Returns a Later if some must wait for space; it is settled when these are appended.
        """
        if self._later is None and self._pending:
            self._append(self._portion(), None)
        return self._later

    def _portion(self, most: int = PORTION_BYTES) -> list[Routed]:
        """Remove pending messages, at most ``most`` bytes and at least one, and return them."""
        pending = self._pending
        if self._pending_bytes <= most:
            self._pending, self._pending_bytes = [], 0
            return pending
        size, count = pending[0].size, 1
        while count < len(pending) and size + pending[count].size <= most:
            size += pending[count].size
            count += 1
        self._pending_bytes -= size
        self._pending = pending[count:]
        return pending[:count]

    def _append(
        self, part: Sequence[Routed], held: HeldPublish | None, *, singly: bool = False
    ) -> None:
        """Append ``part`` together, or one by one (``singly``) after one message was refused."""
        while part:
            now = part[:1] if singly else part
            try:
                found = self._publish(now, held)
            except MainstemError as error:
                if len(now) > 1:
                    # The other messages may still be accepted.
                    singly, held = True, None
                    continue
                if isinstance(error, StorageFull) and self._wait_for_space(part, error):
                    return
                self._refuse(now[0], error)
            else:
                if isinstance(found, HeldPublish):
                    self._wait_for_room(part, found, singly=singly)
                    return
                self._confirm(now, found)
            held = None
            part = part[len(now) :]
        if self._pending:
            self._hold()
            self._append_more()
        elif self._later is not None:
            self._end_wait()

    def _append_more(self) -> None:
        """Append the next portion of pending messages once the last one is durable.

        So at most one portion that is not yet durable is in memory.
        """
        context = self._connection.service.context
        if self.last.done:
            context.after(0, self._go_on)
        else:
            self.last.then(lambda _: context.on_loop(self._go_on))

    def _go_on(self) -> None:
        self._append(self._portion(), None)

    def _hold(self) -> None:
        """Stop reading from the client, so that no newer message overtakes the pending ones."""
        if self._later is None:
            self._later = Later()
            self._later.hold()

    def _end_wait(self) -> None:
        self._connection.unblock()
        later, self._later = self._later, None
        if later is not None:
            later.settle(())

    def _publish(
        self, pending: Sequence[Routed], held: HeldPublish | None
    ) -> Durable | HeldPublish:
        entries = _entries(pending)
        door = self._connection.door
        delayed = _delayed(pending)
        if len(entries) == 1 and not delayed:
            topic, events, partition = entries[0]
            # AMQP queues deliver events before they are durable, and no client waits for a confirm.
            lazy = not any(each.waits for each in pending)
            published = door.try_publish(topic, events, partition, held, lazy=lazy)
            if isinstance(published, HeldPublish):
                return published
            found, all_runs = published.durable, [published]
        else:
            all_published = door.publish_all(entries, (), held, delayed)
            if isinstance(all_published, HeldPublish):
                return all_published
            found, all_runs = all_published.durable, all_published.published
        if self._connection.service.full_queues.is_counting:
            self._connection.service.full_queues.appended(entries, all_runs)
        self.last = found
        return found

    def _wait_for_room(self, part: Sequence[Routed], held: HeldPublish, *, singly: bool) -> None:
        self._hold()
        self._connection.block("a queue is full")

        def again(held: HeldPublish) -> None:
            self._append(part, held, singly=singly)

        self._connection.service.context.when_room(self._connection.waiting, held, again)

    def _wait_for_space(self, part: Sequence[Routed], error: StorageFull) -> bool:
        """Retry to append ``part`` when the disk has space; False if the connection is stopping."""
        waits = self._connection.wait_for_space(error, lambda: self._append(part, None))
        if waits:
            self._hold()
        return waits

    def _refuse(self, routed: Routed, error: MainstemError) -> None:
        """Tell the client that a message was not stored.

        Sends BasicNack if publishing it again may succeed; any other error closes the channel.
        """
        channel = routed.channel
        may_pass = error.failure not in _FINAL
        if routed.number and channel.confirms is not None and may_pass:
            self._connection.warn(f"not taken: {error}")
            self._connection.send(channel.confirms.nack([routed.number]))
        else:
            self._connection.refuse(refusal(error, BasicPublish.ids), channel.number)

    # Confirming

    def _confirm(self, pending: Sequence[Routed], durable: Durable) -> None:
        at_once: dict[AmqpChannel, list[int]] = {}
        later: dict[AmqpChannel, list[int]] = {}
        for each in pending:
            if each.number:
                numbers = later if each.waits else at_once
                numbers.setdefault(each.channel, []).append(each.number)
        self._send_acks(at_once)
        if later and durable.done:
            durable.then(lambda error: self._decided(later, error))
        elif later:
            on_loop = self._connection.service.context.on_loop
            durable.then(lambda error: on_loop(lambda: self._decided(later, error)))

    def _decided(
        self, numbers: dict["AmqpChannel", list[int]], error: MainstemError | None
    ) -> None:
        if error is None:
            self._send_acks(numbers)
            return
        for channel, each in numbers.items():
            if channel.confirms is not None and channel.is_open:
                self._connection.send(channel.confirms.nack(each))

    def _send_acks(self, numbers: dict["AmqpChannel", list[int]]) -> None:
        for channel, each in numbers.items():
            if channel.confirms is not None and channel.is_open:
                self._connection.send(channel.confirms.ack(each))

    # Waiting for durability

    def when_durable(self, call: Callable[[], None], durable: Durable | None = None) -> None:
        """Call ``call`` when ``durable`` and all earlier publishes of the connection are durable.

        A failed append closes the connection.
        """
        promises = [each for each in (self.last, durable) if each is not None and not each.done]
        if not promises:
            call()
            return
        on_loop = self._connection.service.context.on_loop
        last = promises[-1]

        def decided(error: MainstemError | None) -> None:
            on_loop(lambda: self._then(call, error))

        if len(promises) == 2:
            promises[0].then(lambda _: last.then(decided))
        else:
            last.then(decided)

    def _then(self, call: Callable[[], None], error: MainstemError | None) -> None:
        if error is None:
            call()
        else:
            self._connection.refuse(refusal(error), 0)

    def commit(
        self, routed: Sequence[Routed], settled: Sequence[QueueSettlements]
    ) -> Durable | HeldPublish:
        """Append the messages and settlements of a transaction, all or nothing.

        Returns their ``Durable``, or a HeldPublish if a queue is full and nothing was appended.
        Raises StorageFull, after which the same commit may be tried again.
        """
        entries = _entries(routed)
        found = self._connection.door.publish_all(entries, settled, delayed=_delayed(routed))
        if isinstance(found, HeldPublish):
            return found
        if self._connection.service.full_queues.is_counting:
            self._connection.service.full_queues.appended(entries, found.published)
        self.last = found.durable
        return found.durable


def _check_expiration(said: str) -> None:
    """Raise AmqpError for an expiration that is not a valid time to live."""
    if not (said.isascii() and said.removeprefix("-").isdecimal()):
        why = "no_integer"
    elif said.startswith("-"):
        why = f"{{value_negative,{said}}}"
    elif len(said) > _EXPIRY_DIGITS or int(said) > MAX_EXPIRY_MS:
        why = f"{{value_too_large,{said}}}"
    else:
        return
    detail = f"invalid expiration '{said}': {why}"
    raise AmqpError(ReplyCode.PRECONDITION_FAILED, detail, *BasicPublish.ids)


def _entries(routed: Sequence[Routed]) -> list[TopicEvents]:
    """Group messages by topic and partition, as arguments of one append."""
    entries: dict[tuple[str, int], list[Event]] = {}
    for each in routed:
        for place in each.places:
            entries.setdefault(place, []).append(each.event)
    return [TopicEvents(topic, events, at) for (topic, at), events in entries.items()]


def _delayed(routed: Sequence[Routed]) -> list[DelayedEvent]:
    """Return the delayed copies of all the messages."""
    return [late for each in routed for late in each.delayed]

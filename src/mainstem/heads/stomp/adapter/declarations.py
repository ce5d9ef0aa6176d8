"""Finds or creates the topics and queues that a client's destinations name."""

from collections.abc import Callable

from mainstem.broker.door import Door, Durable
from mainstem.core.errors import MainstemError, TopicExists, UnknownTopic
from mainstem.core.names import check_group
from mainstem.core.topic_settings import Durability
from mainstem.heads.context import HeadContext
from mainstem.heads.stomp.adapter.destinations import TEMPORARY, BadDestination, Destination, Kind


class Declarations:
    """Finds and creates topics and queues for one client; knows its temporary ones."""

    def __init__(
        self,
        context: HeadContext,
        door: Door,
        session_id: str,
        max_temporary: int,
        not_before: Callable[[Durable], None],
    ) -> None:
        self._context, self._door = context, door
        self._session_id = session_id
        self._max_temporary = max_temporary
        self._not_before = not_before
        """Called when a topic or queue is created, with its durability: receipts wait for it."""
        self.temporary: dict[str, str] = {}
        """Topics of the client's temporary queues, by the destination that the client uses."""

    def to_send(self, destination: Destination) -> str:
        """Return the topic to which a SEND publishes; create it if needed."""
        if destination.kind is not Kind.TEMPORARY:
            self._declare(destination)
            return destination.topic
        if destination.shown not in self.temporary:
            raise BadDestination(
                "Invalid destination",
                f"{destination.shown!r:.200} is not of this session; a reply goes to the reply-to "
                "of its message",
            )
        return self.temporary[destination.shown]

    def to_subscribe(self, destination: Destination, durable: str) -> Destination:
        """Return the destination with the topic (and queue) to consume; create them if needed.

        ``durable``: the queue of a durable subscription, "" if it is not durable.
        """
        match destination.kind:
            case Kind.REPLY:
                text = f"{destination.shown!r:.200} is for SEND only"
                raise BadDestination("Invalid destination", text)
            case Kind.TEMPORARY:
                topic = self._temporary_topic(destination.shown)
                return Destination(Kind.TEMPORARY, destination.shown, topic)
        self._declare(destination)
        if not durable or destination.kind is not Kind.TOPIC:
            return destination
        found = Destination(Kind.TOPIC, destination.shown, destination.topic, durable)
        self._declare_queue(found, at_end=True)
        return found

    def reply_queue(self, name: str) -> str:
        """Return the destination with which other clients send to this client's temporary queue."""
        return f"/{Kind.REPLY}/{self._temporary_topic(name).removeprefix(TEMPORARY)}"

    def delete_queue(self, destination: Destination) -> None:
        """Delete the queue of a durable subscription."""
        self._not_before(self._door.queues.delete(destination.topic, destination.queue))

    def delete_temporary(self) -> list[MainstemError]:
        """Delete the client's temporary queues; return the errors of failed deletions."""
        errors: list[MainstemError] = []
        for topic in self.temporary.values():
            try:
                self._context.broker.delete_topic(topic)
            except MainstemError as error:
                errors.append(error)
        return errors

    def _declare(self, destination: Destination) -> None:
        try:
            self._door.topic(destination.topic)
        except UnknownTopic:
            may_create = destination.kind in (Kind.TOPIC, Kind.QUEUE)
            if not (may_create and self._context.auto_create):
                raise
            try:
                made = self._door.create_topic(destination.topic, self._context.defaults)
                self._not_before(made.durable)
            except TopicExists:
                pass
        if destination.queue:
            self._declare_queue(destination)

    def _declare_queue(self, destination: Destination, *, at_end: bool = False) -> None:
        topic, queue = destination.topic, destination.queue
        if self._door.queues.created_with(topic, queue) is not None:
            return
        if destination.kind is Kind.EXISTING:
            # Raises UnknownQueue: this kind of destination does not create queues.
            self._door.queues.show(topic, queue)
        check_group(queue, "queue")
        starts = None
        if at_end:
            partitions = range(len(self._door.topic(topic).partitions))
            starts = {number: self._door.bounds(topic, number).tail for number in partitions}
        self._not_before(self._door.queues.create(topic, queue, starts=starts))

    def _temporary_topic(self, name: str) -> str:
        topic = self.temporary.get(name)
        if topic is None:
            if len(self.temporary) >= self._max_temporary:
                text = "no more temporary queues (stomp.max_subscriptions)"
                raise BadDestination("Too many subscriptions", text)
            topic = f"{TEMPORARY}{self._session_id}-{len(self.temporary) + 1}"
            settings = self._context.defaults.altered(durability=Durability.MEMORY, partitions=1)
            self._door.create_topic(topic, settings)
            self.temporary[name] = topic
        return topic

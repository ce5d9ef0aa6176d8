"""Operations on AMQP queues: list, show, declare, delete, purge.

The broker checks the permissions: those on the topic and the broker queue behind an AMQP queue.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from mainstem.auth import Peer
from mainstem.broker.door import Door, QueueState
from mainstem.core.errors import Denied, Unauthenticated, UnknownQueue, UnknownTopic
from mainstem.heads.admin_operations import operation
from mainstem.heads.amqp091 import methods
from mainstem.heads.amqp091.adapter.conversation import AmqpConversation
from mainstem.heads.amqp091.adapter.management.access import Access, plain, table_of
from mainstem.heads.amqp091.adapter.queues.queues import DeclaredQueue

if TYPE_CHECKING:
    from mainstem.broker.door import Durable
    from mainstem.heads.amqp091.adapter.service import Service


class ListQueues(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """List AMQP queues with their messages and consumers."""

    vhost: str | None = None
    """The virtual host whose queues are listed; None for those of all virtual hosts."""


class NameQueue(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of an operation on one AMQP queue."""

    vhost: str
    queue: str


class DeclareQueue(NameQueue, frozen=True):
    """Declare an AMQP queue, or check that an existing one was declared like this."""

    durable: bool = True
    auto_delete: bool = False
    arguments: dict[str, object] = {}


class DeleteQueue(NameQueue, frozen=True):
    """Delete an AMQP queue with its messages and bindings."""

    if_unused: bool = False
    if_empty: bool = False


class AmqpQueue(msgspec.Struct, frozen=True):
    """An AMQP queue."""

    vhost: str
    name: str
    topic: str
    """The topic that stores the queue's messages."""
    type: str
    durable: bool
    auto_delete: bool
    exclusive: bool
    owner: str | None
    """The name of the connection to which the queue is exclusive, None for other queues."""
    arguments: object
    messages: int
    messages_ready: int
    messages_unacknowledged: int
    consumers: int
    redelivered: int
    """Number of redeliveries since the server started."""
    dead_lettered: int
    """Number of dead letters since the server started."""


class Declared(msgspec.Struct, frozen=True):
    """The result of a declaration: false if the queue or exchange existed before."""

    created: bool


class Removed(msgspec.Struct, frozen=True):
    """The result of a deletion or a purge: the number of messages that were ready."""

    messages: int


class _Found(msgspec.Struct, frozen=True):
    """A queue, its exclusive owner and its number of consumers, read in the event loop."""

    queue: DeclaredQueue
    owner: str | None
    consumers: int


_Remove = Callable[[AmqpConversation], "tuple[int, Durable]"]


class AmqpQueueOperations:
    """The admin API's operations on AMQP queues."""

    def __init__(self, service: "Service") -> None:
        self._access, self._service = Access(service), service
        self._context, self._queues = service.context, service.queues

    @operation("amqp/queues/list", "GET amqp/queues")
    def every(self, peer: Peer, asked: ListQueues) -> Sequence[AmqpQueue]:
        """List AMQP queues with their messages and consumers."""

        def look() -> list[_Found]:
            vhosts, owners = set(self._access.vhosts(asked.vhost)), self._owners()
            return [_found(each, owners) for each in self._queues if each.record.vhost in vhosts]

        door, found = self._context.door(peer), list[AmqpQueue]()
        for each in self._context.from_thread(look):
            try:
                found.append(_described(door, each))
            except (Denied, Unauthenticated, UnknownQueue, UnknownTopic):
                continue
        return sorted(found, key=lambda it: (it.vhost, it.name))

    @operation("amqp/queues/show", "GET amqp/queues/{vhost}/{queue}")
    def show(self, peer: Peer, asked: NameQueue) -> AmqpQueue:
        """Show an AMQP queue."""

        def look() -> _Found:
            self._service.topology.find_queue(asked.vhost, asked.queue)
            queue = self._queues.get(asked.vhost, asked.queue)
            assert queue is not None
            queue.serve_consumers(self._context)
            return _found(queue, self._owners())

        return _described(self._context.door(peer), self._access.on_loop(look))

    @operation("amqp/queues/declare", "PUT amqp/queues/{vhost}/{queue}")
    def declare(self, peer: Peer, asked: DeclareQueue) -> Declared:
        """Declare an AMQP queue, or check that an existing one was declared like this."""
        arguments = table_of(asked.arguments, asked.vhost, asked.queue)
        method = methods.QueueDeclare(
            queue=asked.queue,
            durable=asked.durable,
            auto_delete=asked.auto_delete,
            arguments=arguments,
        )

        def carry_out(connection: AmqpConversation) -> "tuple[bool, Durable]":
            is_new = self._queues.get(asked.vhost, asked.queue) is None
            return is_new, self._queues.declare(connection, method)[1]

        # Until its deletion is durable, the topic of a queue that was deleted is still there.
        self._access.on_loop(lambda: self._queues.gone(asked.vhost, asked.queue)).wait()
        is_new, durable = self._access.connected(peer, asked.vhost, carry_out)
        durable.wait()
        return Declared(is_new)

    @operation("amqp/queues/delete", "DELETE amqp/queues/{vhost}/{queue}")
    def delete(self, peer: Peer, asked: DeleteQueue) -> Removed:
        """Delete an AMQP queue with its messages and bindings."""

        def carry_out(connection: AmqpConversation) -> "tuple[int, Durable]":
            self._service.topology.find_queue(asked.vhost, asked.queue, connection.id)
            return self._queues.delete(
                connection, asked.queue, if_unused=asked.if_unused, if_empty=asked.if_empty
            )

        return self._removed(peer, asked, carry_out)

    @operation("amqp/queues/purge", "POST amqp/queues/{vhost}/{queue}/purge")
    def purge(self, peer: Peer, asked: NameQueue) -> Removed:
        """Delete the ready messages of an AMQP queue."""

        def carry_out(connection: AmqpConversation) -> "tuple[int, Durable]":
            queue = self._queues.find(connection, asked.queue)
            return connection.door.queues.purge(*queue.place)

        return self._removed(peer, asked, carry_out)

    def _removed(self, peer: Peer, asked: NameQueue, carry_out: _Remove) -> Removed:
        def flushed(connection: AmqpConversation) -> "tuple[int, Durable]":
            self._context.settlements.flush()
            return carry_out(connection)

        count, durable = self._access.connected(peer, asked.vhost, flushed)
        durable.wait()
        return Removed(count)

    def _owners(self) -> dict[str, str]:
        """Return the name of each connection by its id; called in the event loop."""
        return {each.id: each.name for each in self._service.connections}


def _found(queue: DeclaredQueue, owners: dict[str, str]) -> _Found:
    owner = queue.record.exclusive
    return _Found(queue, None if owner is None else owners.get(owner), len(queue.consumers))


def _described(door: Door, found: _Found) -> AmqpQueue:
    record, state = found.queue.record, door.queues.show(*found.queue.place)
    ready, out = _counts(state)
    return AmqpQueue(
        vhost=record.vhost,
        name=record.name,
        topic=record.topic,
        type=record.settings.queue_type,
        durable=record.durable,
        auto_delete=record.auto_delete,
        exclusive=record.exclusive is not None,
        owner=found.owner,
        arguments=plain(record.arguments),
        messages=ready + out,
        messages_ready=ready,
        messages_unacknowledged=out,
        consumers=found.consumers,
        redelivered=state.redelivered,
        dead_lettered=state.dead,
    )


def _counts(state: QueueState) -> tuple[int, int]:
    """Return the numbers of ready and of unacknowledged messages."""
    out = sum(each.out for each in state.windows)
    return sum(each.unsettled for each in state.windows) - out, out

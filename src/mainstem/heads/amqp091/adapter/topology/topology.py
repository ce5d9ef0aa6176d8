"""Exchanges, queues and bindings of all virtual hosts: declaration, deletion, lookup.

How this works: a change is checked (``AmqpError`` if refused, with nothing changed), stored and
applied, without waiting in between; the caller sends the response when the returned ``Durable`` is
done. Durable exchanges, queues and bindings are stored in the broker's definitions. Transient and
exclusive ones, and their bindings, are in memory only. A ``Topology`` that is created after a
restart has all durable ones. Error texts and codes are RabbitMQ's.

A queue is here a definition only: the caller creates its topic between ``decide_queue`` and
``add_queue``, and deletes it after ``remove_queue``.

Not thread-safe: only the event loop calls it.
"""

from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import msgspec

from mainstem.broker.door import AT_ONCE, Durable, HeadDefinitions
from mainstem.core.errors import MainstemError
from mainstem.heads.amqp091 import fields
from mainstem.heads.amqp091.adapter.topology import equivalence, queue_arguments
from mainstem.heads.amqp091.adapter.topology.declared import (
    DEFAULT_EXCHANGE,
    Binding,
    Declared,
    DestinationKind,
    Exchange,
    Queue,
    load,
)
from mainstem.heads.amqp091.adapter.topology.equivalence import named, refused
from mainstem.heads.amqp091.adapter.topology.matching import check_binding
from mainstem.heads.amqp091.adapter.topology.names import DEFAULT_VHOST, topic_of
from mainstem.heads.amqp091.adapter.topology.queue_arguments import QueueType
from mainstem.heads.amqp091.adapter.topology.refusals import (
    RESERVED,
    check_access,
    check_exchange_arguments,
    check_exchange_equivalent,
    check_not_default,
    check_not_reserved,
    check_quorum,
    exchange_type,
    locked,
    not_found,
    stripped,
)
from mainstem.heads.amqp091.adapter.topology.routing import Names
from mainstem.heads.amqp091.adapter.topology.virtual_host import VirtualHost
from mainstem.heads.amqp091.errors import AmqpError, ReplyCode
from mainstem.heads.amqp091.methods import ExchangeDeclare, QueueDeclare


class DecidedQueue(NamedTuple):
    """The result of ``decide_queue``: a queue, and whether it is new."""

    queue: Queue
    is_new: bool
    """Whether the queue does not exist yet, so that the caller must create and add it."""


class Topology:
    """The exchanges, queues and bindings of all virtual hosts."""

    def __init__(self, definitions: HeadDefinitions, random_bytes: Callable[[int], bytes]) -> None:
        self._definitions = definitions
        self._random_bytes = random_bytes
        self._vhosts: dict[str, VirtualHost] = {}
        self._is_stale = False
        self.last: Durable = AT_ONCE
        """The last change; once durable, all are: what there is, and what there is not."""
        self._load()

    # Lookup.

    def vhost_exists(self, vhost: str) -> bool:
        """Return True: clients may open any virtual host, without creating it first."""
        return True

    def vhosts(self) -> list[str]:
        """Return the virtual hosts that have definitions, and the default one."""
        return sorted({DEFAULT_VHOST, *self._vhosts})

    def exchanges(self, vhost: str) -> list[Exchange]:
        """Return all exchanges of a virtual host."""
        return list(self._vhost(vhost).exchanges.values())

    def queues(self, vhost: str) -> list[Queue]:
        """Return all queues of a virtual host."""
        return list(self._vhost(vhost).queues.values())

    def bindings(self, vhost: str, *, implicit: bool = False) -> list[Binding]:
        """Return all bindings.

        ``implicit``: include those from the default exchange to each queue.
        """
        state = self._vhost(vhost)
        found = [_implicit(each) for each in state.queues.values()] if implicit else []
        return [*found, *state.bindings.values()]

    def bindings_from(self, vhost: str, exchange: str) -> list[Binding]:
        """Return the bindings whose source is an exchange."""
        state = self._vhost(vhost)
        if exchange == DEFAULT_EXCHANGE:
            return [_implicit(each) for each in state.queues.values()]
        return state.bindings_from(exchange)

    def bindings_to(self, vhost: str, kind: DestinationKind, name: str) -> list[Binding]:
        """Return the bindings whose destination is a queue or an exchange."""
        return self._vhost(vhost).bindings_to(kind, name)

    def exchange(self, vhost: str, name: str) -> Exchange | None:
        """Return the exchange of this name, None if it does not exist."""
        return self._vhost(vhost).exchanges.get(name)

    def queue(self, vhost: str, name: str) -> Queue | None:
        """Return the queue of this name, None if it does not exist."""
        return self._vhost(vhost).queues.get(name)

    def find_exchange(self, vhost: str, name: str) -> Exchange:
        """Return the exchange of this name; raises AmqpError if it does not exist."""
        found = self.exchange(vhost, name)
        if found is None:
            raise not_found(Exchange.kind, name, vhost)
        return found

    def find_queue(self, vhost: str, name: str, connection: str | None = None) -> Queue:
        """Return a queue; AmqpError if it does not exist, or is exclusive to another connection."""
        found = self.queue(vhost, name)
        if found is None:
            raise not_found(Queue.kind, name, vhost)
        if connection is not None:
            check_access(found, connection)
        return found

    def owned_queues(self, vhost: str, connection: str) -> list[Queue]:
        """Return the exclusive queues of a connection, which are deleted when it ends."""
        return self._vhost(vhost).owned_by(connection)

    # Exchanges.

    def declare_exchange(self, vhost: str, asked: ExchangeDeclare) -> Durable:
        """Declare an exchange, or check it against the existing one; raises AmqpError."""
        name = stripped(asked.exchange)
        if asked.passive:
            check_not_default(name)
            self.find_exchange(vhost, name)
            return self.last
        kind = exchange_type(asked.type)
        check_not_default(name)
        declared = Exchange(
            *(vhost, name, kind, asked.durable, asked.auto_delete, asked.internal, asked.arguments)
        )
        current = self.exchange(vhost, name)
        if current is not None:
            check_exchange_equivalent(current, declared)
            return self.last
        check_not_reserved(Exchange.kind, name)
        check_exchange_arguments(declared)
        return self._commit(added=[declared])

    def delete_exchange(self, vhost: str, name: str, *, if_unused: bool = False) -> Durable:
        """Delete an exchange with its bindings; no error if it does not exist.

        Raises AmqpError for a predeclared exchange, or, with ``if_unused``, one that is in use.
        """
        name = stripped(name)
        check_not_default(name)
        if name.startswith(RESERVED):
            what = named(Exchange.kind, name, vhost)
            raise refused(f"deletion of system {what} not allowed", ReplyCode.ACCESS_REFUSED)
        state = self._vhost(vhost)
        found = state.exchanges.get(name)
        if found is None:
            return self.last
        if if_unused and state.bindings_from(name):
            raise refused(f"{found} in use")
        return self._commit(removed=state.with_bindings(found))

    # Queues.

    def decide_queue(self, vhost: str, connection: str, asked: QueueDeclare) -> DecidedQueue:
        """Return the existing queue for a declaration, or the new one that the caller must add.

        The name "" stands for a generated one. Changes nothing. Raises AmqpError if the declaration
        is invalid or differs from the existing queue.
        """
        name = stripped(asked.queue)
        if asked.passive:
            return DecidedQueue(self.find_queue(vhost, name, connection), is_new=False)
        check_not_reserved(Queue.kind, name)
        current = self.queue(vhost, name)
        durable = asked.durable and not asked.exclusive
        owner = connection if asked.exclusive else None
        if current is not None:
            if current.exclusive != owner:
                raise locked(current)
            equivalence.check_property(str(current), "durable", current.durable, durable)
            equivalence.check_property(
                str(current), "auto_delete", current.auto_delete, asked.auto_delete
            )
            queue_arguments.check_equivalent(str(current), current.arguments, asked.arguments)
            return DecidedQueue(current, is_new=False)
        chosen = name or self._free_name(vhost)
        settings = queue_arguments.parse(named(Queue.kind, chosen, vhost), asked.arguments)
        queue = Queue(
            vhost,
            chosen,
            settings.topic or topic_of(vhost, chosen),
            durable,
            owner,
            asked.auto_delete,
            asked.arguments,
            settings,
        )
        if settings.queue_type is QueueType.QUORUM:
            check_quorum(queue, is_named=bool(name))
        return DecidedQueue(queue, is_new=True)

    def add_queue(self, queue: Queue) -> Durable:
        """Add a queue that ``decide_queue`` returned as new; return the change's ``Durable``."""
        return self._commit(added=[queue])

    def remove_queue(self, vhost: str, name: str) -> Durable:
        """Remove a queue with its bindings; no error if it does not exist."""
        state = self._vhost(vhost)
        found = state.queues.get(name)
        return self.last if found is None else self._commit(removed=state.with_bindings(found))

    # Bindings.

    def bind(self, asked: Binding, connection: str | None = None) -> Durable:
        """Bind a queue, or an exchange, to an exchange; raises AmqpError."""
        binding = self._checked(asked)
        state = self._vhost(binding.vhost)
        source = self.find_exchange(binding.vhost, binding.source)
        end: Exchange | Queue
        if binding.destination_kind is DestinationKind.QUEUE:
            end = self.find_queue(binding.vhost, binding.destination)
        else:
            end = self.find_exchange(binding.vhost, binding.destination)
        check_binding(source.matching, binding.arguments)
        if isinstance(end, Queue) and connection is not None:
            check_access(end, connection)
        if binding.identity in state.bindings:
            return self.last
        durable = source.durable and end.durable
        return self._commit(added=[msgspec.structs.replace(binding, durable=durable)])

    def unbind(self, asked: Binding, connection: str | None = None) -> Durable:
        """Remove a binding; no error if it does not exist.

        Raises AmqpError for an invalid binding, or one of a queue exclusive to another connection.
        """
        binding = self._checked(asked)
        state = self._vhost(binding.vhost)
        found = state.bindings.get(binding.identity)
        if found is None:
            return self.last
        if found.destination_kind is DestinationKind.QUEUE:
            self.find_queue(binding.vhost, binding.destination, connection)
        return self._commit(removed=state.with_sources(found))

    # Routing.

    def remembered_route(self, vhost: str, route: bytes) -> Names | None:
        """Return the cached queue names for a message without CC and BCC; None if not cached.

        ``route``: the encoded exchange and routing key, as in BasicPublish.
        """
        state = self._vhosts.get(vhost)
        return None if state is None else state.router.remembered(route)

    def route(
        self,
        vhost: str,
        exchange: str,
        routing_key: str,
        headers: fields.Table | None = None,
        raw: bytes | None = None,
    ) -> Names:
        """Return the sorted names of the queues that get a published message; raises AmqpError.

        ``raw``: the encoded exchange and routing key; if given, the route is cached for
        ``remembered_route``, unless it depends on headers.
        """
        self._check_open(vhost, exchange)
        return self._vhost(vhost).router.route(exchange, routing_key, headers, raw)

    def route_delayed(
        self, vhost: str, exchange: str, routing_key: str, headers: fields.Table
    ) -> tuple[Names, Names]:
        """Return the names of queues that get a message at once, and of exchanges that delay it."""
        self._check_open(vhost, exchange)
        return self._vhost(vhost).router.route_delayed(exchange, routing_key, headers)

    def _check_open(self, vhost: str, exchange: str) -> None:
        """Raise AmqpError if the exchange does not exist or is internal."""
        found = self.find_exchange(vhost, exchange)
        if found.internal:
            raise refused(f"cannot publish to internal {found}", ReplyCode.ACCESS_REFUSED)

    def route_again(
        self, vhost: str, exchange: str, keys: Iterable[str], headers: fields.Table
    ) -> Names:
        """Return the names of the queues for a dead letter, or for a delayed message that is due.

        Empty if the exchange does not exist, or no binding matches.
        """
        state = self._vhost(vhost)
        if exchange not in state.exchanges:
            return ()
        try:
            return state.router.route_keys(exchange, tuple(keys), headers)
        except AmqpError:
            # Its routing key matches too many wildcards, and there is no client to report that to.
            return ()

    # Storing and applying.

    def _checked(self, binding: Binding) -> Binding:
        source, destination = stripped(binding.source), stripped(binding.destination)
        if binding.destination_kind is DestinationKind.EXCHANGE:
            check_not_default(destination)
        check_not_default(source)
        return msgspec.structs.replace(binding, source=source, destination=destination)

    def _commit(
        self, *, added: Sequence[Declared] = (), removed: Sequence[Declared] = ()
    ) -> Durable:
        changes: dict[tuple[str, str], bytes | None] = {}
        for each in removed:
            if each.durable:
                changes[each.kind, each.key] = None
        for each in added:
            if each.durable:
                changes[each.kind, each.key] = each.stored
        durable = self._definitions.change(changes) if changes else AT_ONCE
        for each in removed:
            self._drop(each)
        for each in added:
            self._put(each)
        if changes:
            self.last = durable
            durable.then(self._check_kept)
        return durable

    def _put(self, declared: Declared) -> None:
        vhost = declared.vhost
        if vhost not in self._vhosts:
            self._vhosts[vhost] = VirtualHost(vhost)
        self._vhosts[vhost].put(declared)

    def _drop(self, declared: Declared) -> None:
        state = self._vhosts[declared.vhost]
        state.drop(declared)
        if not state.is_used:
            del self._vhosts[declared.vhost]

    def _vhost(self, vhost: str) -> VirtualHost:
        """Return a virtual host, not to be changed; an empty one if it has no definitions."""
        if self._is_stale:
            self._reload()
        return self._vhosts.get(vhost) or VirtualHost(vhost)

    def _check_kept(self, error: MainstemError | None) -> None:
        """Mark the state for a reload if storing a change failed; called from any thread."""
        if error is not None:
            self._is_stale = True

    def _load(self) -> None:
        for kind in (Exchange.kind, Queue.kind, Binding.kind):
            for _, value in sorted(self._definitions.items(kind).items()):
                self._put_if_whole(load(value))

    def _reload(self) -> None:
        """Replace the state by the stored definitions.

        Definitions that are not stored stay, except bindings whose queue or exchange no longer
        exists.
        """
        self._is_stale = False
        before, self._vhosts = self._vhosts, {}
        self._load()
        for state in before.values():
            for each in state.declared():
                if not each.durable:
                    self._put_if_whole(each)

    def _put_if_whole(self, declared: Declared) -> None:
        state = self._vhosts.get(declared.vhost) or VirtualHost(declared.vhost)
        if not isinstance(declared, Binding) or (
            declared.source in state.exchanges
            and state.has_end(declared.destination_kind, declared.destination)
        ):
            self._put(declared)

    def _free_name(self, vhost: str) -> str:
        while True:
            token = urlsafe_b64encode(self._random_bytes(16)).decode().rstrip("=")
            if self.queue(vhost, name := f"amq.gen-{token}") is None:
                return name


def _implicit(queue: Queue) -> Binding:
    return Binding(
        queue.vhost,
        DEFAULT_EXCHANGE,
        DestinationKind.QUEUE,
        queue.name,
        queue.name,
        durable=queue.durable,
    )

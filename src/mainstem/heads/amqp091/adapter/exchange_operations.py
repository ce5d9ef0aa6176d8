"""Exchange operations of the admin port: list and show exchanges, bind, unbind.

Permissions: a list shows only the exchanges that the peer may DESCRIBE; a binding needs READ on its
source and ALTER on its destination. In permissions an exchange has the name that a queue's topic
would have: ``topic_of(vhost, name)``.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import msgspec

from mainstem.auth import Action, Peer, Resource, ResourceKind
from mainstem.broker.door import Durable
from mainstem.core.errors import Denied, Failure, InvalidSetting, Unauthenticated
from mainstem.heads.admin_operations import OperationFailed
from mainstem.heads.amqp091 import fields
from mainstem.heads.amqp091.adapter.topology.declared import Binding, DestinationKind, Exchange
from mainstem.heads.amqp091.adapter.topology.names import DEFAULT_VHOST, topic_of
from mainstem.heads.amqp091.adapter.topology.topology import Topology
from mainstem.heads.amqp091.errors import AmqpError, ReplyCode

if TYPE_CHECKING:
    from mainstem.heads.amqp091.adapter.service import Service

LIST, SHOW, BIND, UNBIND = "exchanges", "exchanges/show", "exchanges/bind", "exchanges/unbind"
T = TypeVar("T")
_FAILURES = {
    ReplyCode.NOT_FOUND: Failure.NOT_FOUND,
    ReplyCode.ACCESS_REFUSED: Failure.CONFLICT,
    ReplyCode.RESOURCE_LOCKED: Failure.CONFLICT,
}
"""The failure class of an AMQP error, by its reply code; INVALID for all other codes."""


class ListExchanges(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """List exchanges."""

    vhost: str | None = None
    """The virtual host whose exchanges are listed; None for those of all virtual hosts."""


class ShowExchange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Show an exchange with its bindings."""

    name: str
    vhost: str = DEFAULT_VHOST


class ChangeBinding(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Bind a queue or an exchange to an exchange, or unbind it."""

    exchange: str
    destination: str
    kind: DestinationKind = DestinationKind.QUEUE
    """The kind of the destination: queue or exchange."""
    routing_key: str = ""
    arguments: dict[str, object] = {}
    vhost: str = DEFAULT_VHOST


class ExchangeInfo(msgspec.Struct, frozen=True):
    """An exchange, with the number of bindings from it."""

    vhost: str
    name: str
    type: str
    durable: bool
    auto_delete: bool
    internal: bool
    bindings: int
    arguments: object


class BindingInfo(msgspec.Struct, frozen=True):
    """A binding, as the admin port returns it."""

    source: str
    kind: str
    """The kind of the destination: queue or exchange."""
    destination: str
    routing_key: str
    durable: bool
    arguments: object


class ExchangeDetails(msgspec.Struct, frozen=True):
    """An exchange with the bindings from it and to it."""

    exchange: ExchangeInfo
    bindings: list[BindingInfo]
    bound_to: list[BindingInfo]


class Changed(msgspec.Struct, frozen=True):
    """The result of binding or unbinding: false if the binding was there, or not there, before."""

    changed: bool


_Change = Callable[[Binding], Durable]


class ExchangeOperations:
    """The admin port's operations on exchanges.

    Called in any thread except the event loop's, which owns the topology.
    """

    def __init__(self, service: "Service") -> None:
        self._context = service.context
        self._topology = service.topology

    def offer(self) -> None:
        """Register all operations on exchanges with the admin port."""
        topology, offer = self._topology, self._context.administration.offer
        offer(LIST, ListExchanges, self.list, changes=False, answer=list[ExchangeInfo])
        offer(SHOW, ShowExchange, self.show, changes=False, answer=ExchangeDetails)
        bind, unbind = partial(self._change, topology.bind), partial(self._change, topology.unbind)
        offer(BIND, ChangeBinding, bind, changes=True, answer=Changed)
        offer(UNBIND, ChangeBinding, unbind, changes=True, answer=Changed)

    def list(self, peer: Peer, asked: ListExchanges) -> Sequence[ExchangeInfo]:
        """Return all exchanges that the peer may describe."""

        def look() -> list[ExchangeInfo]:
            vhosts = self._topology.vhosts() if asked.vhost is None else [asked.vhost]
            return [
                _info(self._topology, each)
                for vhost in vhosts
                for each in sorted(self._topology.exchanges(vhost), key=lambda it: it.name)
            ]

        found = self._context.from_thread(look)
        return [each for each in found if self._may_describe(peer, each)]

    def show(self, peer: Peer, asked: ShowExchange) -> ExchangeDetails:
        """Return an exchange with its bindings."""
        self._authorize(peer, Action.DESCRIBE, asked.vhost, asked.name)

        def look() -> ExchangeDetails:
            exchange = self._topology.find_exchange(asked.vhost, asked.name)
            to = self._topology.bindings_to(asked.vhost, DestinationKind.EXCHANGE, asked.name)
            return ExchangeDetails(
                _info(self._topology, exchange),
                [_binding(it) for it in self._topology.bindings_from(asked.vhost, asked.name)],
                [_binding(it) for it in to],
            )

        return self._on_loop(look)

    def _change(self, change: _Change, peer: Peer, asked: ChangeBinding) -> Changed:
        vhost, exchange, to = asked.vhost, asked.exchange, asked.destination
        is_queue = asked.kind is DestinationKind.QUEUE
        self._authorize(peer, Action.READ, vhost, exchange)
        kind = ResourceKind.GROUP if is_queue else ResourceKind.EXCHANGE
        self._authorize(peer, Action.ALTER, vhost, to, kind)
        arguments = _checked(asked)
        binding = Binding(vhost, exchange, asked.kind, to, asked.routing_key, arguments)

        def carry_out() -> tuple[bool, Durable]:
            self._topology.find_exchange(vhost, exchange)
            before = len(self._topology.bindings_from(vhost, exchange))
            durable = change(binding)
            return len(self._topology.bindings_from(vhost, exchange)) != before, durable

        is_changed, durable = self._on_loop(carry_out)
        durable.wait()
        return Changed(is_changed)

    def _on_loop(self, call: Callable[[], T]) -> T:
        try:
            return self._context.from_thread(call)
        except AmqpError as error:
            failure = _FAILURES.get(error.code, Failure.INVALID)
            raise OperationFailed(failure, error.detail) from None

    def _authorize(
        self,
        peer: Peer,
        action: Action,
        vhost: str,
        name: str,
        kind: ResourceKind = ResourceKind.EXCHANGE,
    ) -> None:
        self._context.auth.authorize(peer.principal, action, Resource(kind, topic_of(vhost, name)))

    def _may_describe(self, peer: Peer, exchange: ExchangeInfo) -> bool:
        try:
            self._authorize(peer, Action.DESCRIBE, exchange.vhost, exchange.name)
        except (Denied, Unauthenticated):
            return False
        return True


def _checked(asked: ChangeBinding) -> fields.Table:
    """Return the binding arguments as a table, as a client would send it; raises InvalidSetting."""
    try:
        fields.short_string(asked.routing_key)
        written = fields.table(asked.arguments)
        return fields.read_table(written, 0, len(written))[0]
    except (ValueError, AmqpError, RecursionError) as error:
        raise InvalidSetting(f"no client could send this binding: {error}") from None


def _info(topology: Topology, exchange: Exchange) -> ExchangeInfo:
    return ExchangeInfo(
        exchange.vhost,
        exchange.name,
        exchange.type,
        exchange.durable,
        exchange.auto_delete,
        exchange.internal,
        len(topology.bindings_from(exchange.vhost, exchange.name)),
        _plain(exchange.arguments),
    )


def _binding(binding: Binding) -> BindingInfo:
    return BindingInfo(
        binding.source,
        binding.destination_kind,
        binding.destination,
        binding.routing_key,
        binding.durable,
        _plain(binding.arguments),
    )


def _plain(value: object) -> object:
    """Convert a value of an AMQP table to one that JSON can represent."""
    match value:
        case Mapping():
            return {str(name): _plain(each) for name, each in value.items()}
        case Sequence() if not isinstance(value, str | bytes):
            return [_plain(each) for each in value]
    return _plain_scalar(value)


def _plain_scalar(value: object) -> object:
    match value:
        case bool():
            return value
        # Some numbers have a class of their own that gives their width.
        case int():
            return int(value)
        case float():
            return float(value)
        case bytes():
            return bytes(value).decode("utf-8", "replace")
        case fields.Timestamp():
            return value.seconds
    return value

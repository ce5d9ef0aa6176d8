"""Operations of the admin port on exchanges: list and show them, bind, unbind.

Permissions: a list shows only the exchanges that the peer may DESCRIBE; a binding needs READ on its
source and ALTER on its destination. The resource name of an exchange in a permission is the name
that the topic of a queue with that name would have: ``topic_of(vhost, name)``.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from mainstem.auth import Action, Peer, ResourceKind
from mainstem.broker.door import Durable
from mainstem.heads.admin_operations import operation
from mainstem.heads.amqp091.adapter.management.access import Access, plain, table_of
from mainstem.heads.amqp091.adapter.topology.declared import Binding, DestinationKind, Exchange
from mainstem.heads.amqp091.adapter.topology.names import DEFAULT_VHOST
from mainstem.heads.amqp091.adapter.topology.topology import Topology

if TYPE_CHECKING:
    from mainstem.heads.amqp091.adapter.service import Service

LIST, SHOW, BIND, UNBIND = "exchanges", "exchanges/show", "exchanges/bind", "exchanges/unbind"


class ListExchanges(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """List exchanges."""

    vhost: str | None = None
    """The virtual host whose exchanges are listed; None for those of all virtual hosts."""


class ShowExchange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Show an exchange with its bindings."""

    exchange: str
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
    """The result of binding or unbinding: false if there was nothing to change."""

    changed: bool


_Change = Callable[[Binding], Durable]


class ExchangeOperations:
    """The admin port's operations on exchanges.

    Must not be called in the event loop: the operations wait for the loop, which owns the topology.
    """

    def __init__(self, service: "Service") -> None:
        self._access, self._context = Access(service), service.context
        self._topology = service.topology

    @operation(LIST, "GET amqp/exchanges")
    def list(self, peer: Peer, asked: ListExchanges) -> Sequence[ExchangeInfo]:
        """List exchanges."""

        def look() -> list[ExchangeInfo]:
            vhosts = self._topology.vhosts() if asked.vhost is None else [asked.vhost]
            return [
                _info(self._topology, each)
                for vhost in vhosts
                for each in sorted(self._topology.exchanges(vhost), key=lambda it: it.name)
            ]

        found = self._context.from_thread(look)
        return [each for each in found if self._access.may_describe(peer, each.vhost, each.name)]

    @operation(SHOW, "GET amqp/exchanges/{vhost}/{exchange}")
    def show(self, peer: Peer, asked: ShowExchange) -> ExchangeDetails:
        """Show an exchange with its bindings."""
        self._access.authorize(peer, Action.DESCRIBE, asked.vhost, asked.exchange)

        def look() -> ExchangeDetails:
            exchange = self._topology.find_exchange(asked.vhost, asked.exchange)
            to = self._topology.bindings_to(asked.vhost, DestinationKind.EXCHANGE, asked.exchange)
            return ExchangeDetails(
                _info(self._topology, exchange),
                [_binding(it) for it in self._topology.bindings_from(asked.vhost, asked.exchange)],
                [_binding(it) for it in to],
            )

        return self._access.on_loop(look)

    @operation(BIND, "POST amqp/bindings")
    def bind(self, peer: Peer, asked: ChangeBinding) -> Changed:
        """Bind a queue or an exchange to an exchange."""
        return self._change(self._topology.bind, peer, asked)

    @operation(UNBIND, "POST amqp/bindings/remove")
    def unbind(self, peer: Peer, asked: ChangeBinding) -> Changed:
        """Remove the binding with exactly this routing key and these arguments."""
        return self._change(self._topology.unbind, peer, asked)

    def _change(self, change: _Change, peer: Peer, asked: ChangeBinding) -> Changed:
        vhost, exchange, to = asked.vhost, asked.exchange, asked.destination
        is_queue = asked.kind is DestinationKind.QUEUE
        self._access.authorize(peer, Action.READ, vhost, exchange)
        kind = ResourceKind.GROUP if is_queue else ResourceKind.EXCHANGE
        self._access.authorize(peer, Action.ALTER, vhost, to, kind)
        arguments = table_of(asked.arguments, asked.routing_key)
        binding = Binding(vhost, exchange, asked.kind, to, asked.routing_key, arguments)

        def carry_out() -> tuple[bool, Durable]:
            self._topology.find_exchange(vhost, exchange)
            before = len(self._topology.bindings_from(vhost, exchange))
            durable = change(binding)
            return len(self._topology.bindings_from(vhost, exchange)) != before, durable

        is_changed, durable = self._access.on_loop(carry_out)
        durable.wait()
        return Changed(is_changed)


def _info(topology: Topology, exchange: Exchange) -> ExchangeInfo:
    return ExchangeInfo(
        exchange.vhost,
        exchange.name,
        exchange.type,
        exchange.durable,
        exchange.auto_delete,
        exchange.internal,
        len(topology.bindings_from(exchange.vhost, exchange.name)),
        plain(exchange.arguments),
    )


def _binding(binding: Binding) -> BindingInfo:
    return BindingInfo(
        binding.source,
        binding.destination_kind,
        binding.destination,
        binding.routing_key,
        binding.durable,
        plain(binding.arguments),
    )

"""Operations on AMQP exchanges and bindings that clients have methods for: declare, delete, unbind.

Listing, showing and binding are in ``exchange_operations.py``.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from mainstem.auth import Action, Peer, ResourceKind
from mainstem.core.errors import Failure
from mainstem.heads.admin_operations import OperationFailed, operation
from mainstem.heads.amqp091 import methods
from mainstem.heads.amqp091.adapter.management.access import Access, plain, table_of
from mainstem.heads.amqp091.adapter.management.queue_operations import Declared
from mainstem.heads.amqp091.adapter.topology.declared import Binding, DestinationKind

if TYPE_CHECKING:
    from mainstem.broker.door import Durable
    from mainstem.heads.amqp091.adapter.service import Service


class NameExchange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Name an AMQP exchange."""

    vhost: str
    exchange: str


class DeclareExchange(NameExchange, frozen=True):
    """Declare an AMQP exchange, or check that an existing one was declared like this."""

    type: str
    durable: bool = True
    auto_delete: bool = False
    internal: bool = False
    arguments: dict[str, object] = {}


class DeleteExchange(NameExchange, frozen=True):
    """Delete an AMQP exchange with its bindings."""

    if_unused: bool = False


class ListBindings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """List bindings, including those of the default exchange to every queue."""

    vhost: str | None = None
    """The virtual host whose bindings are listed; None for those of all virtual hosts."""


class DeleteBinding(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Delete one of the bindings between an exchange and a queue or another exchange."""

    vhost: str
    source: str
    kind: DestinationKind
    """The kind of the destination: queue or exchange."""
    destination: str
    properties_key: str
    """Which of the bindings between the two; it is in the list of bindings."""


class AmqpBinding(msgspec.Struct, frozen=True):
    """A binding."""

    vhost: str
    source: str
    kind: str
    destination: str
    routing_key: str
    arguments: object
    properties_key: str
    """Distinguishes the bindings between one source and one destination."""
    durable: bool


class DeclarationOperations:
    """The admin API's operations on exchanges and bindings."""

    def __init__(self, service: "Service") -> None:
        self._access, self._topology = Access(service), service.topology
        self._context = service.context

    @operation("amqp/exchanges/declare", "PUT amqp/exchanges/{vhost}/{exchange}")
    def declare(self, peer: Peer, asked: DeclareExchange) -> Declared:
        """Declare an AMQP exchange, or check that an existing one was declared like this."""
        self._access.authorize(peer, Action.CREATE, asked.vhost, asked.exchange)
        method = methods.ExchangeDeclare(
            exchange=asked.exchange,
            type=asked.type,
            durable=asked.durable,
            auto_delete=asked.auto_delete,
            internal=asked.internal,
            arguments=table_of(asked.arguments, asked.vhost, asked.exchange),
        )

        def carry_out() -> "tuple[bool, Durable]":
            is_new = self._topology.exchange(asked.vhost, asked.exchange) is None
            return is_new, self._topology.declare_exchange(asked.vhost, method)

        is_new, durable = self._access.on_loop(carry_out)
        durable.wait()
        return Declared(is_new)

    @operation("amqp/exchanges/delete", "DELETE amqp/exchanges/{vhost}/{exchange}")
    def delete(self, peer: Peer, asked: DeleteExchange) -> None:
        """Delete an AMQP exchange with its bindings."""
        self._access.authorize(peer, Action.DELETE, asked.vhost, asked.exchange)

        def carry_out() -> "Durable":
            self._topology.find_exchange(asked.vhost, asked.exchange)
            return self._topology.delete_exchange(
                asked.vhost, asked.exchange, if_unused=asked.if_unused
            )

        self._access.on_loop(carry_out).wait()

    @operation("amqp/bindings/list", "GET amqp/bindings")
    def bindings(self, peer: Peer, asked: ListBindings) -> Sequence[AmqpBinding]:
        """List bindings, including those of the default exchange to every queue."""

        def look() -> list[Binding]:
            return [
                it
                for vhost in self._access.vhosts(asked.vhost)
                for it in self._topology.bindings(vhost, implicit=True)
            ]

        found = self._context.from_thread(look)
        sources = {(it.vhost, it.source) for it in found}
        allowed = {it for it in sources if self._access.may_describe(peer, *it)}
        return [_described(it) for it in found if (it.vhost, it.source) in allowed]

    @operation(
        "amqp/bindings/delete",
        "DELETE amqp/bindings/{vhost}/{source}/{kind}/{destination}/{properties_key}",
    )
    def unbind(self, peer: Peer, asked: DeleteBinding) -> None:
        """Delete one of the bindings between an exchange and a queue or another exchange."""
        self._access.authorize(peer, Action.READ, asked.vhost, asked.source)
        is_queue = asked.kind is DestinationKind.QUEUE
        kind = ResourceKind.GROUP if is_queue else ResourceKind.EXCHANGE
        self._access.authorize(peer, Action.ALTER, asked.vhost, asked.destination, kind)

        def carry_out() -> "Durable":
            to = self._topology.bindings_to(asked.vhost, asked.kind, asked.destination)
            for each in to:
                if (each.source, each.properties_key) == (asked.source, asked.properties_key):
                    return self._topology.unbind(each)
            why = f"no binding {asked.properties_key!r:.300} from exchange {asked.source!r:.300}"
            raise OperationFailed(Failure.NOT_FOUND, f"{why} to {asked.destination!r:.300}")

        self._access.on_loop(carry_out).wait()


def _described(binding: Binding) -> AmqpBinding:
    return AmqpBinding(
        binding.vhost,
        binding.source,
        binding.destination_kind,
        binding.destination,
        binding.routing_key,
        plain(binding.arguments),
        binding.properties_key,
        binding.durable,
    )

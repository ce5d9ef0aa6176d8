"""One virtual host: its exchanges, queues and bindings, and what else a deletion deletes."""

from typing import TypeVar

from mainstem.heads.amqp091.adapter.topology.declared import (
    Binding,
    Declared,
    DestinationKind,
    Exchange,
    Identity,
    Queue,
    predeclared,
)
from mainstem.heads.amqp091.adapter.topology.routing import Router

End = tuple[DestinationKind, str]
_K = TypeVar("_K")
_I = TypeVar("_I")
_V = TypeVar("_V")


class VirtualHost:
    """The definitions of one virtual host; only ``put`` and ``drop`` change them."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.exchanges: dict[str, Exchange] = dict(predeclared(name))
        self.queues: dict[str, Queue] = {}
        self.bindings: dict[Identity, Binding] = {}
        self._from: dict[str, dict[Identity, Binding]] = {}
        self._to: dict[End, dict[Identity, Binding]] = {}
        self._owned: dict[str, dict[str, Queue]] = {}
        self.router = Router(self.exchanges, self.queues)
        self._predeclared = len(self.exchanges)

    @property
    def is_used(self) -> bool:
        """Whether clients have defined anything in this virtual host."""
        return bool(self.queues or self.bindings or len(self.exchanges) > self._predeclared)

    def bindings_from(self, exchange: str) -> list[Binding]:
        """Return the bindings whose source is an exchange."""
        return list(self._from.get(exchange, {}).values())

    def bindings_to(self, kind: DestinationKind, name: str) -> list[Binding]:
        """Return the bindings whose destination is a queue or an exchange."""
        return list(self._to.get((kind, name), {}).values())

    def owned_by(self, connection: str) -> list[Queue]:
        """Return the queues that are exclusive to a connection."""
        return list(self._owned.get(connection, {}).values())

    def declared(self) -> list[Declared]:
        """Return all definitions: first exchanges, then queues, then bindings."""
        return [*self.exchanges.values(), *self.queues.values(), *self.bindings.values()]

    def has_end(self, kind: DestinationKind, name: str) -> bool:
        """Tell whether the queue or exchange exists, so that a binding can lead to it."""
        return name in (self.queues if kind is DestinationKind.QUEUE else self.exchanges)

    def put(self, declared: Declared) -> None:
        """Add an exchange, queue or binding."""
        match declared:
            case Exchange():
                self.exchanges[declared.name] = declared
            case Queue():
                self.queues[declared.name] = declared
                if declared.exclusive is not None:
                    self._owned.setdefault(declared.exclusive, {})[declared.name] = declared
            case Binding():
                identity = declared.identity
                self.bindings[identity] = declared
                self._from.setdefault(declared.source, {})[identity] = declared
                self._to.setdefault(_end(declared), {})[identity] = declared
                self.router.add(declared)
        self.router.forget_routes()

    def drop(self, declared: Declared) -> None:
        """Remove an exchange, queue or binding; its bindings must be removed before it."""
        match declared:
            case Exchange():
                del self.exchanges[declared.name]
                self.router.forget_exchange(declared.name)
            case Queue():
                del self.queues[declared.name]
                if declared.exclusive is not None:
                    _take(self._owned, declared.exclusive, declared.name)
            case Binding():
                identity = declared.identity
                del self.bindings[identity]
                _take(self._from, declared.source, identity)
                _take(self._to, _end(declared), identity)
                self.router.remove(declared)
        self.router.forget_routes()

    def with_bindings(self, gone: Exchange | Queue) -> list[Declared]:
        """Return what is deleted with an exchange or queue: bindings, itself, other exchanges."""
        first = list[Binding]()
        if isinstance(gone, Exchange):
            first += self.bindings_from(gone.name)
        return self._cascade(first, gone)

    def with_sources(self, binding: Binding) -> list[Declared]:
        """Return what is deleted with a binding: itself, auto-delete exchanges, their bindings."""
        return self._cascade([binding], None)

    def _cascade(self, bindings: list[Binding], last: Exchange | Queue | None) -> list[Declared]:
        """Return bindings, and the auto-delete exchanges that lose their last binding with them."""
        gone = {each.identity: each for each in bindings}
        ends: dict[End, Exchange | Queue] = {}
        # Bindings from a deleted exchange delete no further sources.
        lost: list[Binding] = bindings if last is None else []
        if last is not None:
            ends[DestinationKind(last.kind), last.name] = last
            lost = self.bindings_to(DestinationKind(last.kind), last.name)
        while lost:
            binding = lost.pop()
            gone[binding.identity] = binding
            source = self.exchanges[binding.source]
            end = (DestinationKind.EXCHANGE, source.name)
            if end in ends or not source.auto_delete:
                continue
            if self._from[source.name].keys() <= gone.keys():
                ends[end] = source
                lost += self.bindings_to(*end)
        return [*gone.values(), *ends.values()]


def _end(binding: Binding) -> End:
    return binding.destination_kind, binding.destination


def _take(of: dict[_K, dict[_I, _V]], key: _K, item: _I) -> None:
    of[key].pop(item, None)
    if not of[key]:
        del of[key]

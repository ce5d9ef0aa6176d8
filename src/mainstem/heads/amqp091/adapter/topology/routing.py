"""Routing: finds the queues that a message goes to, through all bound exchanges.

How this works: an exchange's matcher finds the bindings that match a message (``matching.py``).
Exchanges bound to it are then routed through in turn, each once, so cycles do no harm. A message
that matches no binding goes to the alternate exchange.

Nearly all routes depend on exchange and routing key only; they are cached until anything in the
virtual host changes. Those that depend on the exchange only (fanout) are computed once for all
routing keys.
"""

from collections.abc import Sequence

from mainstem.heads.amqp091 import fields
from mainstem.heads.amqp091.adapter.topology.declared import (
    DEFAULT_EXCHANGE,
    NO_ARGUMENTS,
    Binding,
    Exchange,
    ExchangeType,
    Queue,
)
from mainstem.heads.amqp091.adapter.topology.equivalence import refused, type_name
from mainstem.heads.amqp091.adapter.topology.matching import Matcher, new_matcher

CC, BCC = "CC", "BCC"
MAX_REMEMBERED = 100_000
"""Maximum size of a virtual host's route cache: the number of routes and of queue names in them."""

Names = tuple[str, ...]


class Router:
    """Computes and caches the routes of one virtual host."""

    def __init__(self, exchanges: dict[str, Exchange], queues: dict[str, Queue]) -> None:
        self._exchanges = exchanges
        self._queues = queues
        self._matchers: dict[str, Matcher] = {}
        self._remembered: dict[bytes | tuple[str, str], Names] = {}
        self._by_exchange: dict[str, Names] = {}
        self._room = MAX_REMEMBERED

    def add(self, binding: Binding) -> None:
        """Add a binding to the matcher of its exchange."""
        source = binding.source
        if source not in self._matchers:
            self._matchers[source] = new_matcher(self._exchanges[source].matching)
        self._matchers[source].add(binding)

    def remove(self, binding: Binding) -> None:
        """Remove a binding from the matcher of its exchange."""
        self._matchers[binding.source].remove(binding)

    def forget_exchange(self, name: str) -> None:
        """Remove the matcher of an exchange that is deleted."""
        self._matchers.pop(name, None)

    def forget_routes(self) -> None:
        """Clear the route cache, because an exchange, queue or binding has changed."""
        if self._remembered:
            self._remembered = {}
            self._by_exchange = {}
            self._room = MAX_REMEMBERED

    def remembered(self, route: bytes) -> Names | None:
        """Return the cached queue names for an encoded exchange and routing key, or None."""
        return self._remembered.get(route)

    def route(
        self,
        exchange: str,
        routing_key: str,
        headers: fields.Table | None = None,
        raw: bytes | None = None,
    ) -> Names:
        """Return the sorted names of the queues that get a message.

        Raises AmqpError if its headers CC or BCC are malformed. ``raw``: the encoded exchange and
        routing key, under which the route is cached.
        """
        copies = copy_keys(headers) if headers else ()
        if copies:
            return self.route_keys(exchange, (routing_key, *copies), headers or NO_ARGUMENTS)
        key = (exchange, routing_key) if raw is None else raw
        found = self._remembered.get(key)
        if found is not None:
            return found
        found = self._by_exchange.get(exchange)
        if found is not None:
            self._remember(key, found, size=1)
            return found
        found, by_key, by_headers = self._routed(exchange, (routing_key,), headers or NO_ARGUMENTS)
        if not by_headers:
            self._remember(key, found, size=1 + len(found))
            if not by_key:
                self._by_exchange[exchange] = found
        return found

    def route_keys(
        self, exchange: str, keys: Sequence[str], headers: fields.Table = NO_ARGUMENTS
    ) -> Names:
        """Return the names of the queues for these routing keys, ignoring headers CC and BCC."""
        return self._routed(exchange, keys, headers)[0]

    def route_delayed(
        self, exchange: str, routing_key: str, headers: fields.Table
    ) -> tuple[Names, Names]:
        """Return the names of queues that get a message at once, and of exchanges that delay it.

        Raises AmqpError if its headers CC or BCC are malformed.
        """
        delaying: set[str] = set()
        keys = (routing_key, *copy_keys(headers))
        return self._routed(exchange, keys, headers, delaying)[0], tuple(sorted(delaying))

    def _routed(
        self,
        exchange: str,
        keys: Sequence[str],
        headers: fields.Table,
        delaying: set[str] | None = None,
    ) -> tuple[Names, bool, bool]:
        """Return queue names, whether they depend on the routing keys, and whether on the headers.

        ``delaying``: if given, exchanges of type ``x-delayed-message`` are added to it, and not
        routed through.
        """
        queues: set[str] = set()
        by_key = by_headers = False
        seen, waiting = {exchange}, [exchange]
        while waiting:
            name = waiting.pop()
            if name == DEFAULT_EXCHANGE:
                queues.update(key for key in keys if key in self._queues)
                by_key = True
                continue
            if delaying is not None and self._exchanges[name].type is ExchangeType.DELAYED:
                delaying.add(name)
                continue
            matcher = self._matchers.get(name)
            buckets = [] if matcher is None else list(matcher.match(keys, headers))
            if matcher is not None:
                by_key, by_headers = by_key or matcher.by_key, by_headers or matcher.by_headers
            following: set[str] = set()
            for bucket in buckets:
                queues.update(bucket.queues)
                following.update(bucket.exchanges)
            if not buckets:
                alternate = self._exchanges[name].alternate
                if alternate is not None and alternate in self._exchanges:
                    following.add(alternate)
            waiting.extend(following - seen)
            seen |= following
        return tuple(sorted(queues)), by_key, by_headers

    def _remember(self, key: bytes | tuple[str, str], route: Names, *, size: int) -> None:
        self._room -= size
        if self._room < 0:
            self.forget_routes()
            self._room -= size
        self._remembered[key] = route


def copy_keys(headers: fields.Table) -> Names:
    """Return the additional routing keys in the headers CC and BCC; raises AmqpError."""
    if CC not in headers and BCC not in headers:
        return ()
    return (*_keys(headers, CC), *_keys(headers, BCC))


def without_bcc(headers: fields.Table) -> fields.Table:
    """Return the headers without BCC, which consumers must not see."""
    return {name: value for name, value in headers.items() if name != BCC}


def _keys(headers: fields.Table, name: str) -> list[str]:
    if name not in headers:
        return []
    value = headers[name]
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        reason = f'{{unacceptable_type_in_header,"{name}",{type_name(value)}}}'
        raise refused(f"invalid message: {reason}")
    return [each for each in value if isinstance(each, str)]

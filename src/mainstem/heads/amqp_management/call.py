"""A request of the management API, with what the functions that answer it need."""

from collections.abc import Callable, Mapping
from typing import TypeVar, cast

import msgspec

from mainstem.auth import CLUSTER, Action, Peer
from mainstem.core.errors import Failure
from mainstem.heads.admin_operations import OperationFailed
from mainstem.heads.context import HeadContext

Item = dict[str, object]
"""A JSON object."""
NODE = "mainstem@localhost"
"""The name of the only node."""
DEFAULT = "amq.default"
"""The name of the default exchange in paths, which cannot contain its empty name."""
S = TypeVar("S", bound=msgspec.Struct)


class Created(msgspec.Struct, frozen=True):
    """The answer to a declaration: 201 if it is new, otherwise 204."""

    created: bool
    location: str = ""
    """The address of what was created, relative to that of the request."""


class Status(msgspec.Struct, frozen=True):
    """An answer with an HTTP status of its own."""

    status: int
    body: Item


class Declaration(msgspec.Struct, frozen=True):
    """What declarations of queues and exchanges have in common; the defaults are RabbitMQ's."""

    durable: bool = False
    auto_delete: bool = False
    arguments: dict[str, object] = {}


class Call(msgspec.Struct, frozen=True):
    """A request: its sender, path, query and body."""

    context: HeadContext
    peer: Peer
    path: Mapping[str, str]
    """The arguments in the path, decoded."""
    query: Mapping[str, str]
    body: bytes = b""
    reason: str = ""
    """Why the client asks to close a connection (the header X-Reason)."""

    @property
    def vhost(self) -> str:
        """The virtual host in the path."""
        return self.path["vhost"]

    @property
    def vhost_or_all(self) -> Item:
        """The argument ``vhost`` for operations that list; empty to list all virtual hosts."""
        return {"vhost": self.vhost} if "vhost" in self.path else {}

    def exchange(self, argument: str = "exchange") -> str:
        """Return the name of the exchange in the path."""
        name = self.path[argument]
        return "" if name == DEFAULT else name

    def flag(self, name: str) -> bool:
        """Tell whether a query parameter is true."""
        return self.query.get(name, "").lower() == "true"

    def read(self, kind: type[S]) -> S:
        """Decode the body as a ``kind``; unknown fields are ignored."""
        try:
            # Tools send numbers and booleans as text.
            return msgspec.json.decode(self.body or b"{}", type=kind, strict=False)
        except (msgspec.DecodeError, msgspec.ValidationError, RecursionError) as error:
            why = f"the body is not what is expected here: {error}"
            raise OperationFailed(Failure.INVALID, why) from None

    def check(self, action: Action = Action.DESCRIBE) -> None:
        """Raise Denied or Unauthenticated if the peer may not do ``action`` with the server."""
        self.context.auth.authorize(self.peer.principal, action, CLUSTER)

    def run(self, operation: str, **given: object) -> object:
        """Run an operation of the AMQP head, and return its result."""
        found = self.context.administration.find(operation)
        if found is None:
            why = "AMQP is off: start the server with --amqp HOST:PORT"
            raise OperationFailed(Failure.UNAVAILABLE, why)
        return found.run(self.peer, given, text=False)

    def item(self, operation: str, **given: object) -> Item:
        """Run an operation that returns a struct; return it as a JSON object."""
        return cast(Item, msgspec.to_builtins(self.run(operation, **given)))

    def items(self, operation: str, **given: object) -> list[Item]:
        """Run an operation that returns a list; return it as JSON objects."""
        return cast("list[Item]", msgspec.to_builtins(self.run(operation, **given)))


Answer = Callable[[Call], object]
"""Answers a request: returns None for no content, a ``Created`` or ``Status``, or a value to be
sent as JSON.
"""


def refuse(why: str) -> Answer:
    """Return a function that refuses every request with this reason."""

    def answer(_: Call) -> object:
        raise OperationFailed(Failure.UNSUPPORTED, why)

    return answer

"""How management operations use the AMQP head: in the event loop, with the permissions of a peer.

Operations must not be called in the event loop: they wait for the loop, which owns the topology and
the connections. The resource name of an exchange in a permission is the name that the topic of a
queue with that name would have.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from mainstem.auth import Action, Peer, Resource, ResourceKind
from mainstem.core.errors import Denied, Failure, InvalidSetting, Unauthenticated
from mainstem.heads.admin_operations import OperationFailed
from mainstem.heads.amqp091 import fields
from mainstem.heads.amqp091.adapter.topology.names import topic_of
from mainstem.heads.amqp091.errors import AmqpError, ReplyCode
from mainstem.heads.conversation import Answer

if TYPE_CHECKING:
    from mainstem.heads.amqp091.adapter.conversation import AmqpConversation
    from mainstem.heads.amqp091.adapter.service import Service

T = TypeVar("T")
_FAILURES = {
    ReplyCode.NOT_FOUND: Failure.NOT_FOUND,
    ReplyCode.ACCESS_REFUSED: Failure.CONFLICT,
    ReplyCode.RESOURCE_LOCKED: Failure.CONFLICT,
}
"""The failure class of an AMQP error, by its reply code; INVALID for all other codes."""


class Access:
    """Runs management operations in the AMQP head's event loop, and checks their permissions."""

    def __init__(self, service: "Service") -> None:
        self.service, self.context = service, service.context

    def on_loop(self, call: Callable[[], T]) -> T:
        """Run a call in the event loop; an AmqpError becomes OperationFailed."""
        try:
            return self.context.from_thread(call)
        except AmqpError as error:
            failure = _FAILURES.get(error.code, Failure.INVALID)
            raise OperationFailed(failure, error.detail) from None

    def connected(self, peer: Peer, vhost: str, call: "Callable[[AmqpConversation], T]") -> T:
        """Call ``call`` in the event loop with a connection of the peer that no client has opened.

        So a declaration has the same effect as that of a client. The connection is in no list, and
        is closed afterwards.
        """
        # The command line imports this module for its neighbours' arguments.
        from mainstem.heads.amqp091.adapter.conversation import (  # noqa: PLC0415
            AmqpConversation,
        )

        def carry_out() -> T:
            connection = AmqpConversation(self.service, _NoClient(peer))
            self.service.connections.discard(connection)
            connection.act_as(peer)
            connection.user, connection.vhost = peer.principal.name, vhost
            try:
                return call(connection)
            finally:
                connection.close()

        return self.on_loop(carry_out)

    def authorize(
        self,
        peer: Peer,
        action: Action,
        vhost: str,
        name: str,
        kind: ResourceKind = ResourceKind.EXCHANGE,
    ) -> None:
        """Raise Denied or Unauthenticated if the peer lacks a permission."""
        self.context.auth.authorize(peer.principal, action, Resource(kind, topic_of(vhost, name)))

    def may_describe(
        self, peer: Peer, vhost: str, name: str, kind: ResourceKind = ResourceKind.EXCHANGE
    ) -> bool:
        """Tell whether the peer may see an exchange or a queue."""
        try:
            self.authorize(peer, Action.DESCRIBE, vhost, name, kind)
        except (Denied, Unauthenticated):
            return False
        return True

    def vhosts(self, asked: str | None) -> list[str]:
        """Return the virtual host ``asked``, or all if it is None; called in the event loop."""
        return self.service.topology.vhosts() if asked is None else [asked]


class _NoClient:
    """The outbox of a connection that no client has opened: discards what is sent."""

    heard_ms = 0
    is_full = False

    def __init__(self, peer: Peer) -> None:
        self.peer, self.is_tls = peer.address, peer.tls

    def send(self, pieces: Answer) -> None:
        """Discard frames for the client: the operation returns its result."""

    def when_room(self, call: Callable[[], None]) -> None:
        """Call ``call`` at once: there is no send buffer that could be full."""
        call()

    def close(self, reason: str = "") -> None:
        """Do nothing: the operation closes the connection."""

    def end(self, farewell: Answer = (), reason: str = "") -> None:
        """Do nothing: the operation closes the connection."""


def table_of(arguments: Mapping[str, object], *names: str) -> fields.Table:
    """Convert JSON arguments to an AMQP table with the types that a client's table would have.

    Raises InvalidSetting for those that no client could send, as for ``names``: a routing key and
    other texts that AMQP sends as short strings.
    """
    try:
        for each in names:
            fields.short_string(each)
        written = fields.table(arguments)
        return fields.read_table(written, 0, len(written))[0]
    except (ValueError, AmqpError, RecursionError) as error:
        raise InvalidSetting(f"no client could send this: {error}") from None


def plain(value: object) -> object:
    """Convert a value of an AMQP table to one that JSON can represent."""
    match value:
        case Mapping():
            return {str(name): plain(each) for name, each in value.items()}
        case Sequence() if not isinstance(value, str | bytes):
            return [plain(each) for each in value]
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

"""How management operations use the AMQP head: in the event loop, with the permissions of a peer.

Operations are called in any thread except the event loop's, which owns the topology and the
connections. The resource name of an exchange is the topic name that a queue of its name would have.
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
    """Access of management operations to the AMQP head."""

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
        """Run a call in the event loop with a connection of the peer that no client is behind.

        So a declaration means the same as that of a client. The connection is in no list.
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
        """Return the virtual host that is asked for, or all; called in the event loop."""
        return self.service.topology.vhosts() if asked is None else [asked]


class _NoClient:
    """The outbox of a connection that has no client."""

    heard_ms = 0
    is_full = False

    def __init__(self, peer: Peer) -> None:
        self.peer, self.is_tls = peer.address, peer.tls

    def send(self, pieces: Answer) -> None:
        """Drop what a client would be told: the operation returns what matters."""

    def when_room(self, call: Callable[[], None]) -> None:
        """Call at once: nothing is kept."""
        call()

    def close(self, reason: str = "") -> None:
        """Do nothing: the operation closes the connection."""

    def end(self, farewell: Answer = (), reason: str = "") -> None:
        """Do nothing: the operation closes the connection."""


def table_of(arguments: Mapping[str, object], *names: str) -> fields.Table:
    """Return arguments as a table, as a client would send them; raises InvalidSetting.

    ``names``: a routing key and other short texts that are sent with them.
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

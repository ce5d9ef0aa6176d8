"""Operations on AMQP connections, their channels and consumers: list, count, close.

To list and count them needs the permission to DESCRIBE the cluster; to close a connection, ALTER.
"""

from typing import TYPE_CHECKING

import msgspec

from mainstem.auth import CLUSTER, Action, Peer
from mainstem.core.errors import Failure
from mainstem.heads.admin_operations import NoArguments, OperationFailed, operation
from mainstem.heads.amqp091.adapter.channel import AmqpChannel
from mainstem.heads.amqp091.adapter.conversation import AmqpConversation
from mainstem.heads.amqp091.adapter.management.access import plain
from mainstem.heads.amqp091.errors import AmqpError, ReplyCode

if TYPE_CHECKING:
    from mainstem.heads.amqp091.adapter.queues.deliveries import Consumer
    from mainstem.heads.amqp091.adapter.service import Service


class CloseConnection(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Close an AMQP connection."""

    connection: str
    reason: str = "closed by an operator"


class AmqpConnection(msgspec.Struct, frozen=True):
    """An AMQP connection."""

    name: str
    vhost: str
    user: str
    peer: str
    state: str
    channels: int
    connected_ms: int
    """When the connection was opened, in ms since 1970."""
    mechanism: str
    """The SASL mechanism of the login."""
    tls: bool
    channel_max: int
    frame_max: int
    heartbeat_s: int
    client_properties: object


class AmqpChannelInfo(msgspec.Struct, frozen=True):
    """An open channel of an AMQP connection."""

    connection: str
    number: int
    vhost: str
    user: str
    consumers: int
    unacknowledged: int
    prefetch: int
    """The prefetch limit of consumers that are started from now on; 0 for none."""
    confirms: bool
    transactional: bool


class AmqpConsumer(msgspec.Struct, frozen=True):
    """A consumer of an AMQP client."""

    connection: str
    channel: int
    vhost: str
    user: str
    queue: str
    tag: str
    ack_required: bool
    exclusive: bool
    prefetch: int
    arguments: object


class AmqpTotals(msgspec.Struct, frozen=True):
    """Numbers of connections, channels, queues and so on, and counters since the server started."""

    address: str
    vhosts: list[str]
    connections: int
    channels: int
    consumers: int
    exchanges: int
    queues: int
    published: int
    delivered: int
    unroutable: int


class ConnectionOperations:
    """The admin API's operations on AMQP connections."""

    def __init__(self, service: "Service") -> None:
        self._service, self._context = service, service.context

    @operation("amqp/connections/list", "GET amqp/connections")
    def connections(self, peer: Peer, _: NoArguments) -> list[AmqpConnection]:
        """List AMQP connections."""
        self._check(peer)
        return self._context.from_thread(lambda: [_connection(each) for each in self._every()])

    @operation("amqp/channels", changes=False)
    def channels(self, peer: Peer, _: NoArguments) -> list[AmqpChannelInfo]:
        """List the channels of AMQP connections."""
        self._check(peer)

        def look() -> list[AmqpChannelInfo]:
            return [_channel(each, it) for each in self._every() for it in each.channels]

        return self._context.from_thread(look)

    @operation("amqp/consumers", changes=False)
    def consumers(self, peer: Peer, _: NoArguments) -> list[AmqpConsumer]:
        """List the consumers of AMQP clients."""
        self._check(peer)

        def look() -> list[AmqpConsumer]:
            return [
                _consumer(each, channel, it)
                for each in self._every()
                for channel in each.channels
                for it in channel.consumers
            ]

        return self._context.from_thread(look)

    @operation("amqp/totals", changes=False)
    def totals(self, peer: Peer, _: NoArguments) -> AmqpTotals:
        """Show how many AMQP connections, queues, messages and so on there are."""
        self._check(peer)

        def look() -> AmqpTotals:
            service, topology = self._service, self._service.topology
            vhosts, counts = topology.vhosts(), service.counts
            return AmqpTotals(
                address=str(self._context.addresses["amqp"]),
                vhosts=vhosts,
                connections=len(service.connections),
                channels=counts.channels,
                consumers=counts.consumers,
                exchanges=sum(len(topology.exchanges(each)) for each in vhosts),
                queues=sum(len(topology.queues(each)) for each in vhosts),
                published=counts.published,
                delivered=counts.delivered,
                unroutable=counts.unroutable,
            )

        return self._context.from_thread(look)

    @operation("amqp/connections/close", "DELETE amqp/connections/{connection}")
    def close(self, peer: Peer, asked: CloseConnection) -> None:
        """Close an AMQP connection."""
        self._context.auth.authorize(peer.principal, Action.ALTER, CLUSTER)

        def carry_out() -> None:
            found = [each for each in self._every() if each.name == asked.connection]
            if not found:
                why = f"no AMQP connection {asked.connection!r:.300}"
                raise OperationFailed(Failure.NOT_FOUND, why)
            detail = asked.reason.encode()[:200].decode("utf-8", "ignore")
            found[0].refuse(AmqpError(ReplyCode.CONNECTION_FORCED, detail), 0)

        self._context.from_thread(carry_out)

    def _every(self) -> list[AmqpConversation]:
        """Return all connections, the oldest first; called in the event loop."""
        return sorted(self._service.connections, key=lambda it: (it.connected_ms, it.name))

    def _check(self, peer: Peer) -> None:
        self._context.auth.authorize(peer.principal, Action.DESCRIBE, CLUSTER)


def _connection(each: AmqpConversation) -> AmqpConnection:
    session, login = each.session, each.login
    return AmqpConnection(
        name=each.name,
        vhost=each.vhost,
        user=each.user,
        peer=each.outbox.peer,
        state=session.phase,
        channels=len(each.channels),
        connected_ms=each.connected_ms,
        mechanism="" if login is None else login.mechanism,
        tls=each.outbox.is_tls,
        channel_max=session.channel_max,
        frame_max=session.frame_max,
        heartbeat_s=session.heartbeat_s,
        client_properties={} if login is None else plain(login.client_properties),
    )


def _channel(connection: AmqpConversation, channel: AmqpChannel) -> AmqpChannelInfo:
    return AmqpChannelInfo(
        connection=connection.name,
        number=channel.number,
        vhost=connection.vhost,
        user=connection.user,
        consumers=len(channel.consumers),
        unacknowledged=channel.unacked,
        prefetch=channel.prefetch or 0,
        confirms=channel.confirms is not None,
        transactional=channel.is_transactional,
    )


def _consumer(
    connection: AmqpConversation, channel: AmqpChannel, consumer: "Consumer"
) -> AmqpConsumer:
    return AmqpConsumer(
        connection=connection.name,
        channel=channel.number,
        vhost=connection.vhost,
        user=connection.user,
        queue=consumer.queue.name,
        tag=consumer.tag,
        ack_required=not consumer.no_ack,
        exclusive=consumer.exclusive,
        prefetch=consumer.prefetch or 0,
        arguments=plain(consumer.arguments),
    )

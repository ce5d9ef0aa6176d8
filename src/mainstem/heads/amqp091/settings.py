"""What can be set about the AMQP head: the section ``amqp`` of a node's settings."""

from typing import Annotated

from msgspec import Meta

from mainstem.heads.head import HeadSettings, MaxConnections


class AmqpSettings(HeadSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the AMQP 0-9-1 head behaves."""

    channel_max: Annotated[
        int, Meta(ge=1, le=65535, description="Channels of one connection; more are refused.")
    ] = 2047
    frame_max: Annotated[
        int, Meta(ge=8192, le=2**24, description="Bytes of the largest frame; more is refused.")
    ] = 131_072
    heartbeat_s: Annotated[
        int,
        Meta(
            ge=0,
            le=65535,
            description="Seconds of the heartbeat that is suggested to clients; 0 is none.",
        ),
    ] = 60
    max_connections: MaxConnections = 10_000
    max_consumers: Annotated[
        int, Meta(ge=1, description="Consumers of one connection; more close it.")
    ] = 10_000
    max_message_bytes: Annotated[
        int,
        Meta(ge=1024, le=2**31 - 1, description="Bytes of the largest message; more is refused."),
    ] = 16 * 1024 * 1024
    max_unfinished_bytes: Annotated[
        int,
        Meta(
            ge=1024,
            description="Bytes of messages that one connection may have begun on its channels "
            "together; more closes it.",
        ),
    ] = 32 * 1024 * 1024
    max_transaction_bytes: Annotated[
        int,
        Meta(
            ge=1024,
            description="Bytes of messages that the open transactions of one connection may hold "
            "together, unless it is one message; more closes the channel.",
        ),
    ] = 16 * 1024 * 1024
    handshake_ms: Annotated[
        int,
        Meta(ge=10, description="Milliseconds that a client may take to open its connection."),
    ] = 10_000

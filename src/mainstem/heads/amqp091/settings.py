"""Settings of the AMQP head: the section ``amqp`` of a node's settings."""

from typing import Annotated

from msgspec import Meta

from mainstem.heads.head import HeadSettings, MaxConnections


class AmqpSettings(HeadSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the AMQP 0-9-1 head."""

    channel_max: Annotated[
        int,
        Meta(ge=1, le=65535, description="Maximum channels per connection; more are refused."),
    ] = 2047
    frame_max: Annotated[
        int,
        Meta(
            ge=8192, le=2**24, description="Maximum frame size in bytes; larger ones are refused."
        ),
    ] = 131_072
    heartbeat_s: Annotated[
        int,
        Meta(
            ge=0,
            le=65535,
            description="Heartbeat interval suggested to clients, in seconds; 0 for none.",
        ),
    ] = 60
    max_connections: MaxConnections = 10_000
    max_consumers: Annotated[
        int, Meta(ge=1, description="Maximum consumers per connection; more close it.")
    ] = 10_000
    max_message_bytes: Annotated[
        int,
        Meta(
            ge=1024,
            le=2**31 - 1,
            description="Maximum message size in bytes; larger ones are refused.",
        ),
    ] = 16 * 1024 * 1024
    max_unfinished_bytes: Annotated[
        int,
        Meta(
            ge=1024,
            description="Maximum bytes of incomplete messages on all channels of one connection; "
            "more closes it.",
        ),
    ] = 32 * 1024 * 1024
    max_transaction_bytes: Annotated[
        int,
        Meta(
            ge=1024,
            description="Maximum bytes of messages in the open transactions of one connection; "
            "more closes the channel. A single message may exceed it.",
        ),
    ] = 16 * 1024 * 1024
    handshake_ms: Annotated[
        int,
        Meta(ge=10, description="Time limit for a client to open its connection, in milliseconds."),
    ] = 10_000
    delete_acked: Annotated[
        bool,
        Meta(
            description="Whether messages of new durable queues are deleted once they are "
            "acknowledged and all live groups have read them; if not, they are kept for replay, "
            "as long as amqp.retention_ms and amqp.retention_bytes allow."
        ),
    ] = True
    retention_ms: Annotated[
        int,
        Meta(
            ge=0,
            description="Milliseconds that messages of new durable queues are kept without "
            "amqp.delete_acked, also those that nobody has acknowledged; 0 for no limit.",
        ),
    ] = 0
    retention_bytes: Annotated[
        int,
        Meta(
            ge=0,
            description="Bytes of messages that each new durable queue keeps without "
            "amqp.delete_acked, for each priority; 0 for no limit.",
        ),
    ] = 0

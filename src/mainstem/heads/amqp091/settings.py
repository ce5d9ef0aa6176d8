"""Settings of the AMQP head: the section ``amqp`` of a node's settings."""

from typing import Annotated

from msgspec import Meta

from mainstem.core.setting_types import (
    MIB,
    Bytes,
    IntervalMs,
    MessageBytes,
    NonNegativeInt,
    PositiveInt,
)
from mainstem.heads.head import HeadSettings, MaxConnections


class AmqpSettings(HeadSettings, frozen=True):
    """Settings of the AMQP 0-9-1 head."""

    channel_max: Annotated[
        int, Meta(ge=1, le=65535), "Maximum channels per connection; more are refused."
    ] = 2047
    frame_max: Annotated[
        int, Meta(ge=8192, le=2**24), "Maximum frame size in bytes; larger ones are refused."
    ] = 131_072
    heartbeat_s: Annotated[
        int,
        Meta(ge=0, le=65535),
        "Heartbeat interval suggested to clients, in seconds; 0 for none.",
    ] = 60
    max_connections: MaxConnections = 10_000
    max_consumers: Annotated[PositiveInt, "Maximum consumers per connection; more close it."] = (
        10_000
    )
    max_message_bytes: Annotated[
        MessageBytes, "Maximum message size in bytes; larger ones are refused."
    ] = 16 * MIB
    max_unfinished_bytes: Annotated[
        Bytes,
        "Maximum bytes of incomplete messages on all channels of one connection; more closes it.",
    ] = 32 * MIB
    max_transaction_bytes: Annotated[
        Bytes,
        "Maximum bytes of messages in the open transactions of one connection; "
        "more closes the channel. A single message may exceed it.",
    ] = 16 * MIB
    handshake_ms: Annotated[
        IntervalMs, "Time limit for a client to open its connection, in milliseconds."
    ] = 10_000
    delete_acked: Annotated[
        bool,
        "Whether messages of new durable queues are deleted once they are "
        "acknowledged and all live groups have read them; if not, they are kept for replay, "
        "as long as amqp.retention_ms and amqp.retention_bytes allow.",
    ] = True
    retention_ms: Annotated[
        NonNegativeInt,
        "Milliseconds that messages of new durable queues are kept without "
        "amqp.delete_acked, also those that nobody has acknowledged; 0 for no limit.",
    ] = 0
    retention_bytes: Annotated[
        NonNegativeInt,
        "Bytes of messages that each new durable queue keeps without "
        "amqp.delete_acked, for each priority; 0 for no limit.",
    ] = 0

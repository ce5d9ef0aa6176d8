"""Settings of the STOMP head: the section ``stomp`` of a node's settings."""

from typing import Annotated

from msgspec import Meta

from mainstem.core.setting_types import KIB, MIB, Bytes, IntervalMs, MessageBytes, PositiveInt
from mainstem.heads.head import HeadSettings, MaxConnections


class StompSettings(HeadSettings, frozen=True):
    """Settings of the STOMP head."""

    prefetch: Annotated[
        int,
        Meta(ge=1, le=100_000),
        "Maximum unacknowledged messages of a subscription, unless its header "
        "prefetch-count says otherwise.",
    ] = 1_000
    nack_requeue: Annotated[
        bool,
        "Whether NACK without a requeue header requeues the message (as in "
        "RabbitMQ); otherwise it becomes a dead letter (as in ActiveMQ).",
    ] = True
    max_frame_bytes: Annotated[MessageBytes, "Maximum frame size in bytes."] = 16 * MIB
    max_headers: Annotated[int, Meta(ge=16), "Maximum headers per frame."] = 256
    max_header_bytes: Annotated[Bytes, "Maximum bytes of a frame's command and headers."] = 64 * KIB
    max_connections: MaxConnections = 10_000
    max_subscriptions: Annotated[
        PositiveInt, "Maximum subscriptions and temporary queues per connection."
    ] = 1_000
    max_transactions: Annotated[PositiveInt, "Maximum open transactions per connection."] = 64
    max_transaction_bytes: Annotated[
        Bytes, "Maximum bytes in the open transactions of one connection."
    ] = 16 * MIB
    connect_ms: Annotated[IntervalMs, "Time limit for CONNECT in milliseconds."] = 10_000
    min_heart_beat_ms: Annotated[
        IntervalMs, "Minimum milliseconds between heart-beats, both ways."
    ] = 100

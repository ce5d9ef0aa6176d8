"""Settings of the STOMP head: the section ``stomp`` of a node's settings."""

from typing import Annotated

from msgspec import Meta

from mainstem.heads.head import HeadSettings, MaxConnections


class StompSettings(HeadSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the STOMP head."""

    prefetch: Annotated[
        int,
        Meta(
            ge=1,
            le=100_000,
            description="Maximum unacknowledged messages of a subscription, unless its header "
            "prefetch-count says otherwise.",
        ),
    ] = 1_000
    nack_requeue: Annotated[
        bool,
        Meta(
            description="Whether NACK without a requeue header requeues the message (as in "
            "RabbitMQ); otherwise it becomes a dead letter (as in ActiveMQ)."
        ),
    ] = True
    max_frame_bytes: Annotated[
        int,
        Meta(ge=1024, le=2**31 - 1, description="Maximum frame size in bytes."),
    ] = 16 * 1024 * 1024
    max_headers: Annotated[int, Meta(ge=16, description="Maximum headers per frame.")] = 256
    max_header_bytes: Annotated[
        int, Meta(ge=1024, description="Maximum bytes of a frame's command and headers.")
    ] = 64 * 1024
    max_connections: MaxConnections = 10_000
    max_subscriptions: Annotated[
        int, Meta(ge=1, description="Maximum subscriptions and temporary queues per connection.")
    ] = 1_000
    max_transactions: Annotated[
        int, Meta(ge=1, description="Maximum open transactions per connection.")
    ] = 64
    max_transaction_bytes: Annotated[
        int,
        Meta(
            ge=1024,
            description="Maximum bytes in the open transactions of one connection.",
        ),
    ] = 16 * 1024 * 1024
    connect_ms: Annotated[
        int, Meta(ge=10, description="Time limit for CONNECT in milliseconds.")
    ] = 10_000
    min_heart_beat_ms: Annotated[
        int, Meta(ge=10, description="Minimum milliseconds between heart-beats, both ways.")
    ] = 100

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
            description="Unsettled messages of a subscription with acknowledgements, unless it "
            "has the header prefetch-count.",
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
        Meta(ge=1024, le=2**31 - 1, description="Bytes of the largest frame; more is refused."),
    ] = 16 * 1024 * 1024
    max_headers: Annotated[int, Meta(ge=16, description="Headers of a frame; more is refused.")] = (
        256
    )
    max_header_bytes: Annotated[
        int, Meta(ge=1024, description="Bytes of a frame's command and headers; more is refused.")
    ] = 64 * 1024
    max_connections: MaxConnections = 10_000
    max_subscriptions: Annotated[
        int, Meta(ge=1, description="Subscriptions and temporary queues of one connection.")
    ] = 1_000
    max_transactions: Annotated[
        int, Meta(ge=1, description="Transactions of one connection at once.")
    ] = 64
    max_transaction_bytes: Annotated[
        int,
        Meta(
            ge=1024,
            description="Bytes that the open transactions of one connection may hold together.",
        ),
    ] = 16 * 1024 * 1024
    connect_ms: Annotated[
        int, Meta(ge=10, description="Milliseconds that a client may take to send CONNECT.")
    ] = 10_000
    min_heart_beat_ms: Annotated[
        int, Meta(ge=10, description="Least milliseconds between heart-beats, in both directions.")
    ] = 100

"""Settings of the management head: the section ``amqp_management`` of a node's settings."""

from typing import Annotated

from msgspec import Meta

from mainstem.heads.head import HeadSettings, MaxConnections


class AmqpManagementSettings(HeadSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of RabbitMQ's management API."""

    max_connections: MaxConnections = 256
    max_body_bytes: Annotated[
        int,
        Meta(
            ge=1024,
            le=2**31 - 1,
            description="Maximum size of a request's body in bytes: a message, or definitions.",
        ),
    ] = 16 * 1024 * 1024

"""Settings of the management head: the section ``amqp_management`` of a node's settings."""

from typing import Annotated

from mainstem.core.setting_types import MIB, MessageBytes
from mainstem.heads.head import HeadSettings, MaxConnections


class AmqpManagementSettings(HeadSettings, frozen=True):
    """Settings of RabbitMQ's management API."""

    max_connections: MaxConnections = 256
    max_body_bytes: Annotated[
        MessageBytes, "Maximum size of a request's body in bytes: a message, or definitions."
    ] = 16 * MIB

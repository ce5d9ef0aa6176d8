"""Settings of the Connect head: the section ``connect`` of a node's settings."""

from typing import Annotated

from msgspec import Meta

from mainstem.heads.head import HeadSettings, MaxConnections


class ConnectSettings(HeadSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of Kafka Connect's REST API."""

    max_connections: MaxConnections = 256
    max_body_bytes: Annotated[
        int, Meta(ge=1024, le=2**31 - 1, description="Maximum size of a request's body in bytes.")
    ] = 1024 * 1024

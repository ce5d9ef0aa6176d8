"""Settings of the Connect head: the section ``connect`` of a node's settings."""

from typing import Annotated

from mainstem.core.setting_types import MIB, MessageBytes
from mainstem.heads.head import HeadSettings, MaxConnections


class ConnectSettings(HeadSettings, frozen=True):
    """Settings of Kafka Connect's REST API."""

    max_connections: MaxConnections = 256
    max_body_bytes: Annotated[MessageBytes, "Maximum size of a request's body in bytes."] = MIB

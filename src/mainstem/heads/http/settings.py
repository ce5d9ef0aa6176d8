"""Settings of the HTTP head: the section ``http`` of a node's settings."""

from typing import Annotated

from msgspec import Meta

from mainstem.core.setting_types import MIB, MessageBytes, PositiveInt
from mainstem.heads.addresses import NONE
from mainstem.heads.head import HeadSettings, MaxConnections


class HttpSettings(HeadSettings, frozen=True):
    """Settings of the HTTP head."""

    max_body_bytes: Annotated[MessageBytes, "Maximum size of a request's body in bytes."] = 16 * MIB
    max_events: Annotated[PositiveInt, "Maximum events that one request publishes or reads."] = (
        10_000
    )
    max_wait_s: Annotated[
        int, Meta(ge=0, le=3_600), "Longest time that a request may wait for events."
    ] = 300
    heartbeat_s: Annotated[
        float, Meta(gt=0), "Seconds after which a stream without events sends a heartbeat."
    ] = 15.0
    slow_client_s: Annotated[
        float, Meta(gt=0), "Seconds after which a stream that its client does not read is ended."
    ] = 30.0
    max_connections: MaxConnections = 10_000
    origins: Annotated[
        str,
        "Origins of web pages that may use the server, besides its own, such as "
        "https://shop.example, separated by commas; or none.",
    ] = NONE
    hosts: Annotated[
        str,
        "Names by which clients may address the server (Host header), separated "
        "by commas; 127.0.0.1, [::1] and localhost always may; * allows all.",
    ] = "localhost"

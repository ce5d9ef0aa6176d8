"""Settings of the nng head: the section ``nng`` of a node's settings."""

from typing import Annotated

from msgspec import Meta

from mainstem.heads.brokerless.settings import NONE, BrokerlessSettings
from mainstem.heads.head import MaxConnections


class NngSettings(BrokerlessSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the nng head; its listen address is that of the REP socket for replays."""

    topics: Annotated[
        str, Meta(description="Topics that are published, separated by commas; or none.")
    ] = NONE
    queue_length: Annotated[
        int, Meta(ge=1, le=8192, description="Messages that wait for a slow peer.")
    ] = 1024
    max_message_bytes: Annotated[
        int, Meta(ge=64, description="Maximum bytes of a received message; more cuts off its peer.")
    ] = 1024 * 1024
    max_connections: MaxConnections = 1_000

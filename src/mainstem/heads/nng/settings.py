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
    subscribers: Annotated[
        str,
        Meta(
            description="PUB sockets of named subscribers, who get everything since their cursor; "
            "separated by commas: TOPIC/NAME=HOST:PORT; or none."
        ),
    ] = NONE
    subscriber_rate: Annotated[
        int,
        Meta(
            ge=1,
            le=1_000_000,
            description="Maximum events per second to a named subscriber: sub0 drops what its "
            "buffer cannot hold.",
        ),
    ] = 1_000
    subscriber_repeat: Annotated[
        int,
        Meta(
            ge=0,
            le=100_000,
            description="Events that a named subscriber gets again when it connects: as many as "
            "its buffer can hold, and lose with its process.",
        ),
    ] = 128
    queue_length: Annotated[
        int, Meta(ge=1, le=8192, description="Messages that wait for a slow peer.")
    ] = 1024
    max_message_bytes: Annotated[
        int, Meta(ge=64, description="Maximum bytes of a received message; more cuts off its peer.")
    ] = 1024 * 1024
    max_connections: MaxConnections = 1_000

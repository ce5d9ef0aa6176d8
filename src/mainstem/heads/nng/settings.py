"""Settings of the nng head: the section ``nng`` of a node's settings."""

from typing import Annotated

from msgspec import Meta

from mainstem.core.setting_types import MIB
from mainstem.heads.addresses import NONE
from mainstem.heads.brokerless.settings import BrokerlessSettings, PeerBytes
from mainstem.heads.head import MaxConnections


class NngSettings(BrokerlessSettings, frozen=True):
    """Settings of the nng head; its listen address is that of the REP socket for replays."""

    topics: Annotated[str, "Topics that are published, separated by commas; or none."] = NONE
    subscribers: Annotated[
        str,
        "PUB sockets of named subscribers, which get all events since their stored position; "
        "separated by commas: TOPIC/NAME=HOST:PORT; or none.",
    ] = NONE
    subscriber_rate: Annotated[
        int,
        Meta(ge=1, le=1_000_000),
        "Maximum events per second to a named subscriber, because sub0 drops the events for "
        "which its buffer has no room.",
    ] = 1_000
    subscriber_repeat: Annotated[
        int,
        Meta(ge=0, le=100_000),
        "Events that a named subscriber gets again when it connects: as many as its buffer, "
        "which is lost with its process, can hold.",
    ] = 128
    queue_length: Annotated[int, Meta(ge=1, le=8192), "Messages that wait for a slow peer."] = 1024
    max_message_bytes: Annotated[
        PeerBytes, "Maximum bytes of a received message; more cuts off its peer."
    ] = MIB
    max_connections: MaxConnections = 1_000

"""Settings of the Kafka head: the section ``kafka`` of a node's settings."""

from typing import Annotated

from msgspec import Meta

from mainstem.core.setting_types import MIB, Bytes, MessageBytes, NonNegativeInt, PositiveInt
from mainstem.heads.head import HeadSettings, Listen, MaxConnections


class KafkaSettings(HeadSettings, frozen=True):
    """Settings of the Kafka head."""

    listen: Listen = "127.0.0.1:9092"
    node_id: int = 1
    """The node id of the only broker."""
    auto_create_partitions: Annotated[
        int,
        Meta(ge=1, le=1_000_000),
        "Partitions of topics that are created on first use, or by a Kafka client "
        "without a partition count.",
    ] = 4
    max_frame_bytes: Annotated[
        MessageBytes, "Maximum request size in bytes; a client that sends more is cut off."
    ] = 100 * MIB
    max_connections: MaxConnections = 20_000
    silence_ms: Annotated[
        int,
        Meta(ge=1000, le=2**31 - 1),
        "Time limit in milliseconds for a peer to read its responses, and for its "
        "host to respond; then it is disconnected.",
    ] = 180_000
    max_fetch_bytes: Annotated[
        Bytes, "Maximum bytes of a fetch response, whatever the request says."
    ] = 8 * MIB
    """Clients read a whole response before they return its events, so larger responses add latency.
    """
    max_fetch_partitions: Annotated[
        PositiveInt, "Maximum partitions in a fetch or acknowledgement; more are refused."
    ] = 50_000
    max_fetch_sessions: Annotated[
        NonNegativeInt,
        "Maximum fetch sessions; consumers without one send all their partitions in every fetch.",
    ] = 1_000
    max_session_partitions: Annotated[
        NonNegativeInt, "Maximum partitions of all fetch sessions."
    ] = 50_000
    max_names: Annotated[
        PositiveInt,
        "Maximum groups, group members or transactional ids in a request; a client "
        "that names more is disconnected.",
    ] = 10_000
    max_wait_ms: Annotated[NonNegativeInt, "Maximum wait of a fetch in milliseconds."] = 300_000

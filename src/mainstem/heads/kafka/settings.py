"""What can be set about the Kafka head: the section ``kafka`` of a node's settings."""

from typing import Annotated

from msgspec import Meta

from mainstem.heads.head import LISTEN, HeadSettings, MaxConnections


class KafkaSettings(HeadSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the Kafka head behaves."""

    listen: Annotated[str, LISTEN] = "127.0.0.1:9092"
    node_id: int = 1
    """The id of the only broker there is."""
    auto_create_partitions: Annotated[
        int,
        Meta(
            ge=1,
            le=1_000_000,
            description="Partitions of a topic that a Kafka client creates without a number, or "
            "that is created on first use.",
        ),
    ] = 4
    max_frame_bytes: Annotated[
        int,
        Meta(
            ge=1024,
            le=2**31 - 1,
            description="Bytes of the largest request; a client that sends more is disconnected.",
        ),
    ] = 100 * 1024 * 1024
    max_connections: MaxConnections = 20_000
    silence_ms: Annotated[
        int,
        Meta(
            ge=1000,
            le=2**31 - 1,
            description="Milliseconds after which a peer is disconnected whose host does not "
            "respond, or that does not read its answers.",
        ),
    ] = 180_000
    max_fetch_bytes: Annotated[
        int,
        Meta(ge=1024, description="Bytes of the largest answer to a fetch, whatever it asks for."),
    ] = 8 * 1024 * 1024
    """Clients read a whole answer before they return its events, so larger ones add latency."""
    max_fetch_partitions: Annotated[
        int,
        Meta(
            ge=1,
            description="Partitions that a fetch or acknowledgement may name; more are refused.",
        ),
    ] = 50_000
    max_fetch_sessions: Annotated[
        int,
        Meta(
            ge=0,
            description="Fetch sessions; consumers without one send all their partitions in every "
            "fetch.",
        ),
    ] = 1_000
    max_session_partitions: Annotated[
        int, Meta(ge=0, description="Partitions of all fetch sessions together.")
    ] = 50_000
    max_names: Annotated[
        int,
        Meta(
            ge=1,
            description="Groups, members of a group, or transactional ids that a request may name; "
            "a client that names more is disconnected.",
        ),
    ] = 10_000
    max_wait_ms: Annotated[
        int,
        Meta(ge=0, description="Milliseconds that a fetch may wait, whatever it asks for."),
    ] = 300_000

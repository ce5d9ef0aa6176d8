"""What can be set about the Kafka head: the section ``kafka`` of a node's settings."""

from typing import Annotated

from msgspec import Meta

from mainstem.heads.head import LISTEN, HeadSettings


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
            description="Partitions of a topic that a Kafka client creates without saying how "
            "many, or by naming it.",
        ),
    ] = 4
    max_frame_bytes: Annotated[
        int,
        Meta(
            ge=1024,
            le=2**31 - 1,
            description="Bytes of the largest request; whoever sends more is disconnected.",
        ),
    ] = 100 * 1024 * 1024
    max_connections: Annotated[
        int, Meta(ge=1, description="Connections; more are closed at once, and counted.")
    ] = 20_000
    silence_ms: Annotated[
        int,
        Meta(
            ge=1000,
            le=2**31 - 1,
            description="Milliseconds until a peer is given up whose machine gives no sign of "
            "life, or that takes nothing of what it is sent.",
        ),
    ] = 180_000
    max_fetch_bytes: Annotated[
        int,
        Meta(ge=1024, description="Bytes that a fetch is answered with, whatever it asks for."),
    ] = 8 * 1024 * 1024
    """Clients read an answer whole before they hand out its events: larger ones cost them time."""
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
            description="Consumers that need not name all their partitions in every fetch "
            "(fetch sessions); others have to.",
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
            "whoever names more is disconnected.",
        ),
    ] = 10_000
    max_wait_ms: Annotated[
        int,
        Meta(ge=0, description="Milliseconds that a fetch waits, whatever it asks for."),
    ] = 300_000

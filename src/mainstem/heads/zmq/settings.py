"""Settings of the ZeroMQ head: the section ``zmq`` of a node's settings."""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta

from mainstem.heads.brokerless.settings import NONE, BrokerlessSettings
from mainstem.heads.head import MaxConnections


class Security(StrEnum):
    """ZeroMQ's security mechanisms."""

    NULL = "null"
    PLAIN = "plain"
    CURVE = "curve"


class Frames(StrEnum):
    """In how many frames an event is published."""

    THREE = "three"
    ONE = "one"


class ZmqSettings(BrokerlessSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the ZeroMQ head; its listen address is that of the ROUTER for replays."""

    security: Annotated[
        Security, Meta(description="Security mechanism of all sockets: null, plain or curve.")
    ] = Security.NULL
    curve_key: Annotated[
        str,
        Meta(
            description="File with the server's key pair for curve (zmq.auth writes it); or none."
        ),
    ] = NONE
    publish_frames: Annotated[
        Frames,
        Meta(
            description="Frames of a published event: three (subject, value, details), or one with "
            "all of it, which subscribers receive faster."
        ),
    ] = Frames.THREE
    high_water_mark: Annotated[
        int, Meta(ge=1, description="Messages that wait for a slow peer, in each direction.")
    ] = 10_000
    max_message_bytes: Annotated[
        int,
        Meta(
            ge=64, description="Maximum bytes of a received frame; a larger one cuts off its peer."
        ),
    ] = 1024 * 1024
    max_connections: MaxConnections = 10_000
    max_subscriptions: Annotated[
        int, Meta(ge=1, description="Maximum subscriptions of all peers; more are refused.")
    ] = 10_000
    handshake_ms: Annotated[
        int, Meta(ge=1, description="Time limit for a peer's handshake, in milliseconds.")
    ] = 10_000

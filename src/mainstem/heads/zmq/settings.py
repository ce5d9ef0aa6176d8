"""Settings of the ZeroMQ head: the section ``zmq`` of a node's settings."""

from enum import StrEnum, auto
from typing import Annotated

from mainstem.core.setting_types import MIB, PositiveInt
from mainstem.heads.addresses import NONE
from mainstem.heads.brokerless.settings import BrokerlessSettings, PeerBytes
from mainstem.heads.head import MaxConnections


class Security(StrEnum):
    """ZeroMQ's security mechanisms."""

    NULL = auto()
    PLAIN = auto()
    CURVE = auto()


class Frames(StrEnum):
    """In how many frames an event is published."""

    THREE = auto()
    ONE = auto()


class ZmqSettings(BrokerlessSettings, frozen=True):
    """Settings of the ZeroMQ head; its listen address is that of the ROUTER for replays."""

    security: Annotated[Security, "Security mechanism of all sockets: null, plain or curve."] = (
        Security.NULL
    )
    curve_key: Annotated[
        str, "File with the server's key pair for curve (zmq.auth writes it); or none."
    ] = NONE
    publish_frames: Annotated[
        Frames,
        "Frames of a published event: three (subject, value, details), or one with "
        "all of it, which subscribers receive faster.",
    ] = Frames.THREE
    high_water_mark: Annotated[
        PositiveInt, "Messages that wait for a slow peer, in each direction."
    ] = 10_000
    max_message_bytes: Annotated[
        PeerBytes, "Maximum bytes of a received frame; a larger one cuts off its peer."
    ] = MIB
    max_connections: MaxConnections = 10_000
    max_subscriptions: Annotated[
        PositiveInt, "Maximum subscriptions of all peers; more are refused."
    ] = 10_000
    handshake_ms: Annotated[PositiveInt, "Time limit for a peer's handshake, in milliseconds."] = (
        10_000
    )

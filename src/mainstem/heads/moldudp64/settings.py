"""Settings of the MoldUDP64 head: the section ``moldudp64`` of a node's settings."""

from typing import Annotated

from msgspec import Meta

from mainstem.core.setting_types import MIB, IntervalMs, NonNegativeInt, PositiveInt
from mainstem.heads.addresses import NONE
from mainstem.heads.head import BufferBytes, UdpSettings


class MoldSettings(UdpSettings, frozen=True):
    """Settings of the MoldUDP64 head; its listen address is where requests arrive."""

    feeds: Annotated[
        str,
        "Feeds that are served from the start, separated by commas: "
        "SESSION=TOPIC/PARTITION@GROUP:PORT, with +GROUP:PORT for a second group; or none.",
    ] = NONE
    interface: Annotated[
        str, "IPv4 address of the network interface that multicast is sent through."
    ] = "127.0.0.1"
    ttl: Annotated[
        int,
        Meta(ge=0, le=255),
        "Time to live of multicast packets: how many networks they may cross.",
    ] = 1
    max_packet_bytes: Annotated[
        int,
        Meta(ge=64, le=65_507),
        "Bytes that a packet is filled up to; a larger message has its own packet.",
    ] = 1_400
    packets_per_s: Annotated[PositiveInt, "Packets that a feed sends in a second at most."] = 20_000
    heartbeat_ms: Annotated[
        IntervalMs, "Milliseconds without a packet before a heartbeat is sent."
    ] = 1_000
    end_of_session_ms: Annotated[
        NonNegativeInt, "Milliseconds for which the end of a session is repeated."
    ] = 30_000
    requests_per_s: Annotated[
        PositiveInt, "Requests of one address that are answered in a second at most."
    ] = 2_000
    receive_buffer_bytes: Annotated[
        BufferBytes, "Bytes of the kernel's receive buffer for requests."
    ] = MIB

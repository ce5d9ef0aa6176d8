"""Structs for leaders and broker addresses that several responses contain."""

from mainstem.kafka_protocol.fields import Wire
from mainstem.kafka_protocol.wire import Int32, String


class CurrentLeader(Wire, frozen=True):
    """The partition's current leader and epoch, for a client that asked the wrong broker."""

    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


class NodeEndpoint(Wire, frozen=True):
    """The address of a broker."""

    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: String | None = None

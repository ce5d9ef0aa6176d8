"""Subscriptions and assignments of classic consumer groups, opaque to the coordinator."""

from typing import Annotated

from mainstem.kafka_protocol.fields import IGNORABLE, Since, Wire
from mainstem.kafka_protocol.wire import Array, Bytes, Int32, String

CONSUMER_PROTOCOL_VERSION = 3
"""The latest version; all are readable in terms of the ones before."""


class ConsumerPartitions(Wire, frozen=True):
    """Partitions of one topic."""

    topic: String = ""
    partitions: Array[Int32] = ()


class SubscribedTopics(Wire, frozen=True):
    """The beginning of a subscription, the same in every version: the topics."""

    topics: Array[String] = ()


class ConsumerProtocolSubscription(Wire, frozen=True):
    """A member's subscription and owned partitions: the metadata of its join."""

    topics: Array[String] = ()
    user_data: Bytes | None = None
    owned_partitions: Annotated[Array[ConsumerPartitions], Since(1), IGNORABLE] = ()
    generation_id: Annotated[Int32, Since(2), IGNORABLE] = -1
    rack_id: Annotated[String | None, Since(3), IGNORABLE] = None


class ConsumerProtocolAssignment(Wire, frozen=True):
    """The partitions that the leader assigned to a member."""

    assigned_partitions: Array[ConsumerPartitions] = ()
    user_data: Bytes | None = None

"""Subscriptions and assignments of classic consumer groups, which the coordinator does not read."""

from typing import Annotated

from mainstem.kafka_protocol.fields import IGNORABLE, Since, Wire
from mainstem.kafka_protocol.wire import Array, Bytes, Int32, String

CONSUMER_PROTOCOL_VERSION = 3
"""The latest version; an older reader can read the fields that it knows."""


class ConsumerPartitions(Wire, frozen=True):
    """Partitions of one topic."""

    topic: String = ""
    partitions: Array[Int32] = ()


class SubscribedTopics(Wire, frozen=True):
    """The topics of a subscription: the first field of every version."""

    topics: Array[String] = ()


class ConsumerProtocolSubscription(Wire, frozen=True):
    """What a member sends when it joins: subscribed topics, owned partitions."""

    topics: Array[String] = ()
    user_data: Bytes | None = None
    owned_partitions: Annotated[Array[ConsumerPartitions], Since(1), IGNORABLE] = ()
    generation_id: Annotated[Int32, Since(2), IGNORABLE] = -1
    rack_id: Annotated[String | None, Since(3), IGNORABLE] = None


class ConsumerProtocolAssignment(Wire, frozen=True):
    """The partitions that the leader assigned to a member."""

    assigned_partitions: Array[ConsumerPartitions] = ()
    user_data: Bytes | None = None

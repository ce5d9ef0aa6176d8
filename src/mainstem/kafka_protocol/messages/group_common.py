"""Structs common to consumer groups and share groups, whose coordinator assigns partitions."""

from typing import Generic, TypeVar

from mainstem.kafka_protocol.fields import NO_ID, Wire
from mainstem.kafka_protocol.messages.partitions import ByTopicId
from mainstem.kafka_protocol.messages.responses import ExplainedError
from mainstem.kafka_protocol.wire import Array, Bool, Int16, Int32, String, Uuid

M = TypeVar("M")
"""Type of the members in a response that describes groups."""

TopicPartitions = ByTopicId[Int32]


class Assignment(Wire, frozen=True):
    """The partitions assigned to a member, by topic."""

    topic_partitions: Array[TopicPartitions] = ()


class AssignmentResponse(ExplainedError, frozen=True):
    """Response to a heartbeat: the member's epoch, and its assignment if that has changed."""

    member_id: String | None = None
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: Assignment | None = None


class GroupIdsRequest(Wire, frozen=True):
    """Ask for the state and the members of groups."""

    group_ids: Array[String] = ()
    include_authorized_operations: Bool = False


class AssignedPartitions(Wire, frozen=True):
    """The current or target partitions of a member in one topic."""

    topic_id: Uuid = NO_ID
    topic_name: String = ""
    partitions: Array[Int32] = ()


class DescribedAssignment(Wire, frozen=True):
    """The current or target assignment of a member."""

    topic_partitions: Array[AssignedPartitions] = ()


class AssignedGroup(Wire, Generic[M], frozen=True):
    """The state, epochs and members of a group."""

    error_code: Int16 = 0
    error_message: String | None = None
    group_id: String = ""
    group_state: String = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    assignor_name: String = ""
    members: Array[M] = ()
    authorized_operations: Int32 = -(2**31)

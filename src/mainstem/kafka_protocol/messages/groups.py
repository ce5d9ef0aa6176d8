"""Describing, listing and deleting groups."""

from typing import Annotated

from mainstem.kafka_protocol.api import api
from mainstem.kafka_protocol.fields import IGNORABLE, Since, Wire
from mainstem.kafka_protocol.messages.responses import Throttled, ThrottledSince1
from mainstem.kafka_protocol.wire import Array, Bool, Bytes, Int16, Int32, String


class DescribeGroupsRequest(Wire, frozen=True):
    """Ask for the state and the members of groups of the classic protocol."""

    groups: Array[String] = ()
    include_authorized_operations: Annotated[Bool, Since(3)] = False


class DescribedMember(Wire, frozen=True):
    """A member and its assignment."""

    member_id: String = ""
    group_instance_id: Annotated[String | None, Since(4), IGNORABLE] = None
    client_id: String = ""
    client_host: String = ""
    member_metadata: Bytes = b""
    member_assignment: Bytes = b""


class DescribedGroup(Wire, frozen=True):
    """The state, protocol and members of a group."""

    error_code: Int16 = 0
    error_message: Annotated[String | None, Since(6), IGNORABLE] = None
    group_id: String = ""
    group_state: String = ""
    protocol_type: String = ""
    protocol_data: String = ""
    members: Array[DescribedMember] = ()
    authorized_operations: Annotated[Int32, Since(3)] = -(2**31)


class DescribeGroupsResponse(ThrottledSince1, frozen=True):
    """The requested groups."""

    groups: Array[DescribedGroup] = ()


DESCRIBE_GROUPS = api(15, DescribeGroupsRequest, DescribeGroupsResponse, "0-6", "5+")


class ListGroupsRequest(Wire, frozen=True):
    """Ask for the names of all groups, optionally only of some states and types."""

    states_filter: Annotated[Array[String], Since(4)] = ()
    types_filter: Annotated[Array[String], Since(5)] = ()


class ListedGroup(Wire, frozen=True):
    """A group, by name, type and state."""

    group_id: String = ""
    protocol_type: String = ""
    group_state: Annotated[String, Since(4), IGNORABLE] = ""
    group_type: Annotated[String, Since(5), IGNORABLE] = ""


class ListGroupsResponse(ThrottledSince1, frozen=True):
    """All groups, by name, type and state."""

    error_code: Int16 = 0
    groups: Array[ListedGroup] = ()


LIST_GROUPS = api(16, ListGroupsRequest, ListGroupsResponse, "0-5", "3+")


class DeleteGroupsRequest(Wire, frozen=True):
    """Delete groups and their committed offsets."""

    groups_names: Array[String] = ()


class DeletedGroup(Wire, frozen=True):
    """For one group, whether it was deleted."""

    group_id: String = ""
    error_code: Int16 = 0


class DeleteGroupsResponse(Throttled, frozen=True):
    """For each group, whether it was deleted."""

    results: Array[DeletedGroup] = ()


DELETE_GROUPS = api(42, DeleteGroupsRequest, DeleteGroupsResponse, "0-2", "2+")

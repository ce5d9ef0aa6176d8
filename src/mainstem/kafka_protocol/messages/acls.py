"""Access control lists: describing, creating and deleting."""

from mainstem.kafka_protocol.api import api
from mainstem.kafka_protocol.fields import Wire
from mainstem.kafka_protocol.messages.responses import ExplainedError, Throttled
from mainstem.kafka_protocol.wire import Array, Int8, Int16, String


class AclFilter(Wire, frozen=True):
    """Selects ACLs by resource, principal and operation; null matches everything."""

    resource_type_filter: Int8 = 0
    resource_name_filter: String | None = None
    pattern_type_filter: Int8 = 3
    principal_filter: String | None = None
    host_filter: String | None = None
    operation: Int8 = 0
    permission_type: Int8 = 0


class DescribeAclsRequest(AclFilter, frozen=True):
    """Ask for the ACLs that match a filter."""


class AclDescription(Wire, frozen=True):
    """An ACL: principal, host, operation and permission."""

    principal: String = ""
    host: String = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


class ResourcePattern(Wire, frozen=True):
    """The resources that an ACL is for."""

    resource_type: Int8 = 0
    resource_name: String = ""
    pattern_type: Int8 = 3


class AclResource(ResourcePattern, frozen=True):
    """A resource and its ACLs."""

    acls: Array[AclDescription] = ()


class DescribeAclsResponse(ExplainedError, frozen=True):
    """The matching ACLs."""

    resources: Array[AclResource] = ()


class AclCreation(ResourcePattern, frozen=True):
    """An ACL to create."""

    principal: String = ""
    host: String = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


class CreateAclsRequest(Wire, frozen=True):
    """Create ACLs."""

    creations: Array[AclCreation] = ()


class AclResult(Wire, frozen=True):
    """The error code and message for one ACL."""

    error_code: Int16 = 0
    error_message: String | None = None


class CreateAclsResponse(Throttled, frozen=True):
    """For each ACL, whether it was created."""

    results: Array[AclResult] = ()


class DeleteAclsRequest(Wire, frozen=True):
    """Delete the ACLs that match filters."""

    filters: Array[AclFilter] = ()


class DeletedAcl(AclResult, frozen=True):
    """An ACL that a filter matched, and the error if it was not deleted."""

    resource_type: Int8 = 0
    resource_name: String = ""
    pattern_type: Int8 = 3
    principal: String = ""
    host: String = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


class DeletedAcls(AclResult, frozen=True):
    """The ACLs that one filter matched, and whether they were deleted."""

    matching_acls: Array[DeletedAcl] = ()


class DeleteAclsResponse(Throttled, frozen=True):
    """The deleted ACLs, by filter."""

    filter_results: Array[DeletedAcls] = ()


DESCRIBE_ACLS = api(29, DescribeAclsRequest, DescribeAclsResponse, "1-3", "2+")
CREATE_ACLS = api(30, CreateAclsRequest, CreateAclsResponse, "1-3", "2+")
DELETE_ACLS = api(31, DeleteAclsRequest, DeleteAclsResponse, "1-3", "2+")

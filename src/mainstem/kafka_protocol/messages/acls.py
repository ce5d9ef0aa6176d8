"""Access control lists: shown, made and deleted."""

from mainstem.kafka_protocol.api import Api
from mainstem.kafka_protocol.fields import Wire
from mainstem.kafka_protocol.messages.responses import ExplainedError, Throttled
from mainstem.kafka_protocol.wire import Array, Int8, Int16, String


class AclFilter(Wire, frozen=True):
    """What is looked for; null means whatever it is."""

    resource_type_filter: Int8 = 0
    resource_name_filter: String | None = None
    pattern_type_filter: Int8 = 3
    principal_filter: String | None = None
    host_filter: String | None = None
    operation: Int8 = 0
    permission_type: Int8 = 0


class DescribeAclsRequest(AclFilter, frozen=True):
    """Ask for the lists that a filter finds."""


class AclDescription(Wire, frozen=True):
    """Who may do what, from where."""

    principal: String = ""
    host: String = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


class AclResource(Wire, frozen=True):
    """A resource, and what is allowed."""

    resource_type: Int8 = 0
    resource_name: String = ""
    pattern_type: Int8 = 3
    acls: Array[AclDescription] = ()


class DescribeAclsResponse(ExplainedError, frozen=True):
    """What was found."""

    resources: Array[AclResource] = ()


class AclCreation(Wire, frozen=True):
    """One rule to be made."""

    resource_type: Int8 = 0
    resource_name: String = ""
    resource_pattern_type: Int8 = 3
    principal: String = ""
    host: String = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


class CreateAclsRequest(Wire, frozen=True):
    """Ask for rules to be made."""

    creations: Array[AclCreation] = ()


class AclResult(Wire, frozen=True):
    """Whether something was done."""

    error_code: Int16 = 0
    error_message: String | None = None


class CreateAclsResponse(Throttled, frozen=True):
    """How that went, rule by rule."""

    results: Array[AclResult] = ()


class DeleteAclsRequest(Wire, frozen=True):
    """Ask for the rules that filters find to be deleted."""

    filters: Array[AclFilter] = ()


class DeletedAcl(AclResult, frozen=True):
    """A rule that was deleted, or why not."""

    resource_type: Int8 = 0
    resource_name: String = ""
    pattern_type: Int8 = 3
    principal: String = ""
    host: String = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


class DeletedAcls(AclResult, frozen=True):
    """What one filter found."""

    matching_acls: Array[DeletedAcl] = ()


class DeleteAclsResponse(Throttled, frozen=True):
    """How that went, filter by filter."""

    filter_results: Array[DeletedAcls] = ()


DESCRIBE_ACLS = Api(
    29, DescribeAclsRequest, DescribeAclsResponse, first=1, last=3, flexible_since=2
)
CREATE_ACLS = Api(30, CreateAclsRequest, CreateAclsResponse, first=1, last=3, flexible_since=2)
DELETE_ACLS = Api(31, DeleteAclsRequest, DeleteAclsResponse, first=1, last=3, flexible_since=2)

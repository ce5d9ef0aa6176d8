"""DescribeAcls, CreateAcls, DeleteAcls, versions 1 to 3: refused, as without an authorizer."""

from mainstem.heads.kafka.adapter.registry import serves
from mainstem.heads.kafka.adapter.service import Asked, Reply
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages.acls import (
    CREATE_ACLS,
    DELETE_ACLS,
    DESCRIBE_ACLS,
    AclResult,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DeletedAcls,
    DescribeAclsRequest,
    DescribeAclsResponse,
)

_WHY = "there are no access control lists here yet: whoever can connect may do everything"


@serves(DESCRIBE_ACLS, 1, 3)
def describe(_asked: Asked, request: DescribeAclsRequest, reply: Reply) -> None:
    """Say that there are no rules."""
    reply(DescribeAclsResponse(error_code=Code.SECURITY_DISABLED, error_message=_WHY))


@serves(CREATE_ACLS, 1, 3)
def create(_asked: Asked, request: CreateAclsRequest, reply: Reply) -> None:
    """Refuse each rule."""
    results = [AclResult(Code.SECURITY_DISABLED, _WHY) for _ in request.creations]
    reply(CreateAclsResponse(results=results))


@serves(DELETE_ACLS, 1, 3)
def delete(_asked: Asked, request: DeleteAclsRequest, reply: Reply) -> None:
    """Say for each filter that there are no rules."""
    results = [DeletedAcls(Code.SECURITY_DISABLED, _WHY) for _ in request.filters]
    reply(DeleteAclsResponse(filter_results=results))

"""DescribeAcls, CreateAcls, DeleteAcls, versions 1 to 3: refused, as by Kafka without ACLs."""

from mainstem.heads.kafka.adapter.registry import serves
from mainstem.heads.kafka.adapter.service import Asked, Reply
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages import acls as messages

_WHY = "there are no access control lists here yet: whoever can connect may do everything"


@serves(messages.DESCRIBE_ACLS, 1, 3)
def describe(_asked: Asked, request: messages.DescribeAclsRequest, reply: Reply) -> None:
    """Answer SECURITY_DISABLED, because there are no ACLs."""
    reply(messages.DescribeAclsResponse(error_code=Code.SECURITY_DISABLED, error_message=_WHY))


@serves(messages.CREATE_ACLS, 1, 3)
def create(_asked: Asked, request: messages.CreateAclsRequest, reply: Reply) -> None:
    """Answer SECURITY_DISABLED for each ACL to create."""
    results = [messages.AclResult(Code.SECURITY_DISABLED, _WHY) for _ in request.creations]
    reply(messages.CreateAclsResponse(results=results))


@serves(messages.DELETE_ACLS, 1, 3)
def delete(_asked: Asked, request: messages.DeleteAclsRequest, reply: Reply) -> None:
    """Answer SECURITY_DISABLED for each filter of ACLs to delete."""
    results = [messages.DeletedAcls(Code.SECURITY_DISABLED, _WHY) for _ in request.filters]
    reply(messages.DeleteAclsResponse(filter_results=results))

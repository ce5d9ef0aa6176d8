"""DescribeGroups, ListGroups, DeleteGroups."""

from collections.abc import Iterator
from functools import partial

from mainstem.broker.door import Durable, Phase
from mainstem.core.errors import MainstemError, UnknownGroup
from mainstem.heads.kafka.adapter import share_groups
from mainstem.heads.kafka.adapter.allowed import on_group
from mainstem.heads.kafka.adapter.errors import code_in
from mainstem.heads.kafka.adapter.names import limited
from mainstem.heads.kafka.adapter.parts import Parts
from mainstem.heads.kafka.adapter.service import Asked, Reply, Service
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages.groups import (
    DeletedGroup,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribedMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)

CONSUMERS = "consumer"
"""The protocol of groups whose members tell in a known form what they own."""
DESCRIBE_FIRST, DESCRIBE_LAST = 0, 6
LIST_FIRST, LIST_LAST = 0, 5
DELETE_FIRST, DELETE_LAST = 0, 2

_SAYS_NOT_FOUND = 6


def describe(asked: Asked, request: DescribeGroupsRequest, reply: Reply) -> None:
    """Show groups and their members, each group once."""
    allowed = on_group(request.include_authorized_operations)
    names = dict.fromkeys(limited(asked, request.groups))
    groups = [_described(asked, name, allowed) for name in names]
    reply(DescribeGroupsResponse(groups=groups))


def _described(asked: Asked, name: str, allowed: int) -> DescribedGroup:
    try:
        found = asked.service.broker.classic.describe(name)
    except MainstemError as error:
        return DescribedGroup(
            error_code=code_in(asked.header, error), error_message=str(error), group_id=name
        )
    missing = found.phase is Phase.DEAD and asked.header.api_version >= _SAYS_NOT_FOUND
    return DescribedGroup(
        error_code=Code.GROUP_ID_NOT_FOUND if missing else Code.NONE,
        error_message=f"there is no group {name!r}" if missing else None,
        group_id=name,
        group_state=found.phase.value,
        protocol_type=found.protocol_type,
        protocol_data=found.protocol,
        members=tuple(
            DescribedMember(
                each.member_id,
                each.instance_id,
                each.client_id,
                each.host,
                each.metadata,
                each.assignment,
            )
            for each in found.members
        ),
        authorized_operations=allowed,
    )


def list_all(asked: Asked, request: ListGroupsRequest, reply: Reply) -> None:
    """List groups, perhaps of some states only."""
    groups = []
    states = {each.lower() for each in request.states_filter}
    types = {each.lower() for each in request.types_filter}
    for each in _listed(asked.service):
        if states and each.group_state.lower() not in states:
            continue
        if types and each.group_type not in types:
            continue
        groups.append(each)
    reply(ListGroupsResponse(groups=groups))


def _listed(service: Service) -> Iterator[ListedGroup]:
    """Return every group, of whatever kind."""
    for name in service.broker.classic.names():
        found = service.broker.classic.describe(name)
        yield ListedGroup(name, found.protocol_type, found.phase.value, "classic")
    for name in service.broker.consumers.names():
        group = service.broker.consumers.describe(name)
        if group is not None:
            yield ListedGroup(name, CONSUMERS, group.phase.value, "consumer")
    yield from share_groups.listed(service)


def delete(asked: Asked, request: DeleteGroupsRequest, reply: Reply) -> None:
    """Forget groups that have no members; answered when that is durable, or is not."""
    parts = Parts[DeletedGroup](asked.service)
    for name in dict.fromkeys(limited(asked, request.groups_names)):
        delete_it = partial(_delete, asked.service, name)
        parts.attempt(delete_it, DeletedGroup(name), partial(_not_deleted, asked, name))
    parts.then(lambda results: reply(DeleteGroupsResponse(results=results)))


def _not_deleted(asked: Asked, name: str, error: MainstemError) -> DeletedGroup:
    return DeletedGroup(name, code_in(asked.header, error))


def _delete(service: Service, name: str) -> Durable:
    """Forget a group and a queue of one name: for an administrator that is one thing."""
    broker = service.broker
    try:
        durable = broker.classic.delete(name)
    except UnknownGroup:
        return broker.share.delete(name)
    try:
        # One commit is for all, and this is the later one.
        return broker.share.delete(name)
    except UnknownGroup:
        return durable

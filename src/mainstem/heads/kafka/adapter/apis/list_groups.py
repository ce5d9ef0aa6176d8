"""ListGroups, versions 0 to 5: groups of all types, filtered by state and type."""

from collections.abc import Iterator

from mainstem.heads.kafka.adapter.groups.group_types import CONSUMER, SHARE, share_state
from mainstem.heads.kafka.adapter.registry import serves
from mainstem.heads.kafka.adapter.service import Asked, Reply, Service
from mainstem.kafka_protocol.messages import groups as messages


@serves(messages.LIST_GROUPS, 0, 5)
def answer(asked: Asked, request: messages.ListGroupsRequest, reply: Reply) -> None:
    """List groups, filtered by state and type."""
    groups = []
    states = {each.lower() for each in request.states_filter}
    types = {each.lower() for each in request.types_filter}
    for each in _listed(asked.service):
        if states and each.group_state.lower() not in states:
            continue
        if types and each.group_type not in types:
            continue
        groups.append(each)
    reply(messages.ListGroupsResponse(groups=groups))


def _listed(service: Service) -> Iterator[messages.ListedGroup]:
    """Yield the groups of all types."""
    for name in service.broker.classic.names():
        found = service.broker.classic.describe(name)
        yield messages.ListedGroup(name, found.protocol_type, found.phase.value, "classic")
    for name in service.broker.consumers.names():
        group = service.broker.consumers.describe(name)
        if group is not None:
            yield messages.ListedGroup(name, CONSUMER, group.phase.value, "consumer")
    yield from _share_groups(service)


def _share_groups(service: Service) -> Iterator[messages.ListedGroup]:
    """Yield share groups, including the queues that other protocols have created."""
    share = service.broker.share
    for name in share.names():
        yield messages.ListedGroup(
            name, SHARE, share_state(has_members=share.has_members(name)), SHARE
        )

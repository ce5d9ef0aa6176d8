"""ConsumerGroupDescribe, versions 0 to 1: consumer groups and their members [KIP-848]."""

from mainstem.broker.door import ConsumerGroupDescription, ConsumerMember, Partitions, written
from mainstem.core.errors import MainstemError
from mainstem.heads.kafka.adapter.authorized_operations import on_group
from mainstem.heads.kafka.adapter.errors import code_of
from mainstem.heads.kafka.adapter.registry import serves
from mainstem.heads.kafka.adapter.request_limits import limited
from mainstem.heads.kafka.adapter.service import Asked, Reply, Service
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages import consumer_groups as messages
from mainstem.kafka_protocol.messages.group_common import AssignedPartitions, DescribedAssignment

_CLASSIC, _CONSUMER = 0, 1
"""The protocol of a group member: that of classic groups, or that of KIP-848."""


@serves(messages.CONSUMER_GROUP_DESCRIBE, 0, 1)
def answer(asked: Asked, request: messages.ConsumerGroupDescribeRequest, reply: Reply) -> None:
    """Describe consumer groups, each once."""
    allowed = on_group(request.include_authorized_operations)
    names = dict.fromkeys(limited(asked, request.group_ids))
    groups = [_described(asked.service, name, allowed) for name in names]
    reply(messages.ConsumerGroupDescribeResponse(groups=groups))


def _described(service: Service, name: str, allowed: int) -> messages.DescribedConsumerGroup:
    try:
        found = service.broker.consumers.describe(name)
    except MainstemError as error:
        return messages.DescribedConsumerGroup(
            error_code=code_of(error), error_message=str(error), group_id=name
        )
    if found is None:
        return messages.DescribedConsumerGroup(
            error_code=Code.GROUP_ID_NOT_FOUND if name else Code.INVALID_GROUP_ID,
            error_message=f"there is no consumer group {name!r:.300}",
            group_id=name,
        )
    return _shown(service, found, allowed)


def _shown(
    service: Service, group: ConsumerGroupDescription, allowed: int
) -> messages.DescribedConsumerGroup:
    return messages.DescribedConsumerGroup(
        group_id=group.name,
        group_state=group.phase.value,
        group_epoch=group.epochs.group,
        assignment_epoch=group.epochs.assignment,
        assignor_name=group.assignor,
        members=tuple(_member(service, each) for each in group.members),
        authorized_operations=allowed,
    )


def _member(service: Service, member: ConsumerMember) -> messages.DescribedConsumer:
    profile = member.profile
    return messages.DescribedConsumer(
        member_id=member.id,
        instance_id=profile.instance_id,
        rack_id=profile.rack or None,
        member_epoch=member.current.epoch,
        client_id=profile.client_id,
        client_host=profile.host,
        subscribed_topic_names=profile.names,
        subscribed_topic_regex=profile.regex or "",
        # The member still owns the partitions that it has yet to revoke.
        assignment=_assignment(service, member.current.owned | member.current.revoked),
        target_assignment=_assignment(service, member.target),
        member_type=_CONSUMER if profile.classic is None else _CLASSIC,
    )


def _assignment(service: Service, partitions: Partitions) -> DescribedAssignment:
    topics = []
    for topic_id, numbers in written(partitions).items():
        topic = service.broker.topic_by_id(topic_id)
        if topic is not None:
            topics.append(AssignedPartitions(bytes.fromhex(topic_id), topic.name, numbers))
    return DescribedAssignment(topics)

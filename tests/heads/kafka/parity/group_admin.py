"""What administrators ask of groups, in few words."""

from tests.heads.kafka.parity.compared_server import Said, Side, Topic, word

from mainstem.kafka_protocol.messages import commits, share_groups
from mainstem.kafka_protocol.messages.consumer_groups import (
    CONSUMER_GROUP_DESCRIBE,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)


def commit(
    side: Side,
    group: str,
    offset: int,
    member: str = "",
    epoch: int = -1,
    *,
    instance: str | None = None,
    version: int = 10,
) -> str:
    """Commit in the only partition of a topic."""
    topic = commits.CommitTopic(side.one.id, side.one.name, (commits.CommitPartition(0, offset),))
    body = commits.OffsetCommitRequest(group, epoch, member, instance, -1, (topic,))
    answer = side.ask(commits.OFFSET_COMMIT, body, commits.OffsetCommitResponse, version=version)
    return word(answer.topics[0].partitions[0].error_code)


def cursor(
    side: Side, group: str, member: str | None = None, epoch: int = -1, *, version: int = 10
) -> Said:
    """Return what is committed in that partition."""
    topic = commits.OffsetFetchTopic(side.one.id, side.one.name, (0,))
    body = commits.OffsetFetchRequest(
        groups=[commits.OffsetFetchGroup(group, member, epoch, [topic])]
    )
    (found,) = side.ask(
        commits.OFFSET_FETCH, body, commits.OffsetFetchResponse, version=version
    ).groups
    return word(found.error_code), [
        (it.committed_offset, word(it.error_code))
        for each in found.topics
        for it in each.partitions
    ]


def cursors_deleted(side: Side, group: str) -> Said:
    """Forget what is committed in that partition."""
    topic = commits.OffsetDeleteTopic(side.one.name, (commits.OffsetDeletePartition(0),))
    answer = side.ask(
        commits.OFFSET_DELETE,
        commits.OffsetDeleteRequest(group, (topic,)),
        commits.OffsetDeleteResponse,
    )
    return word(answer.error_code), [
        word(it.error_code) for each in answer.topics for it in each.partitions
    ]


def consumers_described(side: Side, group: str, first: int = 0) -> tuple[Said, ...]:
    """Return a consumer group as an administrator sees it, with epochs since the first."""
    body = ConsumerGroupDescribeRequest([group])
    (found,) = side.ask(CONSUMER_GROUP_DESCRIBE, body, ConsumerGroupDescribeResponse).groups
    members = [
        (
            it.member_id,
            it.instance_id,
            it.rack_id,
            it.member_epoch - first * (it.member_epoch > 0),
            it.client_id,
            len(it.subscribed_topic_names),
            it.subscribed_topic_regex,
            sum(len(each.partitions) for each in it.assignment.topic_partitions),
            sum(len(each.partitions) for each in it.target_assignment.topic_partitions),
            it.member_type,
        )
        for it in sorted(found.members, key=lambda it: it.member_id)
    ]
    epochs = found.group_epoch - first, found.assignment_epoch - first
    return word(found.error_code), found.group_state, found.assignor_name, epochs, members


def positions(side: Side, group: str, topic: Topic | None = None, *partitions: int) -> Said:
    """Return where a share group is, in a topic or in all."""
    topics = (
        None if topic is None else [share_groups.ShareOffsetsTopic(topic.name, partitions or (0,))]
    )
    body = share_groups.DescribeShareGroupOffsetsRequest(
        [share_groups.ShareOffsetsGroup(group, topics)]
    )
    api, expected = (
        share_groups.DESCRIBE_SHARE_GROUP_OFFSETS,
        share_groups.DescribeShareGroupOffsetsResponse,
    )
    (found,) = side.ask(api, body, expected).groups
    return word(found.error_code), [
        (each.topic_name, it.partition_index, it.start_offset, it.lag, word(it.error_code))
        for each in sorted(found.topics, key=lambda each: each.topic_name)
        for it in sorted(each.partitions, key=lambda it: it.partition_index)
    ]


def altered(side: Side, group: str, topic: Topic, *moves: int) -> Said:
    """Move a share group: partition, offset, partition, offset, ..."""
    pairs = zip(moves[::2], moves[1::2], strict=True)
    topics = [
        share_groups.AlterShareOffsetsTopic(
            topic.name, [share_groups.AlterShareOffset(*pair) for pair in pairs]
        )
    ]
    body = share_groups.AlterShareGroupOffsetsRequest(group, topics if moves else [])
    answer = side.ask(
        share_groups.ALTER_SHARE_GROUP_OFFSETS, body, share_groups.AlterShareGroupOffsetsResponse
    )
    return word(answer.error_code), [
        (each.topic_name, it.partition_index, word(it.error_code))
        for each in answer.responses
        for it in each.partitions
    ]


def forgotten(side: Side, group: str, *topics: Topic) -> Said:
    """Let a share group forget where it is in some topics."""
    body = share_groups.DeleteShareGroupOffsetsRequest(
        group, [share_groups.DeleteShareOffsetsTopic(each.name) for each in topics]
    )
    answer = side.ask(
        share_groups.DELETE_SHARE_GROUP_OFFSETS, body, share_groups.DeleteShareGroupOffsetsResponse
    )
    return word(answer.error_code), sorted(
        (it.topic_name, word(it.error_code)) for it in answer.responses
    )

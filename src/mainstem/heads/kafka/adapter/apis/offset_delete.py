"""OffsetDelete, version 0: deletes committed offsets of topics that no member reads."""

from mainstem.broker.door import GroupDescription, Phase, TopicPartition
from mainstem.core.errors import GroupIsLive, MainstemError
from mainstem.heads.conversation import ProtocolError
from mainstem.heads.kafka.adapter.errors import code_in
from mainstem.heads.kafka.adapter.groups.committed_offsets import group_error_code
from mainstem.heads.kafka.adapter.partitions import each_partition
from mainstem.heads.kafka.adapter.registry import serves
from mainstem.heads.kafka.adapter.service import Asked, Reply
from mainstem.kafka_protocol.classic_group_metadata import decode_beginning
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages import commits as messages
from mainstem.kafka_protocol.messages.consumer_protocol import SubscribedTopics
from mainstem.kafka_protocol.primitives import MAX_ELEMENTS

_CONSUMERS = "consumer"
"""Protocol type of groups of Kafka consumers, whose subscriptions can be decoded."""
_ALIKE = 16
"""Size of the cache of decoded subscriptions: mostly all members of a group have the same one."""


@serves(messages.OFFSET_DELETE, 0, 0)
def answer(asked: Asked, request: messages.OffsetDeleteRequest, reply: Reply) -> None:
    """Delete committed offsets, except of topics to which a member is subscribed."""
    classic, consumers = asked.service.broker.classic, asked.service.broker.consumers
    refused: dict[TopicPartition, Code] = {}
    try:
        reads = read_by(classic.describe(request.group_id))
        if reads is not None:
            reads |= consumers.reads(request.group_id)
        places = [
            (topic.name, each.partition_index)
            for topic in request.topics
            for each in topic.partitions
        ]
        refused = {
            place: Code.GROUP_SUBSCRIBED_TO_TOPIC
            for place in places
            if reads is None or place[0] in reads
        }
        left = [place for place in places if place not in refused]
        result = classic.delete_cursors(request.group_id, left)
    except MainstemError as error:
        reply(
            messages.OffsetDeleteResponse(
                error_code=group_error_code(asked, request.group_id, error)
            )
        )
        return
    refused |= {place: code_in(asked.header, error) for place, error in result.refused.items()}

    def deleted(topic: str, each: messages.OffsetDeletePartition) -> messages.DeletedOffset:
        number = each.partition_index
        return messages.DeletedOffset(number, refused.get((topic, number), Code.NONE))

    topics = each_partition(request.topics, deleted)

    def settled(error: MainstemError | None) -> None:
        body = messages.OffsetDeleteResponse(topics=topics)
        if error is not None:
            body = messages.OffsetDeleteResponse(error_code=code_in(asked.header, error))
        asked.service.on_loop(lambda: reply(body))

    result.durable.then(settled)


def read_by(group: GroupDescription, most: int = MAX_ELEMENTS) -> set[str] | None:
    """Return the topics to which a group's members are subscribed.

    None if they are unknown, during a rebalance or with a malformed subscription, or more than
    ``most``. Raises GroupIsLive if the members are not consumers.
    """
    if group.phase in (Phase.EMPTY, Phase.DEAD):
        return set()
    if group.protocol_type != _CONSUMERS:
        raise GroupIsLive(group.name, f"{len(group.members)} members", "changed from outside")
    if group.phase is not Phase.STABLE:
        return None
    reads: set[str] = set()
    known: tuple[bytes, ...] = ()
    for member in group.members:
        if member.metadata.startswith(known):
            continue
        try:
            found, end = decode_beginning(SubscribedTopics, member.metadata, most)
        except ProtocolError:
            return None
        reads.update(found.topics)
        most -= len(found.topics)
        known = (*known[1 - _ALIKE :], member.metadata[:end])
    return reads

"""TxnOffsetCommit, versions 0 to 5: commits a group's offsets with a transaction.

Since version 5 this request also adds the group to the transaction [KIP-890].
"""

from collections.abc import Iterable

from mainstem.broker.door import Membership, ProducerIdAndEpoch, TopicPartition
from mainstem.core.errors import MainstemError
from mainstem.heads.kafka.adapter.durable_replies import reply_when_durable
from mainstem.heads.kafka.adapter.errors import code_in
from mainstem.heads.kafka.adapter.groups.committed_offsets import requested_cursors
from mainstem.heads.kafka.adapter.partitions import each_partition
from mainstem.heads.kafka.adapter.registry import serves
from mainstem.heads.kafka.adapter.service import Asked, Reply
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages import transactions as messages

_ADDS_GROUP = 5
"""First version of TxnOffsetCommit that also adds the group to the transaction."""


@serves(messages.TXN_OFFSET_COMMIT, 0, 5)
def answer(asked: Asked, request: messages.TxnOffsetCommitRequest, reply: Reply) -> None:
    """Commit a group's offsets; they take effect when the transaction commits."""
    service = asked.service
    cursors, unfit = requested_cursors(request.topics, service.now_ms())
    try:
        moved = service.broker.transactions.commit_cursors(
            request.transactional_id,
            ProducerIdAndEpoch(request.producer_id, request.producer_epoch),
            request.group_id,
            Membership(request.member_id, request.generation_id, request.group_instance_id),
            cursors,
            adds_group=asked.header.api_version >= _ADDS_GROUP,
        )
    except MainstemError as error:
        reply(_committed(request.topics, {}, code_in(asked.header, error)))
        return
    refused = unfit | {place: code_in(asked.header, it) for place, it in moved.refused.items()}
    reply_when_durable(
        asked,
        moved.durable.then,
        lambda code: reply(_committed(request.topics, refused, code)),
    )


def _committed(
    topics: Iterable[messages.TxnCommitTopic], refused: dict[TopicPartition, Code], code: Code
) -> messages.TxnOffsetCommitResponse:
    def result(topic: str, each: messages.TxnCommitPartition) -> messages.TxnCommittedPartition:
        number = each.partition_index
        return messages.TxnCommittedPartition(number, refused.get((topic, number), code))

    return messages.TxnOffsetCommitResponse(topics=each_partition(topics, result))

"""OffsetCommit, versions 2 to 10: stores committed offsets as cursors; answered when durable."""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from mainstem.broker.door import Membership
from mainstem.core.errors import MainstemError
from mainstem.heads.kafka.adapter.errors import code_in
from mainstem.heads.kafka.adapter.groups.committed_offsets import (
    group_error_code,
    is_missing,
    requested_cursors,
)
from mainstem.heads.kafka.adapter.registry import serves
from mainstem.heads.kafka.adapter.service import Asked, Reply
from mainstem.heads.kafka.adapter.topics import name_of
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages import commits as messages

_OF_EPOCHS = 9
"""First version that members of KIP-848 groups may use; before, the epoch field meant the
generation.
"""
_BY_ID = 10


@serves(messages.OFFSET_COMMIT, 2, 10)
def answer(asked: Asked, request: messages.OffsetCommitRequest, reply: Reply) -> None:
    """Commit offsets; answered when they are durable."""
    service = asked.service
    topics: Sequence[messages.CommitTopic] = request.topics
    if asked.header.api_version >= _BY_ID:
        topics = [replace(each, name=name_of(service, each.topic_id) or "") for each in topics]
    cursors, unfit = requested_cursors(topics, service.now_ms())
    who = Membership(
        request.member_id, request.generation_id_or_member_epoch, request.group_instance_id
    )
    is_member = service.broker.consumers.is_native_member(request.group_id, request.member_id)
    if is_member and asked.header.api_version < _OF_EPOCHS:
        reply(_commit_answer(topics, {}, Code.UNSUPPORTED_VERSION))
        return
    try:
        committed = service.broker.classic.commit(request.group_id, who, cursors)
    except MainstemError as error:
        reply(_commit_answer(topics, {}, group_error_code(asked, request.group_id, error)))
        return
    refused = unfit | {place: code_in(asked.header, it) for place, it in committed.refused.items()}

    def settled(error: MainstemError | None) -> None:
        code = Code.NONE if error is None else code_in(asked.header, error)
        body = _commit_answer(topics, refused, code)
        service.on_loop(lambda: reply(body))

    committed.durable.then(settled)


def _commit_answer(
    topics: Iterable[messages.CommitTopic], refused: dict[tuple[str, int], Code], code: Code
) -> messages.OffsetCommitResponse:
    return messages.OffsetCommitResponse(
        topics=tuple(
            messages.CommittedTopic(
                topic.topic_id,
                topic.name,
                tuple(
                    messages.CommittedPartition(
                        each.partition_index,
                        Code.UNKNOWN_TOPIC_ID
                        if is_missing(topic.topic_id, topic.name)
                        else refused.get((topic.name, each.partition_index), code),
                    )
                    for each in topic.partitions
                ),
            )
            for topic in topics
        )
    )

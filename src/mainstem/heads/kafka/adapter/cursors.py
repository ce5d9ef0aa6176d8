"""OffsetCommit, OffsetFetch, OffsetDelete: what they call committed offsets are our cursors."""

from collections.abc import Iterable, Sequence

from mainstem.broker.classic_groups import Membership
from mainstem.broker.cursors import Cursor
from mainstem.core.errors import MainstemError
from mainstem.heads.kafka.adapter.errors import Code, code_of
from mainstem.heads.kafka.adapter.service import Asked, Reply, Service
from mainstem.heads.kafka.messages.commits import (
    CommitPartition,
    CommittedPartition,
    CommittedTopic,
    CommitTopic,
    DeletedOffset,
    DeletedOffsetsTopic,
    FetchedOffset,
    FetchedOffsetsGroup,
    FetchedOffsetsTopic,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchTopic,
)
from mainstem.heads.kafka.messages.transactions import TxnCommitPartition, TxnCommitTopic

COMMIT_FIRST, COMMIT_LAST = 2, 9
FETCH_FIRST, FETCH_LAST = 1, 9
DELETE_FIRST, DELETE_LAST = 0, 0

_MANY_GROUPS = 8

Place = tuple[str, int]
_MAX_METADATA = 4096
"""What Kafka allows beside a committed offset, in bytes."""


def commit(asked: Asked, request: OffsetCommitRequest, reply: Reply) -> None:
    """Store how far a group has got; answered when it is durable."""
    service = asked.service
    cursors, too_large = wanted(request.topics, service.now_ms())
    who = Membership(
        request.member_id, request.generation_id_or_member_epoch, request.group_instance_id
    )
    try:
        committed = service.broker.classic.commit(request.group_id, who, cursors)
    except MainstemError as error:
        reply(_commit_answer(request.topics, {}, code_of(error)))
        return
    service.look_at_deadlines()
    refused = too_large | {place: code_of(it) for place, it in committed.refused.items()}

    def settled(error: MainstemError | None) -> None:
        code = Code.NONE if error is None else code_of(error)
        body = _commit_answer(request.topics, refused, code)
        service.on_loop(lambda: reply(body))

    committed.durable.then(settled)


def wanted(
    topics: Sequence[CommitTopic] | Sequence[TxnCommitTopic], now_ms: int
) -> tuple[dict[Place, Cursor], dict[Place, Code]]:
    """Return the cursors that a request is to move, and those whose metadata is too large."""
    cursors: dict[Place, Cursor] = {}
    too_large: dict[Place, Code] = {}
    for topic in topics:
        for each in topic.partitions:
            place = (topic.name, each.partition_index)
            if _is_too_large(each):
                too_large[place] = Code.OFFSET_METADATA_TOO_LARGE
                continue
            metadata, epoch = each.committed_metadata or "", each.committed_leader_epoch
            cursors[place] = Cursor(each.committed_offset, now_ms, metadata, epoch)
    return cursors, too_large


def _is_too_large(asked: CommitPartition | TxnCommitPartition) -> bool:
    text = asked.committed_metadata
    return text is not None and len(text.encode()) > _MAX_METADATA


def _commit_answer(
    topics: Iterable[CommitTopic], refused: dict[tuple[str, int], Code], code: Code
) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=tuple(
            CommittedTopic(
                name=topic.name,
                partitions=tuple(
                    CommittedPartition(
                        each.partition_index,
                        refused.get((topic.name, each.partition_index), code),
                    )
                    for each in topic.partitions
                ),
            )
            for topic in topics
        )
    )


def fetch(asked: Asked, request: OffsetFetchRequest, reply: Reply) -> None:
    """Tell how far groups have got."""
    service = asked.service
    if asked.header.api_version < _MANY_GROUPS:
        topics = _fetched(service, request.group_id, request.topics)
        reply(OffsetFetchResponse(topics=topics))
        return
    groups = tuple(
        FetchedOffsetsGroup(each.group_id, _fetched(service, each.group_id, each.topics))
        for each in request.groups
    )
    reply(OffsetFetchResponse(groups=groups))


def _fetched(
    service: Service, group: str, topics: Iterable[OffsetFetchTopic] | None
) -> tuple[FetchedOffsetsTopic, ...]:
    cursors = service.broker.committed(group)
    if topics is None:
        names = sorted({topic for topic, _ in cursors})
        wanted = [(name, [number for topic, number in cursors if topic == name]) for name in names]
    else:
        wanted = [(topic.name, list(topic.partition_indexes)) for topic in topics]
    return tuple(
        FetchedOffsetsTopic(
            name=name,
            partitions=tuple(_one(cursors.get((name, number)), number) for number in numbers),
        )
        for name, numbers in wanted
    )


def _one(cursor: Cursor | None, number: int) -> FetchedOffset:
    if cursor is None:
        return FetchedOffset(number, -1)
    return FetchedOffset(number, cursor.offset, cursor.epoch, cursor.metadata)


def delete(asked: Asked, request: OffsetDeleteRequest, reply: Reply) -> None:
    """Forget how far a group has got in some partitions."""
    places = [
        (topic.name, each.partition_index) for topic in request.topics for each in topic.partitions
    ]
    try:
        result = asked.service.broker.classic.delete_cursors(request.group_id, places)
    except MainstemError as error:
        reply(OffsetDeleteResponse(error_code=code_of(error)))
        return
    topics = tuple(
        DeletedOffsetsTopic(
            topic.name,
            tuple(
                DeletedOffset(
                    each.partition_index,
                    code_of(result.refused[topic.name, each.partition_index])
                    if (topic.name, each.partition_index) in result.refused
                    else 0,
                )
                for each in topic.partitions
            ),
        )
        for topic in request.topics
    )
    result.durable.then(
        lambda _: asked.service.on_loop(lambda: reply(OffsetDeleteResponse(topics=topics)))
    )

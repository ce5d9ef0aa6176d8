"""OffsetCommit, OffsetFetch, OffsetDelete: what they call committed offsets are our cursors."""

from collections.abc import Iterable, Sequence
from contextlib import suppress

from msgspec.structs import replace

from mainstem.broker.door import Cursor, GroupDescription, Membership, Phase
from mainstem.core.errors import Denied, GroupIsLive, MainstemError, UnknownTopic
from mainstem.heads.conversation import ProtocolError
from mainstem.heads.kafka.adapter.errors import code_in
from mainstem.heads.kafka.adapter.names import limited
from mainstem.heads.kafka.adapter.service import Asked, Reply, Service
from mainstem.heads.kafka.adapter.topic_ids import id_of, name_of
from mainstem.kafka_protocol.codec import MAX_ELEMENTS, decode_beginning
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.fields import NO_ID
from mainstem.kafka_protocol.messages.commits import (
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
    OffsetFetchGroup,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchTopic,
)
from mainstem.kafka_protocol.messages.consumer_protocol import SubscribedTopics
from mainstem.kafka_protocol.messages.transactions import TxnCommitPartition, TxnCommitTopic

COMMIT_FIRST, COMMIT_LAST = 2, 10
FETCH_FIRST, FETCH_LAST = 1, 10
DELETE_FIRST, DELETE_LAST = 0, 0
_CONSUMERS = "consumer"
"""The protocol of groups whose members tell in a known form what they read."""

_ALIKE = 16
"""So many different subscriptions of members are known again: most groups have one."""

_MANY_GROUPS = 8
_OF_EPOCHS = 9
"""Since when members of consumer groups can commit: before, epochs meant something else."""
_BY_ID = 10

Place = tuple[str, int]
_MAX_METADATA = 4096
"""What Kafka allows beside a committed offset, in bytes."""


def commit(asked: Asked, request: OffsetCommitRequest, reply: Reply) -> None:
    """Store how far a group has got; answered when it is durable."""
    service = asked.service
    topics: Sequence[CommitTopic] = request.topics
    if asked.header.api_version >= _BY_ID:
        topics = [replace(each, name=name_of(service, each.topic_id) or "") for each in topics]
    cursors, unfit = wanted(topics, service.now_ms())
    who = Membership(
        request.member_id, request.generation_id_or_member_epoch, request.group_instance_id
    )
    is_member = service.broker.consumers.speaks_newer(request.group_id, request.member_id)
    if is_member and asked.header.api_version < _OF_EPOCHS:
        reply(_commit_answer(topics, {}, Code.UNSUPPORTED_VERSION))
        return
    try:
        committed = service.broker.classic.commit(request.group_id, who, cursors)
    except MainstemError as error:
        reply(_commit_answer(topics, {}, _code(asked, request.group_id, error)))
        return
    service.look_at_deadlines()
    refused = unfit | {place: code_in(asked.header, it) for place, it in committed.refused.items()}

    def settled(error: MainstemError | None) -> None:
        code = Code.NONE if error is None else code_in(asked.header, error)
        body = _commit_answer(topics, refused, code)
        service.on_loop(lambda: reply(body))

    committed.durable.then(settled)


def _code(asked: Asked, group: str, error: MainstemError) -> Code:
    if isinstance(error, GroupIsLive) and asked.service.broker.share.has_members(group):
        # Share groups have no cursors: there is no group of that name that has any.
        return Code.GROUP_ID_NOT_FOUND
    return code_in(asked.header, error)


def wanted(
    topics: Sequence[CommitTopic] | Sequence[TxnCommitTopic], now_ms: int
) -> tuple[dict[Place, Cursor], dict[Place, Code]]:
    """Return the cursors that a request is to move, and those that cannot be stored as they are."""
    cursors: dict[Place, Cursor] = {}
    unfit: dict[Place, Code] = {}
    for topic in topics:
        for each in topic.partitions:
            place = (topic.name, each.partition_index)
            if _is_too_large(each):
                unfit[place] = Code.OFFSET_METADATA_TOO_LARGE
                continue
            metadata, epoch = each.committed_metadata or "", each.committed_leader_epoch
            cursors[place] = Cursor(each.committed_offset, now_ms, metadata, epoch)
    return cursors, unfit


def _is_too_large(asked: CommitPartition | TxnCommitPartition) -> bool:
    text = asked.committed_metadata
    return text is not None and len(text.encode()) > _MAX_METADATA


def _commit_answer(
    topics: Iterable[CommitTopic], refused: dict[tuple[str, int], Code], code: Code
) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=tuple(
            CommittedTopic(
                topic.topic_id,
                topic.name,
                tuple(
                    CommittedPartition(
                        each.partition_index,
                        Code.UNKNOWN_TOPIC_ID
                        if _is_missing(topic.topic_id, topic.name)
                        else refused.get((topic.name, each.partition_index), code),
                    )
                    for each in topic.partitions
                ),
            )
            for topic in topics
        )
    )


def _is_missing(topic_id: bytes, name: str) -> bool:
    """Tell whether a topic was named by an id that no topic has."""
    return topic_id != NO_ID and not name


def fetch(asked: Asked, request: OffsetFetchRequest, reply: Reply) -> None:
    """Tell how far groups have got, each once."""
    look = _Look(asked.service, request.require_stable)
    if asked.header.api_version < _MANY_GROUPS:
        reply(_fetched_of_one(asked, look, request))
        return
    by_id = asked.header.api_version >= _BY_ID
    wishes: dict[str, OffsetFetchGroup] = {}
    unclear: set[str] = set()
    for each in limited(asked, request.groups):
        if wishes.setdefault(each.group_id, each) != each:
            unclear.add(each.group_id)
    groups = tuple(
        FetchedOffsetsGroup(name, error_code=Code.INVALID_REQUEST)
        if name in unclear
        else _fetched(asked, look, wish, by_id=by_id)
        for name, wish in wishes.items()
    )
    reply(OffsetFetchResponse(groups=groups))


def _fetched_of_one(
    asked: Asked, look: "_Look", request: OffsetFetchRequest
) -> OffsetFetchResponse:
    try:
        return OffsetFetchResponse(topics=look.at(request.group_id, request.topics))
    except MainstemError as error:
        return _not_fetched(request, code_in(asked.header, error))


def _not_fetched(request: OffsetFetchRequest, code: Code) -> OffsetFetchResponse:
    """Refuse in a version for one group: version 1 can say so of partitions only."""
    topics = [
        FetchedOffsetsTopic(
            each.topic_id,
            each.name,
            tuple(FetchedOffset(number, -1, error_code=code) for number in each.partition_indexes),
        )
        for each in request.topics or ()
    ]
    return OffsetFetchResponse(topics=topics, error_code=code)


def _fetched(
    asked: Asked, look: "_Look", wish: OffsetFetchGroup, *, by_id: bool
) -> FetchedOffsetsGroup:
    consumers = asked.service.broker.consumers
    try:
        consumers.check_fetch(wish.group_id, wish.member_id, wish.member_epoch)
        found = look.at(wish.group_id, wish.topics, by_id=by_id)
    except MainstemError as error:
        return FetchedOffsetsGroup(wish.group_id, error_code=code_in(asked.header, error))
    return FetchedOffsetsGroup(wish.group_id, found)


class _Look:
    """Looks at cursors for one request."""

    def __init__(self, service: Service, needs_stable: bool) -> None:
        self._service = service
        self._needs_stable = needs_stable
        """Whether cursors that a transaction is going to move are refused until it has ended."""

    def at(
        self, group: str, topics: Iterable[OffsetFetchTopic] | None, *, by_id: bool = False
    ) -> tuple[FetchedOffsetsTopic, ...]:
        """Return the cursors of a group in some topics, or in all, each once."""
        cursors = self._service.broker.committed(group)
        if topics is None:
            topics = self._all(cursors)
        elif by_id:
            names = [(each, name_of(self._service, each.topic_id) or "") for each in topics]
            topics = [replace(each, name=name) for each, name in names]
        numbers: dict[tuple[bytes, str], dict[int, None]] = {}
        for topic in topics:
            of_topic = numbers.setdefault((topic.topic_id, topic.name), {})
            of_topic.update(dict.fromkeys(topic.partition_indexes))
        return tuple(
            FetchedOffsetsTopic(
                topic_id,
                name,
                tuple(
                    FetchedOffset(number, -1, error_code=Code.UNKNOWN_TOPIC_ID)
                    if _is_missing(topic_id, name)
                    else self._one(group, (name, number), cursors)
                    for number in of_topic
                ),
            )
            for (topic_id, name), of_topic in numbers.items()
        )

    def _all(self, cursors: Iterable[Place]) -> list[OffsetFetchTopic]:
        numbers: dict[str, list[int]] = {}
        for name, number in sorted(cursors):
            numbers.setdefault(name, []).append(number)
        topics: list[OffsetFetchTopic] = []
        for name, found in numbers.items():
            # Deleted just now, or not for this peer.
            with suppress(UnknownTopic, Denied):
                topics.append(
                    OffsetFetchTopic(id_of(self._service.broker.topic(name)), name, found)
                )
        return topics

    def _one(self, group: str, place: Place, cursors: dict[Place, Cursor]) -> FetchedOffset:
        if self._needs_stable and self._is_pending(group, place):
            return FetchedOffset(place[1], -1, error_code=Code.UNSTABLE_OFFSET_COMMIT)
        cursor = cursors.get(place)
        if cursor is None:
            return FetchedOffset(place[1], -1)
        return FetchedOffset(place[1], cursor.offset, cursor.epoch, cursor.metadata)

    def _is_pending(self, group: str, place: Place) -> bool:
        try:
            return self._service.broker.transactions.is_pending(group, *place)
        except MainstemError:
            # There is no such partition, and so no cursor.
            return False


def delete(asked: Asked, request: OffsetDeleteRequest, reply: Reply) -> None:
    """Forget how far a group has got in some partitions, in topics that its members do not read."""
    classic, consumers = asked.service.broker.classic, asked.service.broker.consumers
    refused: dict[Place, Code] = {}
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
        reply(OffsetDeleteResponse(error_code=_code(asked, request.group_id, error)))
        return
    refused |= {place: code_in(asked.header, error) for place, error in result.refused.items()}
    topics = tuple(
        DeletedOffsetsTopic(
            topic.name,
            tuple(
                DeletedOffset(
                    each.partition_index, refused.get((topic.name, each.partition_index), Code.NONE)
                )
                for each in topic.partitions
            ),
        )
        for topic in request.topics
    )

    def settled(error: MainstemError | None) -> None:
        body = OffsetDeleteResponse(topics=topics)
        if error is not None:
            body = OffsetDeleteResponse(error_code=code_in(asked.header, error))
        asked.service.on_loop(lambda: reply(body))

    result.durable.then(settled)


def read_by(group: GroupDescription, most: int = MAX_ELEMENTS) -> set[str] | None:
    """Return the topics that the members of a group read; None if that cannot be told.

    Nor is it told if that takes more names than one request may have.
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

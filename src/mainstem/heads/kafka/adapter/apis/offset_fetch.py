"""OffsetFetch, versions 1 to 10: committed offsets of one group, or since version 8 of several."""

from collections.abc import Iterable
from contextlib import suppress

from msgspec.structs import replace

from mainstem.broker.door import Cursor, TopicPartition
from mainstem.core.errors import Denied, MainstemError, UnknownTopic
from mainstem.heads.kafka.adapter.errors import code_in
from mainstem.heads.kafka.adapter.groups.committed_offsets import is_missing
from mainstem.heads.kafka.adapter.registry import serves
from mainstem.heads.kafka.adapter.request_limits import limited
from mainstem.heads.kafka.adapter.service import Asked, Reply, Service
from mainstem.heads.kafka.adapter.topics import id_of, name_of
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages import commits as messages

_MANY_GROUPS = 8
_BY_ID = 10


@serves(messages.OFFSET_FETCH, 1, 10)
def answer(asked: Asked, request: messages.OffsetFetchRequest, reply: Reply) -> None:
    """Return the committed offsets of each group."""
    look = _Look(asked.service, request.require_stable)
    if asked.header.api_version < _MANY_GROUPS:
        reply(_fetched_of_one(asked, look, request))
        return
    by_id = asked.header.api_version >= _BY_ID
    wishes: dict[str, messages.OffsetFetchGroup] = {}
    unclear: set[str] = set()
    for each in limited(asked, request.groups):
        if wishes.setdefault(each.group_id, each) != each:
            unclear.add(each.group_id)
    groups = tuple(
        messages.FetchedOffsetsGroup(name, error_code=Code.INVALID_REQUEST)
        if name in unclear
        else _fetched(asked, look, wish, by_id=by_id)
        for name, wish in wishes.items()
    )
    reply(messages.OffsetFetchResponse(groups=groups))


def _fetched_of_one(
    asked: Asked, look: "_Look", request: messages.OffsetFetchRequest
) -> messages.OffsetFetchResponse:
    try:
        return messages.OffsetFetchResponse(topics=look.at(request.group_id, request.topics))
    except MainstemError as error:
        return _not_fetched(request, code_in(asked.header, error))


def _not_fetched(request: messages.OffsetFetchRequest, code: Code) -> messages.OffsetFetchResponse:
    """Return the response for a single group that is refused, with an error code per partition.

    Version 1 has no error code for the whole response.
    """
    topics = [
        messages.FetchedOffsetsTopic(
            each.topic_id,
            each.name,
            tuple(
                messages.FetchedOffset(number, -1, error_code=code)
                for number in each.partition_indexes
            ),
        )
        for each in request.topics or ()
    ]
    return messages.OffsetFetchResponse(topics=topics, error_code=code)


def _fetched(
    asked: Asked, look: "_Look", wish: messages.OffsetFetchGroup, *, by_id: bool
) -> messages.FetchedOffsetsGroup:
    consumers = asked.service.broker.consumers
    try:
        consumers.check_fetch(wish.group_id, wish.member_id, wish.member_epoch)
        found = look.at(wish.group_id, wish.topics, by_id=by_id)
    except MainstemError as error:
        return messages.FetchedOffsetsGroup(wish.group_id, error_code=code_in(asked.header, error))
    return messages.FetchedOffsetsGroup(wish.group_id, found)


class _Look:
    """Reads committed offsets for one request."""

    def __init__(self, service: Service, needs_stable: bool) -> None:
        self._service = service
        self._needs_stable = needs_stable
        """Whether to refuse offsets for which a transactional commit is pending (require_stable).
        """

    def at(
        self, group: str, topics: Iterable[messages.OffsetFetchTopic] | None, *, by_id: bool = False
    ) -> tuple[messages.FetchedOffsetsTopic, ...]:
        """Return a group's committed offsets, in these topics, or if ``topics`` is None in all."""
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
            messages.FetchedOffsetsTopic(
                topic_id,
                name,
                tuple(
                    messages.FetchedOffset(number, -1, error_code=Code.UNKNOWN_TOPIC_ID)
                    if is_missing(topic_id, name)
                    else self._one(group, (name, number), cursors)
                    for number in of_topic
                ),
            )
            for (topic_id, name), of_topic in numbers.items()
        )

    def _all(self, cursors: Iterable[TopicPartition]) -> list[messages.OffsetFetchTopic]:
        numbers: dict[str, list[int]] = {}
        for name, number in sorted(cursors):
            numbers.setdefault(name, []).append(number)
        topics: list[messages.OffsetFetchTopic] = []
        for name, found in numbers.items():
            # The topic was deleted meanwhile, or the peer may not read it.
            with suppress(UnknownTopic, Denied):
                topics.append(
                    messages.OffsetFetchTopic(id_of(self._service.broker.topic(name)), name, found)
                )
        return topics

    def _one(
        self, group: str, place: TopicPartition, cursors: dict[TopicPartition, Cursor]
    ) -> messages.FetchedOffset:
        if self._needs_stable and self._is_pending(group, place):
            return messages.FetchedOffset(place[1], -1, error_code=Code.UNSTABLE_OFFSET_COMMIT)
        cursor = cursors.get(place)
        if cursor is None:
            return messages.FetchedOffset(place[1], -1)
        return messages.FetchedOffset(place[1], cursor.offset, cursor.epoch, cursor.metadata)

    def _is_pending(self, group: str, place: TopicPartition) -> bool:
        try:
            return self._service.broker.transactions.is_pending(group, *place)
        except MainstemError:
            # There is no such partition, and so no cursor.
            return False

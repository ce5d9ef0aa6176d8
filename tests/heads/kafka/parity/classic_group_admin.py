"""Scenarios of classic groups as administrators see them, and of their cursors."""

from collections.abc import Iterator, Sequence

from tests.heads.kafka.parity.classic_member import Member, only_member
from tests.heads.kafka.parity.compared_server import Said, Side, Topic, alike, word
from tests.heads.kafka.parity.group_admin import commit, cursor, cursors_deleted
from tests.heads.kafka.parity.members import ANN, listed

from mainstem.kafka_protocol.fields import NO_ID
from mainstem.kafka_protocol.messages import commits
from mainstem.kafka_protocol.messages.groups import (
    DELETE_GROUPS,
    DESCRIBE_GROUPS,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

NOTHING = Topic("nothing", b"\x07" * 16)
"""A topic there is not."""
_SEVERAL_GROUPS = 8
Place = tuple[Topic, int]


def _committed(
    side: Side, group: str, *places: Place, offset: int = 1, metadata: str = "", version: int = 10
) -> Said:
    """Commit in some partitions, as nobody in particular."""
    topics = [
        commits.CommitTopic(
            topic.id, topic.name, [commits.CommitPartition(number, offset, -1, metadata)]
        )
        for topic, number in places
    ]
    body = commits.OffsetCommitRequest(group, topics=topics)
    answer = side.ask(commits.OFFSET_COMMIT, body, commits.OffsetCommitResponse, version=version)
    # In which order topics are answered is the server's affair.
    return sorted(
        (_name(side, it.topic_id, it.name), each.partition_index, word(each.error_code))
        for it in answer.topics
        for each in it.partitions
    )


def _fetched(side: Side, group: str, places: Sequence[Place] | None, version: int = 10) -> Said:
    """Return what is committed in some partitions, or in all."""
    topics = (
        None
        if places is None
        else [commits.OffsetFetchTopic(topic.id, topic.name, (number,)) for topic, number in places]
    )
    body = commits.OffsetFetchRequest(group_id=group, topics=topics)
    if version >= _SEVERAL_GROUPS:
        body = commits.OffsetFetchRequest(groups=[commits.OffsetFetchGroup(group, topics=topics)])
    answer = side.ask(commits.OFFSET_FETCH, body, commits.OffsetFetchResponse, version=version)
    code, found = answer.error_code, answer.topics
    if version >= _SEVERAL_GROUPS:
        code, found = answer.groups[0].error_code, answer.groups[0].topics
    return word(code), sorted(
        (
            _name(side, it.topic_id, it.name),
            each.partition_index,
            each.committed_offset,
            each.metadata,
            word(each.error_code),
        )
        for it in found
        for each in it.partitions
    )


def _name(side: Side, topic_id: bytes, name: str) -> str:
    """Return a topic by its name: their ids are not the same."""
    known = {each.id: each.name for each in (side.one, side.two, NOTHING)}
    return name if topic_id == NO_ID else known[topic_id]


def _deleted(side: Side, group: str, *places: Place) -> Said:
    topics = [
        commits.OffsetDeleteTopic(topic.name, (commits.OffsetDeletePartition(number),))
        for topic, number in places
    ]
    answer = side.ask(
        commits.OFFSET_DELETE,
        commits.OffsetDeleteRequest(group, topics),
        commits.OffsetDeleteResponse,
    )
    return word(answer.error_code), sorted(
        (it.name, each.partition_index, word(each.error_code))
        for it in answer.topics
        for each in it.partitions
    )


def _described(side: Side, *groups: str, version: int = 6) -> Said:
    body = DescribeGroupsRequest(groups)
    answer = side.ask(DESCRIBE_GROUPS, body, DescribeGroupsResponse, version=version)
    return sorted(
        (
            it.group_id,
            word(it.error_code),
            it.group_state,
            it.protocol_type,
            it.protocol_data,
            [
                (each.group_instance_id or "", each.client_id, each.member_metadata)
                for each in it.members
            ],
            [each.member_assignment for each in it.members],
        )
        for it in answer.groups
    )


def _groups_deleted(side: Side, *groups: str) -> Said:
    answer = side.ask(DELETE_GROUPS, DeleteGroupsRequest(groups), DeleteGroupsResponse)
    return sorted((it.group_id, word(it.error_code)) for it in answer.results)


@alike
def commits_of_nobody(side: Side) -> Iterator[Said]:
    for version in (2, 5, 6, 7, 8, 9, 10):
        group = side.group()
        one, two, wrong, nothing = (side.one, 0), (side.two, 1), (side.one, 7), (NOTHING, 0)
        yield version, "none", _committed(side, group, version=version)
        yield version, "one", _committed(side, group, one, version=version)
        mixed = _committed(side, group, two, wrong, nothing, offset=3, version=version)
        yield version, "mixed", mixed
        yield version, "negative", _committed(side, group, (side.one, -1), version=version)
        past = _committed(side, group, one, offset=1_000_000, version=version)
        yield version, "past the end", past
        long = _committed(side, group, one, metadata="x" * 4097, version=version)
        yield version, "much to say", long
        enough = _committed(side, group, one, metadata="x" * 4096, version=version)
        yield version, "enough to say", enough
        yield version, "all", _fetched(side, group, None)


@alike
def commits_of_offsets_below_zero(side: Side) -> Iterator[Said]:
    for offset in (-1, -2, -5):
        group, place = side.group(), (side.one, 0)
        yield offset, "first", _committed(side, group, place, offset=offset, metadata="me")
        yield offset, "asked for", [_fetched(side, group, [place], each) for each in (2, 8, 10)]
        yield offset, "all", _fetched(side, group, None)
        yield offset, "described", _described(side, group)
        yield offset, "deleted", _deleted(side, group, place)
        yield offset, "then", _fetched(side, group, None)
        _committed(side, group, place, offset=3)
        yield offset, "after another", _committed(side, group, place, offset=offset)
        yield offset, "that is gone", _fetched(side, group, [place])


@alike
def cursors_that_are_asked_for(side: Side) -> Iterator[Said]:
    group = side.group()
    _committed(side, group, (side.one, 0), (side.two, 1), metadata="me")
    for version in (2, 5, 6, 7, 8, 9, 10):
        yield version, "all", _fetched(side, group, None, version)
        yield version, "none", _fetched(side, group, [], version)
        yield version, "one", _fetched(side, group, [(side.one, 0)], version)
        yield version, "not committed", _fetched(side, group, [(side.two, 0)], version)
        yield version, "no such partition", _fetched(side, group, [(side.one, 9)], version)
        yield version, "no such topic", _fetched(side, group, [(NOTHING, 0)], version)
        yield version, "unknown group", _fetched(side, side.group(), None, version)
        yield version, "unknown group, one", _fetched(side, side.group(), [(side.one, 0)], version)
        yield version, "no name", _fetched(side, "", [(side.one, 0)], version)


@alike
def cursors_that_are_deleted(side: Side) -> Iterator[Said]:
    group = side.group()
    _committed(side, group, (side.one, 0), (side.two, 1))
    yield "no name", _deleted(side, "", (side.one, 0))
    yield "unknown", _deleted(side, side.group(), (side.one, 0))
    yield "nothing", _deleted(side, group)
    yield "not there", _deleted(side, group, (side.one, 9), (NOTHING, 0), (side.two, 0))
    yield "one", _deleted(side, group, (side.one, 0)), _fetched(side, group, None)
    yield "again", _deleted(side, group, (side.one, 0))
    yield "the last", _deleted(side, group, (side.two, 1)), _fetched(side, group, None)


@alike
def cursors_of_members(side: Side) -> Iterator[Said]:
    ann = only_member(side)
    group = ann.group
    for version in (2, 6, 7, 8, 9, 10):
        yield version, "in the generation", commit(side, group, 1, ann.id, 1, version=version)
        yield version, "nobody", commit(side, group, 1, version=version)
        yield version, "no generation", commit(side, group, 1, ann.id, -1, version=version)
        yield version, "before", commit(side, group, 1, ann.id, 0, version=version)
        yield version, "only a generation", commit(side, group, 1, "", 1, version=version)
        yield version, "another", commit(side, group, 1, ANN, 1, version=version)
        if version >= 7:
            told = commit(side, group, 1, ann.id, 1, instance="i", version=version)
            yield version, "an instance", told
            told = commit(side, group, 1, instance="i", version=version)
            yield version, "only an instance", told
    yield "cursor", cursor(side, group), cursors_deleted(side, group), cursor(side, group)
    yield "no group", commit(side, side.group(), 1, ann.id, -1)
    yield "no group, a generation", commit(side, side.group(), 1, "", 1, version=8)


@alike
def classic_groups_described(side: Side) -> Iterator[Said]:
    group, empty, none = side.group(), side.group(), side.group()
    commit(side, empty, 1)
    ann = Member(side, group, "i")
    ann.join(metadata=b"me")
    for version in (4, 5, 6):
        yield version, "completing", _described(side, group, empty, none, version=version)
    ann.sync({ann.id: b"all"})
    for version in (0, 3, 4, 5, 6):
        yield version, "stable", _described(side, group, empty, none, "", version=version)
        yield version, "none", _described(side, version=version)
    yield "listed", listed(side, group), listed(side, empty), listed(side, none)
    for state in ("Stable", "stable", "STABLE", "Empty", "Dead", "nothing", ""):
        yield state, listed(side, group, [state]), listed(side, empty, [state])
        yield state, listed(side, group, [state, "Stable"])
    for kind in ("classic", "Classic", "consumer", "share"):
        yield kind, listed(side, group, (), [kind]), listed(side, empty, (), [kind])
    yield "both", listed(side, group, ["Empty"], ["classic"])
    yield "deleted", _groups_deleted(side, group, empty, none, "")
    yield "none", _groups_deleted(side)
    yield "listed", listed(side, group), listed(side, empty)


@alike
def a_group_that_is_deleted_twice_at_once(side: Side) -> Iterator[Said]:
    group = side.group()
    commit(side, group, 1)
    yield _groups_deleted(side, group, group)

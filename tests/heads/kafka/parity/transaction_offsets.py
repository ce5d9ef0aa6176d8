"""Scenarios of cursors that move with transactions."""

from collections.abc import Iterator

from tests.heads.kafka.parity.compared_server import Said, Side, alike, unlike, until, word
from tests.heads.kafka.parity.group_admin import commit, cursor, cursors_deleted
from tests.heads.kafka.parity.members import ANN, BOB, join_classic, join_consumers, listed
from tests.heads.kafka.parity.share_members import deleted
from tests.heads.kafka.parity.transactional_producer import NEWER, OLDER, Producer

from mainstem.kafka_protocol.messages.commits import (
    OFFSET_FETCH,
    OffsetFetchGroup,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchTopic,
)

_SEVERAL_GROUPS = 8
"""The first version of OffsetFetch that has a list of groups."""
_TOO_LONG = 4097
"""Metadata of a cursor has at most 4096 characters."""


def _stable(side: Side, group: str, version: int = 10) -> Said:
    """Return the cursor if no transaction is about to move it."""
    topic = OffsetFetchTopic(side.one.id, side.one.name, (0,))
    body = OffsetFetchRequest(group_id=group, topics=[topic], require_stable=True)
    if version >= _SEVERAL_GROUPS:
        groups = [OffsetFetchGroup(group, topics=[topic])]
        body = OffsetFetchRequest(groups=groups, require_stable=True)
    answer = side.ask(OFFSET_FETCH, body, OffsetFetchResponse, version=version)
    topics = answer.groups[0].topics if version >= _SEVERAL_GROUPS else answer.topics
    found = topics[0].partitions[0]
    return found.committed_offset, word(found.error_code)


def _has_moved(side: Side, group: str) -> Said:
    """Return the cursor once what was about to move it has ended."""
    until(lambda: "UNSTABLE_OFFSET_COMMIT" not in str(_stable(side, group)))
    return cursor(side, group)


def _with_group(side: Side, name: str) -> tuple[Producer, str]:
    """Return a producer, and a group that is part of its transaction."""
    group = side.group()
    found = Producer(side, name)
    found.init()
    found.add_group(group)
    return found, group


def _moving(side: Side, name: str) -> tuple[Producer, str]:
    """Return a producer, and a group whose cursor its transaction moves from 1 to 5."""
    group = side.group()
    found = Producer(side, name)
    found.init()
    commit(side, group, 1)
    found.add_group(group)
    found.commit(group, 5)
    return found, group


@alike
def cursors_of_a_transaction(side: Side) -> Iterator[Said]:
    for version in (OLDER, NEWER):
        for committed in (True, False):
            group = side.group()
            ann = Producer(side, f"moves {version} {committed}")
            ann.init()
            yield "not added", ann.commit(group, 3, version=version)
            yield "added", ann.add_group(group)
            yield "moves", ann.commit(group, 4, version=version)
            yield "described", ann.described()[:2]
            yield "not yet", cursor(side, group)
            yield "unstable", [_stable(side, group, each) for each in (7, 8, 9, 10)]
            yield "end", ann.end(committed=committed, version=version)
            yield "then", _has_moved(side, group)


@alike
def cursors_that_are_refused(side: Side) -> Iterator[Said]:
    ann, group = _with_group(side, "refused")
    for version in (OLDER, NEWER):
        others = {
            "an earlier epoch": ann.as_if(epochs=-1),
            "a later epoch": ann.as_if(epochs=1),
            "another id": ann.as_if(ids=1),
        }
        for name, other in others.items():
            yield version, name, other.commit(group, version=version)
        place = (side.one.name, 7)
        yield version, "no such partition", ann.commit(group, place=place, version=version)
        place = ("nothing", 0)
        yield version, "no such topic", ann.commit(group, place=place, version=version)
        long = "x" * _TOO_LONG
        yield version, "much to say", ann.commit(group, metadata=long, version=version)
        yield version, "no group", ann.commit("", version=version)


@alike
def cursors_of_a_transaction_for_members_of_no_group(side: Side) -> Iterator[Said]:
    ann = Producer(side, "for nobody")
    ann.init()
    wrong: list[tuple[str, int, str | None]] = [
        (ANN, -1, None),
        ("", 1, None),
        (ANN, 1, None),
        ("", -1, "i"),
        (ANN, 1, "i"),
    ]
    for version in (OLDER, NEWER):
        for member, generation, instance in wrong:
            group = side.group()
            ann.add_group(group)
            told = ann.commit(group, 1, member, generation, instance=instance, version=version)
            yield version, member, generation, instance, told


@unlike("a transaction has the name it began with, whoever has its producer id")
def cursors_of_a_transaction_by_another_name(side: Side) -> Iterator[Said]:
    ann, group = _with_group(side, "moves by another name")
    ann.commit(group, 1)
    other = ann.as_if()
    other.name = ""
    for version in (OLDER, NEWER):
        yield version, "no name", other.commit(group, version=version)
    other.name = "nobody moves"
    yield "another name", other.commit(group, version=NEWER)


@unlike("groups have names of 1 to 255 characters")
def a_transaction_with_a_group_of_no_name(side: Side) -> Iterator[Said]:
    ann = Producer(side, "no group")
    ann.init()
    yield "added", ann.add_group("")
    yield "described", ann.described()[1]


@unlike("while its first cursors are those of a transaction, there is no group yet")
def a_group_that_begins_with_a_transaction(side: Side) -> Iterator[Said]:
    ann, group = _with_group(side, "the first")
    ann.commit(group, 1)
    yield "another", ann.commit(group, 1, ANN, 1)
    yield "listed", listed(side, group)
    ann.end(committed=False)
    yield "and aborted", listed(side, group)


@alike
def cursors_of_a_transaction_for_members(side: Side) -> Iterator[Said]:
    ann, group = _with_group(side, "for members")
    member = join_classic(side, group)[1]
    for version in (2, 3, OLDER, NEWER):
        yield version, "nobody", ann.commit(group, version=version)
        if version == 2:
            continue
        yield version, "a member", ann.commit(group, 1, member, 1, version=version)
        yield version, "another", ann.commit(group, 1, BOB, 1, version=version)
        yield version, "another generation", ann.commit(group, 1, member, 2, version=version)
        yield version, "no generation", ann.commit(group, 1, member, version=version)
        yield version, "only a generation", ann.commit(group, 1, "", 1, version=version)
        told = ann.commit(group, 1, member, 1, instance="i", version=version)
        yield version, "an instance", told
    yield "end", ann.end()


@alike
def cursors_of_a_transaction_for_consumers(side: Side) -> Iterator[Said]:
    ann, group = _with_group(side, "for consumers")
    now = join_consumers(side, group, [side.one])[1]
    for version in (3, OLDER, NEWER):
        yield version, "nobody", ann.commit(group, version=version)
        yield version, "a member", ann.commit(group, 1, ANN, now, version=version)
        yield version, "another", ann.commit(group, 1, BOB, now, version=version)
        yield version, "a later epoch", ann.commit(group, 1, ANN, now + 1, version=version)
        yield version, "an earlier epoch", ann.commit(group, 1, ANN, now - 1, version=version)
        yield version, "no epoch", ann.commit(group, 1, ANN, version=version)


@alike
def a_group_with_a_transaction(side: Side) -> Iterator[Said]:
    ann, group = _moving(side, "and its group")
    yield "committed past it", commit(side, group, 2), cursor(side, group)
    yield "ends", ann.end(committed=False)
    yield "then", _has_moved(side, group)
    yield "deleted", deleted(side, group)


@unlike("a transaction commits all of what it was given, also a cursor that is moved meanwhile")
def a_cursor_that_moves_under_a_transaction(side: Side) -> Iterator[Said]:
    ann, group = _with_group(side, "and moved")
    ann.commit(group, 5)
    commit(side, group, 2)
    ann.end()
    yield _has_moved(side, group)


@unlike("a transaction commits all of what it was given, also a cursor that is deleted meanwhile")
def a_cursor_that_is_deleted_under_a_transaction(side: Side) -> Iterator[Said]:
    ann, group = _moving(side, "and deleted")
    cursors_deleted(side, group)
    ann.end()
    yield _has_moved(side, group)

"""Scenarios of cursors: who may commit and ask for them in a group that has members."""

from collections.abc import Iterator

from tests.heads.kafka.parity.compared_server import Said, Side, alike
from tests.heads.kafka.parity.group_admin import commit, cursor, cursors_deleted
from tests.heads.kafka.parity.members import (
    ANN,
    BOB,
    LEAVE,
    LEAVE_FOR_A_WHILE,
    consumer_beat,
    join_classic,
    join_consumers,
)


@alike
def cursors_of_no_group(side: Side) -> Iterator[Said]:
    group = side.group()
    yield "asked", cursor(side, group)
    yield "asked by a member", cursor(side, group, ANN, 1)
    yield "committed by nobody", commit(side, group, 1)
    yield "asked", cursor(side, group)
    yield "asked by a member", cursor(side, group, ANN, 1)
    yield "deleted", cursors_deleted(side, group)
    yield "deleted, no group", cursors_deleted(side, side.group())


@alike
def cursors_of_a_consumer_group(side: Side) -> Iterator[Said]:
    group = side.group()
    now = join_consumers(side, group, [side.one])[1]
    for version in (8, 9, 10):
        yield version, "in the epoch", commit(side, group, version, ANN, now, version=version)
        yield version, "stale", commit(side, group, 1, ANN, now - 1, version=version)
        yield version, "of the future", commit(side, group, 1, ANN, now + 1, version=version)
        yield version, "another", commit(side, group, 1, BOB, now, version=version)
        yield version, "nobody", commit(side, group, 1, version=version)
        yield version, "nobody in an epoch", commit(side, group, 1, "", now, version=version)
        yield version, "a member without epoch", commit(side, group, 1, ANN, -1, version=version)
        told = commit(side, group, 1, ANN, now, instance="i", version=version)
        yield version, "an instance", told
    for version in (9, 10):
        yield version, "asked by nobody", cursor(side, group, version=version)
        yield version, "in the epoch", cursor(side, group, ANN, now, version=version)
        yield version, "stale", cursor(side, group, ANN, now - 1, version=version)
        yield version, "of the future", cursor(side, group, ANN, now + 1, version=version)
        yield version, "another", cursor(side, group, BOB, now, version=version)
        yield version, "a member without epoch", cursor(side, group, ANN, -1, version=version)
        yield version, "nobody in an epoch", cursor(side, group, "", now, version=version)
    yield "deleted", cursors_deleted(side, group)
    consumer_beat(side, group, ANN, LEAVE)
    yield "committed by who left", commit(side, group, 5, ANN, now)
    yield "asked by who left", cursor(side, group, ANN, now)
    yield "committed by nobody", commit(side, group, 6)
    yield "deleted", cursors_deleted(side, group)


@alike
def cursors_of_a_static_member(side: Side) -> Iterator[Said]:
    group = side.group()
    now = join_consumers(side, group, [side.one], instance="i")[1]
    yield "with its instance", commit(side, group, 1, ANN, now, instance="i")
    yield "with another", commit(side, group, 1, ANN, now, instance="j")
    consumer_beat(side, group, ANN, LEAVE_FOR_A_WHILE, instance="i")
    yield "away", commit(side, group, 1, ANN, now, instance="i")
    yield "away", cursor(side, group, ANN, now)
    yield "away, by nobody", commit(side, group, 1)


@alike
def cursors_of_a_classic_group(side: Side) -> Iterator[Said]:
    group = side.group()
    member = join_classic(side, group)[1]
    yield "in the generation", commit(side, group, 1, member, 1)
    yield "another generation", commit(side, group, 1, member, 2)
    yield "another", commit(side, group, 1, BOB, 1)
    yield "nobody", commit(side, group, 1)
    yield "asked with an epoch", cursor(side, group, member, 1)
    yield "asked with another", cursor(side, group, BOB, 7)
    yield "deleted", cursors_deleted(side, group)

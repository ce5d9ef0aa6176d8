"""Scenarios of one group name used with several group protocols."""

from collections.abc import Iterator

from tests.heads.kafka.parity.compared_server import Said, Side, alike, unlike
from tests.heads.kafka.parity.group_admin import (
    altered,
    commit,
    consumers_described,
    cursor,
    cursors_deleted,
    forgotten,
    positions,
)
from tests.heads.kafka.parity.members import (
    ANN,
    BOB,
    JOIN,
    LEAVE,
    consumer_beat,
    join_classic,
    join_consumers,
    leave_classic,
    listed,
    share_beat,
    share_group,
)
from tests.heads.kafka.parity.share_members import deleted, described
from tests.heads.kafka.parity.share_session_client import BEGIN, NOBODY, Session


def _share(side: Side, group: str) -> Iterator[Said]:
    """Ask for a share group, everything but to join it."""
    yield "share, stay", share_beat(side, group, BOB, 1)[0]
    yield "share, leave", share_beat(side, group, BOB, LEAVE)[0]
    yield "share, describe", described(side, group)
    yield "share, alter", altered(side, group, side.one, 0, 1)
    yield "share, forget", forgotten(side, group, side.one)
    yield "share, positions", positions(side, group, side.one)


def _consumers(side: Side, group: str) -> Iterator[Said]:
    """Ask for a consumer group, everything but to join it."""
    yield "consumer, stay", consumer_beat(side, group, BOB, 1)[0]
    yield "consumer, leave", consumer_beat(side, group, BOB, LEAVE)[0]
    yield "consumer, describe", consumers_described(side, group)


def _cursors(side: Side, group: str) -> Iterator[Said]:
    yield "commit", commit(side, group, 3)
    yield "cursor", cursor(side, group)
    yield "delete cursors", cursors_deleted(side, group)


def _deletion(side: Side, group: str) -> Iterator[Said]:
    yield "delete", deleted(side, group)
    yield "listed", listed(side, group)


def _state(side: Side, group: str) -> Iterator[Said]:
    yield "listed", listed(side, group)
    yield "described", consumers_described(side, group)


@alike
def a_share_group_asked_for_as_another(side: Side) -> Iterator[Said]:
    group = share_group(side)
    yield from _consumers(side, group)
    yield from _cursors(side, group)
    yield "consumer, join", join_consumers(side, group, [side.one])[0]
    yield "classic, join", join_classic(side, group)[0]
    yield "classic consumer, join", join_classic(side, group, kind="consumer")[0]
    yield "delete", deleted(side, group)


@alike
def a_consumer_group_asked_for_as_another(side: Side) -> Iterator[Said]:
    group = side.group()
    yield join_consumers(side, group, [side.one])[0]
    yield from _share(side, group)
    yield "share, join", share_beat(side, group, BOB, JOIN, [side.one])[0]
    yield "classic, join", join_classic(side, group)[0]
    yield from _deletion(side, group)


@alike
def a_classic_group_asked_for_as_another(side: Side) -> Iterator[Said]:
    group = side.group()
    yield join_classic(side, group)[0]
    yield from _share(side, group)
    yield from _consumers(side, group)
    yield "share, join", share_beat(side, group, BOB, JOIN, [side.one])[0]
    yield "consumer, join", join_consumers(side, group, [side.one])[0]
    yield from _deletion(side, group)


@alike
def an_empty_consumer_group_becomes_a_classic_one(side: Side) -> Iterator[Said]:
    group = side.group()
    join_consumers(side, group, [side.one])
    yield consumer_beat(side, group, ANN, LEAVE)
    yield "listed", listed(side, group)
    yield "joined", join_classic(side, group)[0]
    yield from _state(side, group)


@alike
def an_empty_classic_group_becomes_a_consumer_group(side: Side) -> Iterator[Said]:
    group = side.group()
    yield leave_classic(side, group, join_classic(side, group)[1])
    yield from _state(side, group)
    yield "joined", join_consumers(side, group, [side.one])[0]
    yield "listed", listed(side, group)


@alike
def cursors_without_members_become_those_of_a_consumer_group(side: Side) -> Iterator[Said]:
    group = side.group()
    yield commit(side, group, 3)
    yield from _state(side, group)
    yield "joined", join_consumers(side, group, [side.one])[0]
    yield "listed", listed(side, group)
    yield "cursor", cursor(side, group)
    yield "committed by nobody", commit(side, group, 4)


@unlike("a name is of one kind while members have it: a queue and a group may share it otherwise")
def an_empty_share_group_asked_for_as_another(side: Side) -> Iterator[Said]:
    group = share_group(side)
    share_beat(side, group, ANN, LEAVE)
    yield from _cursors(side, group)
    yield "consumer, join", join_consumers(side, group, [side.one])[0]


@unlike("a name is of one kind while members have it: a queue and a group may share it otherwise")
def an_empty_group_asked_for_as_a_share_group(side: Side) -> Iterator[Said]:
    for kind in ("consumer", "classic", "cursors"):
        group = side.group()
        if kind == "consumer":
            join_consumers(side, group, [side.one])
            consumer_beat(side, group, ANN, LEAVE)
        elif kind == "classic":
            leave_classic(side, group, join_classic(side, group)[1])
        else:
            commit(side, group, 3)
        yield kind, altered(side, group, side.one, 0, 1)
        yield kind, share_beat(side, group, BOB, JOIN, [side.one])[0]


@unlike("a restart forgets members, who shall join again: GROUP_ID_NOT_FOUND they take for the end")
def members_of_groups_that_nobody_knows(side: Side) -> Iterator[Said]:
    for epoch in (1, LEAVE):
        yield "share", epoch, share_beat(side, side.group(), ANN, epoch)[0]
        yield "consumer", epoch, consumer_beat(side, side.group(), ANN, epoch)[0]
    yield "commit", commit(side, side.group(), 1, ANN, 1)


@unlike("groups have names of 1 to 255 characters")
def names_that_are_none(side: Side) -> Iterator[Said]:
    yield "commit", commit(side, "", 1)
    yield "long, share", share_beat(side, "g" * 256, ANN, JOIN, [side.one])[0]
    yield "long, consumer", join_consumers(side, "h" * 256, [side.one])[0]


@unlike("Apache Kafka answers UNKNOWN_SERVER_ERROR, we say what is wrong")
def requests_at_which_apache_kafka_fails(side: Side) -> Iterator[Said]:
    yield "positions of no name", positions(side, "", side.one)
    with side.another() as peer:
        ann = Session(peer, "", side.one)
        yield "a session of no name", ann.fetch(epoch=BEGIN)
        ann.group = side.group()
        yield "no such mode", ann.fetch(epoch=BEGIN, mode=2)
        yield "no such topic", ann.fetch(epoch=BEGIN, topic_id=NOBODY)

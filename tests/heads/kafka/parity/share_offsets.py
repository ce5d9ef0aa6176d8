"""Scenarios of share groups: where they start, and what an administrator may change of that."""

from collections.abc import Iterator

from tests.heads.kafka.parity.compared_server import Said, Side, Topic, alike, unlike, until
from tests.heads.kafka.parity.group_admin import altered, forgotten, positions
from tests.heads.kafka.parity.members import ANN, LEAVE, join_share, share_beat, share_group
from tests.heads.kafka.parity.share_session_client import ACCEPT, END, sharing

NOTHING = Topic("nothing", bytes(16))


@alike
def offsets_of_no_group(side: Side) -> Iterator[Said]:
    group = side.group()
    yield "some", positions(side, group, side.one)
    yield "all", positions(side, group)
    yield "forgotten", forgotten(side, group, side.one)
    yield "nothing forgotten", forgotten(side, group)
    yield "forgotten, no name", forgotten(side, "", side.one)
    yield "altered, no name", altered(side, "", side.one, 0, 1)
    yield "nothing altered", altered(side, side.group(), side.one)


@alike
def offsets_altered_before_there_is_a_group(side: Side) -> Iterator[Said]:
    group = side.group()
    yield altered(side, group, side.one, 0, 4)
    yield positions(side, group, side.one)
    yield positions(side, group)


@alike
def offsets_of_topics_there_are_not(side: Side) -> Iterator[Said]:
    group = share_group(side)
    yield "a topic", positions(side, group, NOTHING)
    # Not a partition: to say that it has not begun there, Apache Kafka takes half a minute.
    yield "another's topic", positions(side, group, side.two, 0, 1)
    share_beat(side, group, ANN, LEAVE)
    yield "altered, a topic", altered(side, group, NOTHING, 0, 1)
    yield "altered, a partition", altered(side, group, side.one, 7, 1)
    yield "altered, some", altered(side, group, side.two, 0, 1, 7, 1)
    yield "forgotten, a topic", forgotten(side, group, NOTHING)
    yield "forgotten, some", forgotten(side, group, NOTHING, side.one)
    yield "forgotten, none", forgotten(side, group)


@alike
def offsets_of_a_group_with_members(side: Side) -> Iterator[Said]:
    group = share_group(side)
    yield altered(side, group, side.one, 0, 1)
    yield altered(side, group, side.two, 0, 1)
    yield altered(side, group, side.one)
    yield forgotten(side, group, side.one)
    yield forgotten(side, group)


@alike
def offsets_that_are_moved(side: Side) -> Iterator[Said]:
    group = share_group(side)
    share_beat(side, group, ANN, LEAVE)
    for offset in (0, 3, 10):
        yield offset, altered(side, group, side.one, 0, offset)
        yield positions(side, group, side.one)


@unlike("a start that is not in the log is refused, not put right with the next fetch")
def offsets_that_are_out_of_range(side: Side) -> Iterator[Said]:
    group = share_group(side)
    share_beat(side, group, ANN, LEAVE)
    for offset in (11, 1000, -1):
        yield offset, altered(side, group, side.one, 0, offset)


@alike
def offsets_as_records_are_settled(side: Side) -> Iterator[Said]:
    with sharing(side) as (ann,):
        ann.take(6)
        yield ann.acknowledge([(0, 2, [ACCEPT])])
        yield ann.acknowledge([(4, 4, [ACCEPT])], epoch=END)

        def start_is(offset: int) -> bool:
            found = positions(side, ann.group, side.one)
            return f" {offset}, " in str(found)

        until(lambda: start_is(3))
        yield positions(side, ann.group, side.one)
        yield share_beat(side, ann.group, ANN, LEAVE)
        yield altered(side, ann.group, side.one, 0, 8)
        yield positions(side, ann.group, side.one)


@alike
def offsets_that_were_forgotten(side: Side) -> Iterator[Said]:
    group = side.group()
    join_share(side, group, [side.one, side.two])
    share_beat(side, group, ANN, LEAVE)
    yield forgotten(side, group, side.one)
    yield "again", forgotten(side, group, side.one)
    yield positions(side, group, side.one)
    yield forgotten(side, group, side.two)

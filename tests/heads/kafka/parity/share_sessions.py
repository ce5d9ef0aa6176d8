"""Scenarios of share groups: sessions, and what is acquired in them."""

from collections.abc import Iterator

from tests.heads.kafka.parity.compared_server import Said, Side, alike
from tests.heads.kafka.parity.members import ANN, BOB
from tests.heads.kafka.parity.share_session_client import (
    ACCEPT,
    BEGIN,
    END,
    NOBODY,
    Session,
    sharing,
)


@alike
def sessions_of_nobody(side: Side) -> Iterator[Said]:
    with side.another() as peer:
        ann = Session(peer, side.group(), side.one)
        yield "not begun", ann.fetch(epoch=1)
        yield "ended", ann.fetch(epoch=END)
        yield "ended, with nothing", ann.fetch(epoch=END, partitions=())
        yield "acknowledged", ann.acknowledge([(0, 0, [ACCEPT])], epoch=1)
        yield "acknowledged and ended", ann.acknowledge([(0, 0, [ACCEPT])], epoch=END)
        yield "acknowledged to begin", ann.acknowledge([(0, 0, [ACCEPT])], epoch=BEGIN)
        yield "a negative epoch", ann.fetch(epoch=-2)
        ann.member = ""
        yield "no member", ann.fetch(epoch=BEGIN)
        yield "no member", ann.acknowledge([(0, 0, [ACCEPT])], epoch=1)


@alike
def ids_of_members_in_sessions(side: Side) -> Iterator[Said]:
    with side.another() as peer:
        for member in ("a", "a" * 36, "a" * 37, " "):
            ann = Session(peer, side.group(), side.one, member)
            yield len(member), ann.fetch(epoch=BEGIN)[0]


@alike
def epochs_of_sessions(side: Side) -> Iterator[Said]:
    with sharing(side) as (ann,):
        yield "begun", ann.fetch(max_records=0)[0]
        yield "begun again", ann.fetch(epoch=0, max_records=0)[0]
        ann.epoch = 1
        yield "the next", ann.fetch(max_records=0)[0]
        yield "the same again", ann.fetch(epoch=1)
        yield "one too many", ann.fetch(epoch=3)
        yield "acknowledged too late", ann.acknowledge([(0, 0, [ACCEPT])], epoch=1)
        yield "a negative one", ann.fetch(epoch=-2)
        yield "ended", ann.fetch(epoch=END, partitions=())
        yield "ended again", ann.fetch(epoch=END, partitions=())
        yield "gone on with", ann.fetch(epoch=3)


@alike
def acknowledging_as_a_session_begins(side: Side) -> Iterator[Said]:
    with sharing(side) as (ann,):
        yield ann.fetch([(0, 0, [ACCEPT])], epoch=BEGIN)
        yield ann.acknowledge([(0, 0, [ACCEPT])], epoch=BEGIN)


@alike
def topics_there_are_not(side: Side) -> Iterator[Said]:
    with sharing(side) as (ann,):
        ann.take(2)
        yield ann.acknowledge([(0, 0, [ACCEPT])], topic_id=NOBODY)
        yield "to end", ann.acknowledge([(0, 0, [ACCEPT])], topic_id=NOBODY, epoch=END)


@alike
def partitions_there_are_not(side: Side) -> Iterator[Said]:
    with sharing(side) as (ann,):
        yield "begun with", ann.fetch(partitions=[9])
        yield "again", ann.fetch(partitions=())
    with sharing(side) as (ann,):
        ann.take(10)
        yield "added", ann.fetch(partitions=[9])
        yield "acknowledged", ann.acknowledge([(0, 0, [ACCEPT])], partition=9)
        yield "acknowledged", ann.acknowledge([(0, 0, [ACCEPT])], partition=-1)


@alike
def who_is_no_member_of_the_group(side: Side) -> Iterator[Said]:
    with sharing(side) as (ann,):
        ann.take(2)
        bob = Session(ann.peer, ann.group, side.one, BOB)
        yield "begins", bob.fetch(max_records=1)[0]


@alike
def a_session_that_ends(side: Side) -> Iterator[Said]:
    # All of it is out, so that Apache Kafka, which gives back a moment later, has nothing else.
    with sharing(side) as (ann,):
        yield ann.take(10)
        yield ann.acknowledge([(0, 0, [ACCEPT])], epoch=END)
        ann.epoch = 0
        yield ann.take(10)
        yield ann.fetch([(1, 1, [ACCEPT])], epoch=END)
        ann.epoch = 0
        yield ann.take(10)


@alike
def a_fetch_that_ends_takes_nothing(side: Side) -> Iterator[Said]:
    with sharing(side) as (ann,):
        yield ann.take(2)
        yield ann.fetch(epoch=END)
        yield ann.fetch(epoch=END, max_records=0)


@alike
def partitions_that_are_forgotten(side: Side) -> Iterator[Said]:
    with sharing(side, side.two) as (ann,):
        yield ann.take(2, 1)
        yield ann.fetch(partitions=(), forgotten=[1], max_records=5)
        yield ann.acknowledge([(0, 1, [ACCEPT])], partition=1)


# What is acquired


@alike
def whole_batches_are_acquired(side: Side) -> Iterator[Said]:
    with sharing(side) as (ann,):
        yield ann.take(2, strictly=False)
        yield ann.fetch(max_wait_ms=0)
    with sharing(side, side.single) as (ann,):
        yield ann.take(2, strictly=False)
        yield ann.take(3, strictly=False)
        yield ann.take(100, strictly=False)


@alike
def records_are_counted_strictly(side: Side) -> Iterator[Said]:
    with sharing(side, None, ANN, BOB) as (ann, bob):
        yield ann.take(4)
        yield bob.take(4)
        yield ann.take(4)
        yield bob.fetch()


@alike
def fetches_for_nothing(side: Side) -> Iterator[Said]:
    with sharing(side) as (ann,):
        ann.take(1)
        yield "no records", ann.fetch(max_records=0)
        yield "a negative number", ann.fetch(max_records=-1)[0]
        yield "no bytes", ann.fetch(max_bytes=0)[0]

"""Scenarios of transactional producers: who they are, and what belongs to a transaction."""

from collections.abc import Iterator

from tests.heads.kafka.parity.compared_server import Said, Side, alike, unlike, word
from tests.heads.kafka.parity.transactional_producer import (
    NEWER,
    NEWER_PRODUCE,
    OLDER,
    OLDER_PRODUCE,
    Producer,
    producers,
    settled,
)

from mainstem.kafka_protocol.messages.transactions import (
    INIT_PRODUCER_ID,
    InitProducerIdRequest,
    InitProducerIdResponse,
)

QUARTER_OF_AN_HOUR_MS = 15 * 60_000
"""The longest that a transaction may take, if nothing else is set."""
BOTH = ((OLDER, OLDER_PRODUCE), (NEWER, NEWER_PRODUCE))


def _id_of(side: Side, name: str | None, producer_id: int = -1, epoch: int = -1) -> Said:
    body = InitProducerIdRequest(name, 60_000, producer_id, epoch)

    def ask() -> tuple[int, InitProducerIdResponse]:
        found = side.ask(INIT_PRODUCER_ID, body, InitProducerIdResponse, version=5)
        return found.error_code, found

    answer = settled(ask)
    return word(answer.error_code), answer.producer_id >= 0, answer.producer_epoch


@alike
def an_id_without_a_transactional_one(side: Side) -> Iterator[Said]:
    yield "an id", _id_of(side, None)
    yield "with an id", _id_of(side, None, 7, 7)
    yield "with an id and no epoch", _id_of(side, None, 7)
    yield "with an epoch and no id", _id_of(side, None, -1, 7)
    yield "an empty transactional id", _id_of(side, "")


@alike
def who_begins(side: Side) -> Iterator[Said]:
    ann = Producer(side, "begins")
    yield "unknown", ann.described()
    yield "no time", ann.init(0)
    yield "less than no time", ann.init(-1)
    yield "too long", ann.init(QUARTER_OF_AN_HOUR_MS + 1)
    yield "nothing came of it", ann.described()
    yield "comes", ann.init(QUARTER_OF_AN_HOUR_MS)
    yield "described", ann.described()
    bob = ann.as_if()
    yield "another", bob.init(1)
    yield "described", bob.described()
    for version in (0, 2, 3, 4, 5):
        yield version, bob.init(version=version)


@alike
def who_goes_on(side: Side) -> Iterator[Said]:
    ann = Producer(side, "goes on", 7, 0)
    yield "never was", ann.init(goes_on=True)
    ann.init()
    yield "goes on", ann.init(goes_on=True)
    yield "has not heard", ann.as_if(epochs=-1).init(goes_on=True)
    yield "goes on", ann.init(goes_on=True)
    for version in (3, 4, 5):
        yield "long ago", ann.as_if(epochs=-2).init(goes_on=True, version=version)
        yield "in the future", ann.as_if(epochs=1).init(goes_on=True, version=version)
        yield "another id", ann.as_if(ids=1).init(goes_on=True, version=version)
    yield "no epoch", ann.as_if(epochs=-1 - ann.epoch).init(goes_on=True)
    yield "described", ann.described()


@alike
def who_goes_on_with_an_id_of_nobody(side: Side) -> Iterator[Said]:
    ann = Producer(side, "of nobody", 7_000_000, 3)
    yield ann.init(goes_on=True)
    yield ann.described()


@alike
def who_is_fenced(side: Side) -> Iterator[Said]:
    for number, (version, produce) in enumerate(BOTH):
        ann = Producer(side, f"fenced {number}")
        ann.init()
        if version == OLDER:
            yield "ann adds", ann.add((side.written.name, 0))
        yield "ann writes", ann.produce(side.written, version=produce)
        bob = ann.as_if()
        yield "bob", bob.init()[0]
        yield "described", bob.described()[:2]
        yield "ann writes", ann.produce(side.written, version=produce)
        yield "ann writes elsewhere", ann.produce(side.written, 1, version=produce)
        yield "ann ends", ann.end(version=version)
        yield "ann goes on", ann.init(goes_on=True)
        yield (
            "bob writes",
            bob.add((side.written.name, 0)),
            bob.produce(side.written, version=produce),
        )
        yield "bob ends", bob.end(version=version)


@alike
def who_is_not_who_has_the_transaction(side: Side) -> Iterator[Said]:
    group = side.group()
    ann = Producer(side, "who")
    ann.init()
    others = {
        "an earlier epoch": ann.as_if(epochs=-1),
        "a later epoch": ann.as_if(epochs=1),
        "another id": ann.as_if(ids=1),
        "another id and epoch": ann.as_if(ids=1, epochs=1),
        "another name": Producer(side, "nobody", ann.id, ann.epoch),
    }
    unnamed = Producer(side, "", ann.id, ann.epoch)
    unnamed.name = ""
    for name, other in (others | {"no name": unnamed}).items():
        for version in (1, 2, 3):
            yield name, "adds", version, other.add((side.written.name, 0), version=version)
        for version in (1, 2, 3, 4):
            yield name, "adds a group", version, other.add_group(group, version=version)
        for version in (1, 2, 4, 5):
            yield name, "ends", version, other.end(version=version)
    yield "described", ann.described()


@alike
def partitions_that_are_added(side: Side) -> Iterator[Said]:
    ann = Producer(side, "adds")
    ann.init()
    one, two = (side.written.name, 0), (side.written.name, 1)
    yield "none", ann.add()
    yield "described", ann.described()
    yield "one there is not", ann.add(one, (side.written.name, 9))
    yield "a topic there is not", ann.add(one, ("nothing", 0))
    yield "a negative one", ann.add((side.written.name, -1))
    yield "described", ann.described()
    yield "two", ann.add(one, two)
    yield "again", ann.add(one)
    yield "twice", ann.add(one, one)
    yield "described", ann.described()
    yield "end", ann.end()
    yield "described", ann.described()


@unlike("of a transaction that has ended it is not kept when it began")
def when_what_has_ended_began(side: Side) -> Iterator[Said]:
    ann = Producer(side, "began")
    ann.init()
    ann.add((side.written.name, 0))
    ann.end()
    yield ann.began()


@alike
def ends(side: Side) -> Iterator[Said]:
    for committed in (True, False):
        ann = Producer(side, f"ends {committed}")
        ann.init()
        yield "nothing", committed, ann.end(committed=committed)
        ann.add((side.written.name, 0))
        yield "something", committed, ann.end(committed=committed)
        yield "again", committed, ann.end(committed=committed)
        yield "the other way", committed, ann.end(committed=not committed)
        yield "described", ann.described()
        yield "begins anew", ann.add((side.written.name, 0))
        yield "described", ann.described()
        yield "fenced by itself", ann.init()[0]
        yield "described", ann.described()[:2]
        yield "nothing", committed, ann.end(committed=committed)


@alike
def ends_that_give_another_epoch(side: Side) -> Iterator[Said]:
    for committed in (True, False):
        ann = Producer(side, f"newer ends {committed}")
        ann.init()
        yield "commit nothing", ann.end(version=NEWER)
        yield "abort nothing", ann.end(committed=False, version=NEWER)
        yield "abort nothing again", ann.end(committed=False, version=NEWER)
        yield "described", ann.described()
        ann.add((side.written.name, 0))
        yield "something", ann.end(committed=committed, version=NEWER, again=True)
        yield "again", ann.end(committed=committed, version=NEWER, again=True)
        yield "the other way", ann.end(committed=not committed, version=NEWER, again=True)
        yield "and goes on", ann.end(committed=committed, version=NEWER)
        yield "described", ann.described()
        yield "commit nothing", ann.end(version=NEWER)
        yield "abort nothing", ann.end(committed=False, version=NEWER)
        yield "described", ann.described()


@alike
def what_is_written(side: Side) -> Iterator[Said]:
    for version in (9, 10, 11):
        ann = Producer(side, f"writes {version}")
        ann.init()
        yield "not added", ann.produce(side.written, version=version)
        yield "added", ann.add((side.written.name, 0))
        yield "written", ann.produce(side.written, version=version)
        yield "once more", ann.produce(side.written, version=version)
        yield "another not added", ann.produce(side.written, 1, version=version)
        yield "out of order", ann.produce(side.written, version=version, sequence=7)
        yield "the same again", ann.produce(side.written, version=version, sequence=1)
        yield "end", ann.end()
        yield "described", ann.described()
        yield "after it", ann.produce(side.written, version=version, sequence=2)
        yield "still", ann.described()


@alike
def what_is_written_and_joins(side: Side) -> Iterator[Said]:
    for version in (12, 13):
        ann = Producer(side, f"writes {version}")
        ann.init()
        yield "not added", ann.produce(side.written, version=version)
        yield "another", ann.produce(side.written, 1, version=version)
        yield "described", ann.described()
        was = ann.as_if()
        yield "end", ann.end(version=NEWER)
        yield "described", ann.described()
        yield "of the transaction before", was.produce(side.written, version=version, sequence=1)
        yield "of the next", ann.produce(side.written, version=version)
        yield "described", ann.described()
        yield "end", ann.end(version=NEWER, committed=False)


@alike
def what_is_written_by_others(side: Side) -> Iterator[Said]:
    for version in (9, OLDER_PRODUCE, NEWER_PRODUCE):
        ann = Producer(side, f"others {version}")
        ann.init()
        ann.add((side.written.name, 0))
        yield "a later epoch", ann.as_if(epochs=1).produce(side.written, version=version)
        yield "another id", ann.as_if(ids=1).produce(side.written, version=version)
        for where, named in enumerate((True, False), 1):
            told = ann.produce(
                side.written, where, version=version, transactional=False, named=named
            )
            yield "outside", named, told
        yield "described", ann.described()
        yield "both ways", ann.produce(side.written, version=version, sequence=0)
        yield "both ways", ann.produce(side.written, version=version, transactional=False)


@unlike("what is produced belongs to whoever has its producer id, the name is not looked at")
def what_is_written_by_another_name(side: Side) -> Iterator[Said]:
    for version in (OLDER_PRODUCE, NEWER_PRODUCE):
        ann = Producer(side, f"another name {version}")
        ann.init()
        ann.add((side.written.name, 0))
        other = Producer(side, "nobody at all", ann.id, ann.epoch)
        yield "another name", other.produce(side.written, version=version)
        yield "no name", ann.produce(side.written, version=version, named=False, sequence=1)


@alike
def what_is_written_as_nobody(side: Side) -> Iterator[Said]:
    for version in (9, OLDER_PRODUCE, NEWER_PRODUCE):
        nobody = Producer(side, f"nobody {version}", 9_000_000 + version, 0)
        yield "in a transaction", nobody.produce(side.written, version=version)
        told = nobody.produce(side.written, version=version, transactional=False, named=False)
        yield "in none", told
        later = nobody.as_if(epochs=1)
        told = later.produce(side.written, version=version, transactional=False, named=False)
        yield "a later epoch", told
        nobody.init()
        yield "is somebody", nobody.produce(side.written, version=NEWER_PRODUCE)


@alike
def who_writes(side: Side) -> Iterator[Said]:
    ann, bob = Producer(side, "writes: ann"), Producer(side, "writes: bob")
    ann.init()
    bob.init()
    one, missing, nothing = (side.written.name, 0), (side.written.name, 9), ("nothing", 0)
    yield "nobody", producers(side, [one], [ann, bob])
    yield "there is not", producers(side, [missing]), producers(side, [nothing])
    ann.add(one)
    yield "has added", producers(side, [one], [ann, bob])
    ann.produce(side.written)
    bob.produce(side.written, version=NEWER_PRODUCE)
    bob.produce(side.written, version=NEWER_PRODUCE)
    yield "both", producers(side, [one], [ann, bob])
    ann.end()
    ann.described()
    yield "ann has ended", producers(side, [one], [ann, bob])

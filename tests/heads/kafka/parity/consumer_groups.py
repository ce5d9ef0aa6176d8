"""Scenarios of consumer groups: members that come, stay and go."""

from collections.abc import Iterator, Sequence

from tests.heads.kafka.parity.compared_server import Said, Side, Topic, alike, unlike
from tests.heads.kafka.parity.group_admin import consumers_described
from tests.heads.kafka.parity.members import (
    ANN,
    BOB,
    LEAVE,
    LEAVE_FOR_A_WHILE,
    Told,
    consumer_beat,
    join_consumers,
    listed,
    since,
)
from tests.heads.kafka.parity.share_members import deleted

Owned = Sequence[tuple[Topic, Sequence[int]]]
"""Partitions by topic."""


@alike
def joining_with_too_little(side: Side) -> Iterator[Said]:
    group = side.group()
    one = [side.one]
    yield "no group", join_consumers(side, "", one)
    yield "a blank group", join_consumers(side, " ", one)
    yield "no member", join_consumers(side, group, one, "")
    yield "a blank member", join_consumers(side, group, one, " ")
    yield "an empty instance", join_consumers(side, group, one, instance="")
    yield "a blank instance", join_consumers(side, group, one, instance=" ")
    yield "an empty rack", join_consumers(side, group, one, rack="")
    yield "a blank rack", join_consumers(side, group, one, rack=" ")
    yield "no timeout", consumer_beat(side, group, topics=one, owned=())
    yield "owned unsaid", consumer_beat(side, group, topics=one, timeout_ms=60_000)
    owned = [(side.one, [0])]
    yield "owned", consumer_beat(side, group, topics=one, timeout_ms=60_000, owned=owned)
    yield "no topics", join_consumers(side, group, None)
    yield "an empty assignor", join_consumers(side, group, one, assignor="")
    yield "no such assignor", join_consumers(side, group, one, assignor="x")
    yield "nothing came of it", consumers_described(side, group), listed(side, group)


@alike
def joining_with_little(side: Side) -> Iterator[Said]:
    yield "an empty list", join_consumers(side, side.group(), [])[::2]
    yield "an empty expression", join_consumers(side, side.group(), None, regex="")[::2]
    yield "an empty list and expression", join_consumers(side, side.group(), [], regex="")[::2]
    yield "a topic there is not", join_consumers(side, side.group(), ["nothing"])[::2]
    yield "a topic twice", join_consumers(side, side.group(), [side.two, side.two])[::2]
    yield "a long id", join_consumers(side, side.group(), [side.one], "a" * 36)[0]
    yield "a short id", join_consumers(side, side.group(), [side.one], "a")[0]
    one = [side.one]
    group = side.group()
    yield (
        "an id is given",
        consumer_beat(side, group, "", topics=one, timeout_ms=1, owned=(), version=0)[::2],
    )
    yield "no time", consumer_beat(side, side.group(), topics=one, owned=(), timeout_ms=0)[::2]


@alike
def assignors(side: Side) -> Iterator[Said]:
    for name in ("uniform", "range", "Range", "cooperative-sticky"):
        group = side.group()
        told = join_consumers(side, group, [side.two], assignor=name)
        yield name, told[::2]
        yield name, consumers_described(side, group, told[1])


@alike
def regular_expressions(side: Side) -> Iterator[Said]:
    for regex in ("(", "[a", "a{2,1}", "*", "(?P<n", "\\"):
        yield regex, join_consumers(side, side.group(), None, regex=regex)
        yield regex, join_consumers(side, side.group(), [side.one], regex=regex)
    group = side.group()
    first = join_consumers(side, group, [side.one])[1]
    yield "later", since(first, consumer_beat(side, group, epoch=first, regex="("))
    yield "and still there", since(first, consumer_beat(side, group, epoch=first))


@alike
def a_heartbeat_of_no_member(side: Side) -> Iterator[Said]:
    group = side.group()
    first = join_consumers(side, group, [side.one])[1]
    for epoch in (1, 7, LEAVE, LEAVE_FOR_A_WHILE, -3):
        yield "no member", epoch, consumer_beat(side, group, BOB, epoch)[0]
        yield "no instance", epoch, consumer_beat(side, group, BOB, epoch, instance="i")[0]
        yield "not an instance", epoch, consumer_beat(side, group, "", epoch)[0]
    yield "not this instance", consumer_beat(side, group, ANN, first, instance="i")[0]


@alike
def a_consumer_of_another_epoch(side: Side) -> Iterator[Said]:
    group = side.group()
    first = join_consumers(side, group, [side.two])[1]
    owned = [(side.two, [0, 1])]

    def beat(
        epoch: int,
        topics: Sequence[Topic] | None = None,
        owned: Owned | None = None,
        timeout_ms: int = -1,
    ) -> Told:
        told = consumer_beat(
            side, group, ANN, first + epoch, topics, owned=owned, timeout_ms=timeout_ms
        )
        return since(first, told)

    yield "the same", beat(0)
    yield "the same, owned", beat(0, owned=owned)
    yield "everything", beat(0, [side.two], owned, 60_000)
    yield "all but the timeout", beat(0, [side.two], owned)
    yield "later", beat(1)
    yield "long before", beat(-first - 3)
    yield "more topics", beat(0, [side.one, side.two])
    yield "before", beat(0)
    yield "before, with nothing", beat(0, owned=())
    yield "before, with what it had", beat(0, owned=owned)
    yield "before, with what it never had", beat(0, owned=[(side.one, [5])])
    yield "shown", consumers_described(side, group, first)
    yield "fewer topics", beat(1, [side.one])
    yield "still has it", beat(1, owned=owned)
    yield "gives it up", beat(1, owned=[(side.one, [0])])
    yield "is there", beat(2)
    yield "shown", consumers_described(side, group, first)


@alike
def a_consumer_that_joins_again(side: Side) -> Iterator[Said]:
    group = side.group()
    first = join_consumers(side, group, [side.two])[1]
    yield "the same", since(first, join_consumers(side, group, [side.two]))
    yield "otherwise", since(first, join_consumers(side, group, [side.one]))
    yield "shown", consumers_described(side, group, first)
    yield "leaves", consumer_beat(side, group, epoch=LEAVE)
    yield "shown", consumers_described(side, group, first)
    yield "comes", since(first, join_consumers(side, group, [side.one]))
    yield "shown", consumers_described(side, group, first)


@alike
def two_members(side: Side) -> Iterator[Said]:
    group = side.group()
    first = join_consumers(side, group, [side.two])[1]

    def beat(member: str, epoch: int, owned: Owned | None = None) -> Told:
        return since(first, consumer_beat(side, group, member, first + epoch, owned=owned))

    both = [(side.two, [0, 1])]
    yield "ann owns", beat(ANN, 0, both)
    yield "bob", since(first, join_consumers(side, group, [side.two], BOB))
    yield "shown", consumers_described(side, group, first), listed(side, group)
    yield "ann hears", beat(ANN, 0)
    yield "shown", consumers_described(side, group, first), listed(side, group)
    yield "bob waits", beat(BOB, 1)
    yield "ann not yet", beat(ANN, 0, both)
    told = beat(ANN, 0, [(side.two, [0])])
    if told[1] == 0:
        # Which of the two it is to give up, each server decides for itself.
        told = beat(ANN, 0, [(side.two, [1])])
    yield "ann gives up", told
    yield "bob has", beat(BOB, 1)
    yield "shown", consumers_described(side, group, first), listed(side, group)
    yield "deleted", deleted(side, group)
    yield "ann leaves", consumer_beat(side, group, ANN, LEAVE)
    yield "bob has all", beat(BOB, 1)
    yield "shown", consumers_described(side, group, first)
    yield "bob leaves", consumer_beat(side, group, BOB, LEAVE)
    yield "shown", consumers_described(side, group, first), listed(side, group)
    yield "deleted", deleted(side, group)


@alike
def static_members(side: Side) -> Iterator[Said]:
    group = side.group()
    two = [side.two]
    first = join_consumers(side, group, two, instance="i")[1]
    yield "bob has it, too", join_consumers(side, group, two, BOB, instance="i")
    yield "bob says it", consumer_beat(side, group, BOB, first, instance="i")
    yield "ann without it", consumer_beat(side, group, ANN, first)[0]
    yield "ann with another", consumer_beat(side, group, ANN, first, instance="j")[0]
    yield "ann leaves without it", consumer_beat(side, group, ANN, LEAVE_FOR_A_WHILE)
    yield "ann leaves", consumer_beat(side, group, ANN, LEAVE_FOR_A_WHILE, instance="i")
    yield "shown", consumers_described(side, group, first)
    yield "ann stays", consumer_beat(side, group, ANN, first, instance="i")
    yield "bob comes", since(first, join_consumers(side, group, two, BOB, instance="i"))
    yield "shown", consumers_described(side, group, first)
    yield "ann is gone", consumer_beat(side, group, ANN, first, instance="i")
    yield "ann leaves again", consumer_beat(side, group, ANN, LEAVE, instance="i")
    yield "bob leaves", consumer_beat(side, group, BOB, LEAVE, instance="i")
    yield "shown", consumers_described(side, group, first)


@alike
def a_static_member_that_comes_back_otherwise(side: Side) -> Iterator[Said]:
    group = side.group()
    first = join_consumers(side, group, [side.two], instance="i")[1]
    yield consumer_beat(side, group, ANN, LEAVE_FOR_A_WHILE, instance="i")
    yield since(first, join_consumers(side, group, [side.one], BOB, instance="i"))
    yield consumers_described(side, group, first)
    yield consumer_beat(side, group, BOB, LEAVE_FOR_A_WHILE, instance="i")
    yield since(first, join_consumers(side, group, [side.one], BOB, instance="i"))
    yield consumers_described(side, group, first)


@alike
def consumer_groups_there_are_not(side: Side) -> Iterator[Said]:
    yield "no group", consumers_described(side, side.group())
    yield "no name", consumers_described(side, "")


@alike
def a_member_that_wants_something_else(side: Side) -> Iterator[Said]:
    group = side.group()
    first = join_consumers(side, group, [side.one])[1]
    yield "no such assignor", consumer_beat(side, group, epoch=first, assignor="x")
    yield "another rack", since(first, consumer_beat(side, group, epoch=first, rack="there"))
    yield "shown", consumers_described(side, group, first)
    yield "no topics", since(first, consumer_beat(side, group, epoch=first, topics=[]))
    yield "shown", consumers_described(side, group, first)
    yield "gives it up", since(first, consumer_beat(side, group, epoch=first, owned=()))
    yield "shown", consumers_described(side, group, first)


@unlike("another assignor assigns anew at once, not only when something else changes")
def a_member_that_wants_another_assignor(side: Side) -> Iterator[Said]:
    group = side.group()
    first = join_consumers(side, group, [side.one])[1]
    yield since(first, consumer_beat(side, group, epoch=first, assignor="range"))

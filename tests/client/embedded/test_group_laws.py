"""Group members in random order: no event is lost, and none is processed twice."""

from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from mainstem.broker.broker import Broker
from mainstem.client.embedded.feed import Feed
from mainstem.client.subscription import SubscriptionOptions
from mainstem.core.event import Event
from mainstem.core.topic_settings import TopicSettings
from mainstem.log.memory import MemoryLog

PARTITIONS = 3


class Step(NamedTuple):
    """One thing that happens; what it happens to is chosen by a number."""

    deed: str
    number: int


STEPS = st.lists(
    st.builds(
        Step,
        st.sampled_from(
            ["publish", "publish", "join", "take", "take", "many", "commit", "leave", "vanish"]
        ),
        st.integers(0, 5),
    ),
    max_size=60,
)


def nothing() -> None:
    return None


def run(steps: list[Step], *, clean: bool) -> tuple[list[bytes], list[bytes]]:
    """Let members do what the steps say; return what was published, and what was given out."""
    broker = Broker(MemoryLog(), now_ms=lambda: 1000)
    broker.create_topic("n", TopicSettings(partitions=PARTITIONS))
    options = SubscriptionOptions(topics=("n",), group="g", commit_s=3600)
    published: list[bytes] = []
    seen: list[bytes] = []
    members: list[Feed] = []
    for deed, number in steps:
        member = members[number % len(members)] if members else None
        if deed == "publish":
            value = b"%d" % len(published)
            published.append(value)
            broker.publish("n", [Event(value)], number % PARTITIONS)
        elif deed == "join":
            members.append(Feed(broker, options, nothing, lambda: 1000))
        elif member is None:
            continue
        elif deed == "take":
            event = member.take()
            seen += [event.value or b""] if event else []
        elif deed == "many":
            seen += [event.value or b"" for event in member.take_many(number + 1)]
        elif deed == "commit":
            member.commit()
        else:
            members.remove(member)
            member.close(finished=clean or deed == "leave")
    for member in members:
        member.close(finished=True)
    last = Feed(broker, options, nothing, lambda: 1000)
    seen += [event.value or b"" for event in last.take_many(10_000)]
    last.close(finished=True)
    assert broker.lag("g") == () or sum(each.lag for each in broker.lag("g")) == 0
    return published, seen


@given(STEPS)
@settings(max_examples=300)
def test_members_that_close_see_every_event_exactly_once(steps: list[Step]) -> None:
    published, seen = run(steps, clean=True)

    assert sorted(seen) == sorted(published)


@given(STEPS)
@settings(max_examples=300)
def test_members_that_vanish_see_every_event_at_least_once(steps: list[Step]) -> None:
    published, seen = run(steps, clean=False)

    assert set(seen) == set(published)


@given(STEPS, st.integers(0, 2))
@settings(max_examples=100)
def test_a_partition_is_given_out_in_order(steps: list[Step], partition: int) -> None:
    here = [step for step in steps if step.deed != "publish" or step.number % 3 == partition]

    published, seen = run(here, clean=True)

    assert seen == published

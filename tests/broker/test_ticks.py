"""Deadlines that pass together are handled in bounded portions, so that nothing else waits long."""

from collections.abc import Callable

import pytest
from tests.broker.brokers import Clock, new_broker
from tests.broker.groups.classic.consumers import Room

from mainstem.broker.broker import Broker
from mainstem.broker.deadlines import MAX_AT_ONCE
from mainstem.broker.groups.consumer.heartbeat import Heartbeat
from mainstem.broker.groups.consumer.records import NOTHING
from mainstem.core.topic_settings import TopicSettings

COUNT = 2 * MAX_AT_ONCE + 10
MONTH_MS = 30 * 86_400_000


def silent_members(broker: Broker, clock: Clock) -> Callable[[], int]:
    for number in range(COUNT):
        beat = Heartbeat(
            group="g",
            member_id=f"m{number}",
            epoch=0,
            rebalance_timeout_ms=1_000,
            names=("t",),
            owned=NOTHING,
        )
        broker.consumers.heartbeat(beat)
    clock.now_ms += 60_000
    return lambda: broker.consumers.fold.members


def silent_classic_members(broker: Broker, clock: Clock) -> Callable[[], int]:
    room = Room(broker, clock)
    for _ in range(COUNT):
        room.join(takes_id_first=True)
    clock.now_ms += 60_000
    return lambda: broker.classic._rebalances.sessions.count


def forgotten_groups(broker: Broker, clock: Clock) -> Callable[[], int]:
    room = Room(broker, clock)
    for number in range(COUNT):
        joined = room.join(group=f"g{number}").answer
        broker.classic.leave(f"g{number}", [(joined.member_id, None)])
    clock.now_ms += 3_600_000
    return lambda: len(broker.classic.names())


def unused_ids(broker: Broker, clock: Clock) -> Callable[[], int]:
    for number in range(COUNT):
        broker.transactions.begin(f"id{number}", 60_000)
    clock.now_ms += MONTH_MS
    return lambda: len(broker.transactions.completion.fold.transactions)


@pytest.mark.parametrize(
    "given", [silent_members, silent_classic_members, forgotten_groups, unused_ids]
)
def test_much_that_is_due_at_once_is_done_in_turns(
    given: Callable[[Broker, Clock], Callable[[], int]],
) -> None:
    clock = Clock()
    broker = new_broker(clock=clock)
    broker.create_topic("t", TopicSettings())
    left = given(broker, clock)
    assert left() == COUNT

    broker.tick()

    assert left() == COUNT - MAX_AT_ONCE
    assert broker.wait_ms() == 0
    broker.tick()
    broker.tick()
    assert left() == 0
    assert broker.wait_ms() != 0

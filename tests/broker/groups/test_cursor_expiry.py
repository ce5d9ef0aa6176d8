"""Cursors of groups without members expire, as with Kafka's offsets.retention.minutes."""

import pytest
from tests.broker.brokers import Clock, FullLog, new_broker
from tests.broker.groups.classic.consumers import Room
from tests.broker.transactions.transactional_producers import Bank

from mainstem.broker.broker import Broker
from mainstem.broker.groups import cursor_expiry
from mainstem.broker.groups.classic.coordinator import Membership
from mainstem.broker.groups.cursor_expiry import CHECK_INTERVAL_MS
from mainstem.broker.groups.cursors import Cursor
from mainstem.broker.groups.limits import GroupLimits
from mainstem.log.memory import MemoryLog

RETENTION_MS = GroupLimits().cursor_retention_ms
PLACE = ("orders", 0)


def pass_time(broker: Broker, clock: Clock, for_ms: int) -> None:
    """Let time pass as a node's clock does: ``tick`` is called whenever something is due."""
    end_ms = clock.now_ms + for_ms
    while (wait_ms := broker.wait_ms()) is not None and clock.now_ms + wait_ms <= end_ms:
        clock.now_ms += wait_ms
        broker.tick()
    clock.now_ms = end_ms


def names(broker: Broker) -> list[str]:
    return [group.name for group in broker.groups()]


def lives_for_its_retention(group: str, broker: Broker, clock: Clock) -> None:
    pass_time(broker, clock, RETENTION_MS)
    assert names(broker) == [group]
    pass_time(broker, clock, 2 * CHECK_INTERVAL_MS)

    assert names(broker) == []


def test_cursors_expire_when_nothing_was_committed_for_the_retention_time() -> None:
    clock = Clock()
    broker = new_broker(clock=clock)
    broker.create_topic("orders")
    broker.commit("gone", {PLACE: 0})
    broker.commit("used", {PLACE: 0})

    pass_time(broker, clock, RETENTION_MS // 2)
    broker.commit("used", {PLACE: 0})
    pass_time(broker, clock, RETENTION_MS // 2)
    assert names(broker) == ["gone", "used"]
    pass_time(broker, clock, 2 * CHECK_INTERVAL_MS)
    assert names(broker) == ["used"]
    pass_time(broker, clock, RETENTION_MS)

    assert names(broker) == []
    assert broker.wait_ms() is None


def test_cursors_of_a_group_with_members_stay_and_expire_after_the_last_has_left() -> None:
    clock = Clock()
    broker = new_broker(clock=clock)
    broker.create_topic("orders")
    member = broker.join("live", ["orders"], lambda: None)
    member.commit({member.assignment().owned[0]: 0})

    pass_time(broker, clock, 3 * RETENTION_MS)
    assert names(broker) == ["live"]
    member.leave()
    lives_for_its_retention("live", broker, clock)


def test_members_between_two_checks_count_though_they_commit_nothing() -> None:
    clock = Clock()
    broker = new_broker(clock=clock)
    broker.create_topic("orders")
    broker.commit("rare", {PLACE: 0})

    pass_time(broker, clock, RETENTION_MS - CHECK_INTERVAL_MS // 2)
    broker.join("rare", ["orders"], lambda: None).leave()
    lives_for_its_retention("rare", broker, clock)


def test_members_before_a_restart_count_though_they_do_not_come_back() -> None:
    clock, log = Clock(), MemoryLog()
    room = Room(new_broker(log, clock), clock)
    room.broker.create_topic("orders")
    (joined,) = room.stable(1)
    who = Membership(joined.member_id, joined.generation)
    room.groups.commit("g", who, {PLACE: Cursor(0, clock.now_ms - 2 * RETENTION_MS)})

    broker = new_broker(log, clock)
    lives_for_its_retention("g", broker, clock)


def test_what_a_full_disk_does_not_take_expires_with_the_next_check() -> None:
    clock, log = Clock(), FullLog()
    broker = new_broker(log, clock)
    broker.create_topic("orders")
    broker.commit("gone", {PLACE: 0})

    log.is_full = True
    pass_time(broker, clock, RETENTION_MS + 2 * CHECK_INTERVAL_MS)
    assert names(broker) == ["gone"]
    log.is_full = False
    pass_time(broker, clock, CHECK_INTERVAL_MS)

    assert names(broker) == []
    assert names(new_broker(log, clock)) == []


def test_many_cursors_are_checked_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cursor_expiry, "_CURSORS_AT_ONCE", 10)
    clock = Clock()
    broker = new_broker(clock=clock)
    broker.create_topic("orders")
    for number in range(25):
        broker.commit(f"gone-{number}", {PLACE: 0})
    clock.now_ms += RETENTION_MS + CHECK_INTERVAL_MS

    left = []
    for _ in range(3):
        assert broker.wait_ms() == 0
        broker.tick()
        left.append(len(names(broker)))

    assert left == [15, 5, 0]


def test_a_cursor_that_a_transaction_is_going_to_move_does_not_expire() -> None:
    bank = Bank()
    bank.broker.commit("g", {("t", 0): 0})
    teller = bank.begin()
    bank.broker.transactions.add_group(teller.name, teller.who, "g")
    cursors = {("t", 0): Cursor(0, bank.clock.now_ms)}
    bank.broker.transactions.commit_cursors(teller.name, teller.who, "g", Membership(), cursors)

    bank.clock.now_ms += RETENTION_MS + CHECK_INTERVAL_MS
    bank.broker._cursor_expiry.tick()

    assert names(bank.broker) == ["g"]


def test_whoever_waits_for_deadlines_is_told_of_the_first_cursor() -> None:
    broker = new_broker()
    broker.create_topic("orders")
    told: list[str] = []
    broker.when_due_earlier(lambda: told.append("earlier"))

    broker.commit("first", {PLACE: 0})

    assert told == ["earlier"]
    assert broker.wait_ms() == CHECK_INTERVAL_MS

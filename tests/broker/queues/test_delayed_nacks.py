"""Nacked events with a delay do not hold up later events."""

import pytest
from tests.broker.queues.queue_consumers import Desk

from mainstem.broker.queues import delivery_state


def test_many_delayed_events_do_not_hold_up_those_behind_them() -> None:
    desk = Desk(max_unsettled=3)
    desk.publish(*[b"%d" % number for number in range(30)])

    for _ in range(9):
        failed = desk.acquire(3)
        assert len(failed) == 3
        desk.nack(*failed, delay_ms=60_000)
    desk = desk.restarted()

    last = desk.acquire(100)
    assert [each.event.value for each in last] == [b"27", b"28", b"29"]
    desk.ack(*last)
    desk.clock.now_ms += 60_000
    assert desk.values() == [b"%d" % number for number in range(27)]


def test_very_many_delayed_events_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery_state, "MAX_DELAYED", 4)
    desk = Desk(max_unsettled=3)
    desk.publish(*[b"%d" % number for number in range(30)])

    while failed := desk.acquire(3):
        desk.nack(*failed, delay_ms=60_000)

    desk.clock.now_ms += 60_000
    assert len(desk.values()) == 7

"""Events are moved from a queue to another topic in one append: all of a batch, or none."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.broker.brokers import read_all, values
from tests.broker.queues.queue_consumers import Desk

import mainstem
from mainstem.broker.queues.records import Order, QueueSettings
from mainstem.core.errors import InvalidSetting, MainstemError, Overloaded, UnknownTopic
from mainstem.core.event import Event
from mainstem.core.topic_settings import Overload, TopicSettings
from mainstem.node.queue_move import move_events

MOVER = """
import sys, mainstem
with mainstem.open(sys.argv[1]) as stem:
    while stem.queues.move("orders", "emails", "later", limit=7):
        print("moved", flush=True)
"""


def move(desk: Desk, to: str = "later", limit: int = 100) -> int:
    return move_events(desk.broker, "orders", "emails", to, limit, desk.clock)


def as_sent(event: Event) -> tuple[object, ...]:
    return event.value, event.key, event.headers, event.timestamp_ms


def test_events_keep_order_key_headers_and_time() -> None:
    desk = Desk()
    desk.broker.create_topic("later", TopicSettings())
    sent = [
        Event(b"%d" % number, b"k", (("mainstem-id", b"%d" % number), ("n", None)), 1_000 + number)
        for number in range(5)
    ]
    desk.broker.publish("orders", sent)
    first, *_ = desk.acquire()

    assert (move(desk, limit=3), move(desk), move(desk)) == (3, 1, 0)

    found = [
        (it.value, it.key, it.headers, it.timestamp_ms) for it in read_all(desk.broker, "later")
    ]
    assert found == [(it.value, it.key, it.headers, it.timestamp_ms) for it in sent[1:]]
    desk.nack(first)
    assert desk.values() == [b"0"]


def test_a_queue_with_priorities_gets_each_event_by_its_own() -> None:
    desk = Desk()
    desk.broker.create_topic("later", TopicSettings(partitions=3))
    desk.queues.create("later", "later", QueueSettings(order=Order.PRIORITY))
    for priority in (b"1", b"9", b"", b"x", b"1"):
        desk.broker.publish("orders", [Event(priority, headers=(("priority", priority),))])

    assert move(desk) == 5

    placed = [values(read_all(desk.broker, "later", partition)) for partition in range(3)]
    assert placed == [[b"", b"x"], [b"1", b"1"], [b"9"]]


@pytest.mark.parametrize(("to", "error"), [("nothing", UnknownTopic), ("orders", InvalidSetting)])
def test_what_cannot_be_moved_is_not_delivered(to: str, error: type[MainstemError]) -> None:
    desk = Desk()
    desk.publish(b"1")

    with pytest.raises(error):
        move(desk, to)

    (delivery,) = desk.acquire()
    assert delivery.count == 1


@pytest.mark.parametrize("overload", [Overload.DROP_NEWEST, Overload.BACKPRESSURE])
def test_a_full_destination_refuses_them_and_they_are_given_back(overload: Overload) -> None:
    desk = Desk()
    full = TopicSettings(max_backlog=1, overload=overload, hold_ms=1)
    desk.broker.create_topic("later", full)
    desk.queues.create("later", "readers")
    desk.broker.publish("later", [Event(b"0")])
    desk.publish(b"1", b"2")

    with pytest.raises(Overloaded):
        move(desk)

    assert values(read_all(desk.broker, "later")) == [b"0"]
    assert [(it.event.value, it.count) for it in desk.acquire(5)] == [(b"1", 1), (b"2", 1)]


@pytest.mark.parametrize("moves", [1, 2, 5])
def test_a_kill_between_two_moves_neither_loses_nor_duplicates(tmp_path: Path, moves: int) -> None:
    sent = [b"%d" % number for number in range(200)]
    with mainstem.open(tmp_path) as stem:
        stem.topics.create("later")
        stem.publish_many("orders", sent)
        stem.queue("orders", name="emails").close()

    mover = subprocess.Popen([sys.executable, "-c", MOVER, tmp_path], stdout=subprocess.PIPE)
    assert mover.stdout is not None
    for _ in range(moves):
        assert mover.stdout.readline() == b"moved\n"
    os.kill(mover.pid, signal.SIGKILL)
    mover.wait()
    mover.stdout.close()

    with mainstem.open(tmp_path) as stem:
        moved = [each.value for each in stem.subscribe("later", follow=False)]
        left = [each.event.value for each in stem.queues.peek("orders", "emails", 500)]
    assert len(moved) >= 7 * moves
    assert moved + left == sent

"""The dispatcher: by credit, priority and round robin, without waking idle consumers."""

import threading
from collections.abc import Collection

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.broker.queues.queue_consumers import LOCK_MS, Desk
from tests.heads.dispatcher_on_broker import Room

from mainstem.broker.callbacks import Callback
from mainstem.broker.queues.records import Outcome
from mainstem.core.errors import StorageFull, UnknownQueue, UnknownTopic
from mainstem.heads.dispatcher import LARGEST_PORTION, TURN_EVENTS, TURN_S


@pytest.fixture
def room() -> Room:
    return Room(Desk())


def test_what_is_there_already_is_handed_out(room: Room) -> None:
    room.desk.publish(b"1", b"2")
    ann = room.taker("ann", 10)

    room.run()

    assert ann.got == [b"1", b"2"]
    assert ann.consumer.credit == 8


def test_what_is_published_later_is_handed_out(room: Room) -> None:
    ann = room.taker("ann")
    room.run()

    room.desk.publish(b"1")
    room.run()
    room.desk.publish(b"2", b"3")
    room.run()

    assert ann.got == [b"1", b"2", b"3"]


def test_nobody_is_given_more_than_its_credit(room: Room) -> None:
    ann = room.taker("ann", 2)
    room.desk.publish(b"1", b"2", b"3", b"4", b"5")
    room.run()
    assert ann.got == [b"1", b"2"]

    ann.consumer.add_credit(2)
    room.run()

    assert ann.got == [b"1", b"2", b"3", b"4"]
    assert ann.consumer.credit == 0


def test_consumers_of_a_session_share_its_credit(room: Room) -> None:
    session = room.dispatcher.session(3)
    ann, bob = room.taker("ann", session=session), room.taker("bob", 2, session=session)
    room.desk.publish(*[b"%d" % number for number in range(10)])
    room.run()
    assert len(ann.got) + len(bob.got) == 3

    session.add_credit(4)
    room.run()

    assert len(ann.got) + len(bob.got) == 7
    assert len(bob.got) == 2
    assert session.credit == 0


def test_consumers_of_a_session_on_two_queues_have_turns(room: Room) -> None:
    room.desk.queues.create("orders", "texts")
    session = room.dispatcher.session(1)
    ann, bob = room.taker("ann", session=session), room.taker("bob", session=session, queue="texts")
    room.desk.publish(*[b"%d" % number for number in range(10)])
    room.run()

    for _ in range(5):
        session.add_credit(1)
        room.run()

    assert (len(ann.got), len(bob.got)) == (3, 3)


@pytest.mark.parametrize("burst", [1, 3])
def test_equals_have_turns(room: Room, burst: int) -> None:
    takers = [room.taker(name) for name in ("ann", "bob", "cid")]
    room.run()

    for number in range(6):
        room.desk.publish(*[b"%d" % number] * burst)
        room.run()

    assert [len(each.got) for each in takers] == [2 * burst] * 3


def test_many_events_are_handed_out_in_portions_that_grow(room: Room) -> None:
    room.desk.publish(*[b"."] * 700)
    takers = [room.taker(name) for name in ("ann", "bob")]

    room.run()

    portions = [count for name, count in room.asked if name == "ann" and count]
    assert portions[:7] == [1, 2, 4, 8, 16, 32, 64]
    assert max(portions) == LARGEST_PORTION
    assert sum(len(each.got) for each in takers) == 700
    assert abs(len(takers[0].got) - len(takers[1].got)) <= LARGEST_PORTION


def test_the_highest_priority_is_served_first_as_far_as_its_credit_goes(room: Room) -> None:
    low, high = room.taker("low"), room.taker("high", 3, priority=5)
    room.desk.publish(*[b"%d" % number for number in range(5)])
    room.run()

    assert high.got == [b"0", b"1", b"2"]
    assert low.got == [b"3", b"4"]


def test_one_event_does_not_make_a_crowd_look(room: Room) -> None:
    takers = [room.taker(f"taker {number}") for number in range(100)]
    room.run()
    room.asked.clear()

    room.desk.publish(b"1")
    room.run()

    assert len(room.asked) <= 2
    assert sum(len(each.got) for each in takers) == 1


def test_a_crowd_has_few_watches(room: Room) -> None:
    watches, watch = [], room.desk.queues.watch

    def counted(
        topic: str, name: str, wake: Callback, partitions: Collection[int] | None
    ) -> Callback:
        watches.append(partitions)
        return watch(topic, name, wake, partitions)

    room.dispatcher.watch = counted
    for number in range(100):
        room.taker(f"taker {number}")
    room.run()

    assert watches == [(), None]


def test_a_turn_ends_after_so_many_events_and_others_go_first(room: Room) -> None:
    ann = room.taker("ann")
    room.run()
    room.desk.publish(*[b"."] * 2 * TURN_EVENTS)

    room.turn()
    assert len(ann.got) == TURN_EVENTS
    room.run()
    assert len(ann.got) == 2 * TURN_EVENTS


def test_a_turn_ends_after_so_long_and_goes_on_with_the_next(room: Room) -> None:
    takers = [room.taker(name) for name in ("ann", "bob", "cid", "dan")]
    room.desk.publish(*[b"%d" % number for number in range(8)])
    room.taking_s = TURN_S * 0.6

    room.turn()
    assert [len(each.got) for each in takers] == [1, 1, 0, 0]
    room.turn()
    assert [len(each.got) for each in takers] == [1, 1, 1, 1]
    room.run()
    assert sum(len(each.got) for each in takers) == 8


def test_who_is_paused_is_given_nothing_until_it_resumes(room: Room) -> None:
    ann, bob = room.taker("ann"), room.taker("bob")
    ann.consumer.pause()
    room.desk.publish(b"1", b"2", b"3")
    room.run()
    assert (ann.got, len(bob.got)) == ([], 3)

    bob.consumer.pause()
    room.desk.publish(b"4")
    room.run()
    ann.consumer.resume()
    room.run()

    assert (ann.got, len(bob.got)) == ([b"4"], 3)


def test_who_pauses_itself_instead_of_taking_is_asked_again_when_it_resumes(room: Room) -> None:
    asked: list[int] = []
    allowed = False

    def take(limit: int) -> int:
        asked.append(limit)
        if allowed:
            return len(room.desk.queues.acquire("orders", "emails", "ann", max_events=limit))
        consumer.pause()
        return 0

    consumer = room.dispatcher.consume("orders", "emails", take, gone=lambda _: None, credit=None)
    room.desk.publish(b"1")
    room.run()
    assert len(asked) == 1

    allowed = True
    consumer.resume()
    room.run()

    assert len(asked) > 1
    assert room.desk.queues.show("orders", "emails").owners == {"ann": 1}


def test_what_one_gives_back_another_is_given(room: Room) -> None:
    ann, bob = room.taker("ann", 1), room.taker("bob", 1)
    room.desk.publish(b"1")
    room.run()
    assert (ann.got, bob.got) == ([b"1"], [])

    ann.settle(Outcome.RELEASE)
    room.run()

    assert bob.got == [b"1"]


def test_what_one_has_held_for_too_long_another_is_given(room: Room) -> None:
    room.taker("ann", 1)
    bob = room.taker("bob", 1)
    room.desk.publish(b"1")
    room.run()
    assert bob.got == []

    room.desk.clock.now_ms += LOCK_MS
    room.desk.broker.tick()
    room.run()

    assert bob.got == [b"1"]


def test_room_in_a_full_window_is_used() -> None:
    room = Room(Desk(max_unsettled=2))
    ann = room.taker("ann")
    room.desk.publish(b"1", b"2", b"3")
    room.run()
    assert ann.got == [b"1", b"2"]

    ann.settle(Outcome.ACK, 1)
    room.run()

    assert ann.got == [b"1", b"2", b"3"]


def test_who_is_closed_is_given_nothing_and_nothing_is_watched_for_it(room: Room) -> None:
    ann, bob = room.taker("ann"), room.taker("bob")
    room.run()

    ann.consumer.close()
    room.desk.publish(b"1")
    room.run()
    bob.consumer.close()
    room.desk.publish(b"2")

    assert (ann.got, bob.got) == ([], [b"1"])
    assert not room.calls
    assert len(room.dispatcher) == 0


def test_one_that_takes_once_makes_way_for_the_next(room: Room) -> None:
    takers = [room.taker(name) for name in ("ann", "bob", "cid")]
    for each in takers:
        each.once = True
    room.run()

    for number in range(3):
        room.desk.publish(b"%d" % number)
        room.run()

    assert [each.got for each in takers] == [[b"0"], [b"1"], [b"2"]]
    assert len(room.dispatcher) == 0


@pytest.mark.parametrize("credit", [0, 5])
def test_who_waits_is_told_when_the_queue_is_deleted(room: Room, credit: int) -> None:
    ann = room.taker("ann", credit)
    room.run()

    room.desk.queues.delete("orders", "emails")
    room.run()

    (error,) = ann.told
    assert isinstance(error, UnknownQueue)
    assert ann.consumer.is_closed
    assert len(room.dispatcher) == 0


@pytest.mark.parametrize("credit", [0, 5])
def test_who_waits_is_told_when_the_topic_is_deleted(room: Room, credit: int) -> None:
    ann = room.taker("ann", credit)
    room.run()

    room.desk.broker.delete_topic("orders")
    room.run()

    (error,) = ann.told
    assert isinstance(error, UnknownTopic)


@pytest.mark.parametrize("credit", [0, 5])
def test_who_names_no_queue_is_told_so(room: Room, credit: int) -> None:
    ann = room.taker("ann", credit, queue="nothing")

    room.run()

    assert isinstance(ann.told[0], UnknownQueue)


def test_who_fails_to_take_is_told_and_the_others_go_on(room: Room) -> None:
    ann, bob = room.taker("ann"), room.taker("bob")

    def fail(limit: int) -> int:
        raise StorageFull(f"no room for {limit}")

    ann.consumer.take = fail
    room.desk.publish(b"1", b"2")
    room.run()

    assert isinstance(ann.told[0], StorageFull)
    assert bob.got == [b"1", b"2"]


def test_a_bug_in_one_consumer_does_not_stop_the_others(room: Room) -> None:
    ann, bob = room.taker("ann"), room.taker("bob")
    ann.consumer.take = lambda limit: limit // 0
    room.desk.publish(b"1", b"2")
    room.run()

    assert "has failed" in str(ann.told[0])
    assert bob.got == [b"1", b"2"]


def test_nothing_is_handed_out_once_the_server_stops(room: Room) -> None:
    ann = room.taker("ann")
    room.run()

    room.dispatcher.stop()
    room.desk.publish(b"1")
    room.run()

    assert ann.got == []


def test_who_takes_without_waiting_lets_those_go_first_who_wait(room: Room) -> None:
    ann = room.taker("ann")
    room.run()
    room.desk.publish(b"1", b"2")

    assert room.dispatcher.go_first("orders", "emails")

    assert ann.got == [b"1", b"2"]
    assert room.dispatcher.go_first("orders", "nothing that anybody waits for")


def test_who_takes_without_waiting_has_to_wait_if_there_is_more_for_others(room: Room) -> None:
    room.taker("ann")
    room.run()
    room.desk.publish(*[b"."] * (TURN_EVENTS + 1))

    assert not room.dispatcher.go_first("orders", "emails")
    room.run()
    assert room.dispatcher.go_first("orders", "emails")


def test_only_partitions_that_somebody_wants_are_looked_at() -> None:
    room = Room(Desk(partitions=3))
    takers = [room.taker(name, partitions=[at]) for at, name in enumerate(("ann", "bob"))]
    room.run()
    room.asked.clear()

    room.desk.publish(b"1", partition=2)
    room.run()
    assert room.asked == []

    room.desk.publish(b"2", partition=1)
    room.run()
    assert [each for each in room.asked if each[1]] == [("bob", 1)]
    assert all(each.told == [] for each in takers)


def test_who_wants_a_partition_that_nobody_looked_at_is_given_what_is_there() -> None:
    room = Room(Desk(partitions=2))
    room.desk.publish(b"1", partition=1)
    room.taker("ann", partitions=[0])
    room.run()

    bob = room.taker("bob", partitions=[1])
    room.run()

    assert bob.count == 1


def test_what_is_published_after_the_end_was_cut_off_is_handed_out(room: Room) -> None:
    ann = room.taker("ann")
    room.desk.publish(b"1", b"2", b"3", b"4")
    room.run()
    ann.settle(Outcome.ACK)

    room.desk.broker.truncate("orders", 0, 1)
    room.desk.publish(b"5")
    room.run()

    assert ann.got[4:] == [b"5"]


def test_partitions_that_are_added_are_taken_from(room: Room) -> None:
    ann = room.taker("ann")
    room.run()

    room.desk.broker.alter_topic("orders", partitions=2)
    room.run()
    room.desk.publish(b"1", partition=1)
    room.run()

    assert ann.got == [b"1"]


def test_events_of_many_threads_are_all_handed_out(room: Room) -> None:
    takers = [room.taker(name) for name in ("ann", "bob")]

    def publish() -> None:
        for _ in range(200):
            room.desk.publish(b".")

    threads = [threading.Thread(target=publish) for _ in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        room.run()
    room.run()

    assert sum(len(each.got) for each in takers) == 800


@settings(deadline=None, max_examples=50)
@given(
    counts=st.lists(st.integers(1, 7), min_size=1, max_size=12),
    takers=st.integers(1, 5),
)
def test_equals_are_given_as_much_as_each_other(counts: list[int], takers: int) -> None:
    room = Room(Desk())
    crowd = [room.taker(f"taker {number}") for number in range(takers)]
    room.run()

    for count in counts:
        room.desk.publish(*[b"."] * count)
        room.run()

    got = [len(each.got) for each in crowd]
    # Portions double within a turn, so that one may be a portion ahead after each of them.
    assert sum(got) == sum(counts)
    assert takers == 1 or max(got) - min(got) <= sum(range(4))

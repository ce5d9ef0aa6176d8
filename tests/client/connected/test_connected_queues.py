"""Queues over the network: the differences from embedded ones, and the server's part."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event

import pytest
from tests.client.every_stem.stems import in_thread
from tests.in_process_server import server, serving

import mainstem
from mainstem.client.connected import queue as connected_queue
from mainstem.client.connected.admin_api import queues_at
from mainstem.client.connected.delivery import ConnectedDelivery
from mainstem.client.connected.queue_end import QueueEnd
from mainstem.client.connected.stem import ConnectedStem
from mainstem.client.stem import Delivery, Queue
from mainstem.core.dead_letters import origin_of
from mainstem.core.errors import (
    Closed,
    GroupIsLive,
    InvalidSetting,
    StaleDelivery,
    UnknownQueue,
    UnknownTopic,
    Unreachable,
    Unsupported,
)
from mainstem.node.server import Running
from mainstem.remote.admin_address import AdminPort

PATIENCE_S = 30


@pytest.fixture
def stem(served: Running) -> Iterator[ConnectedStem]:
    with mainstem.connect(str(served.kafka)) as found:
        found.topics.create("orders", partitions=1)
        yield found


def one(queue: Queue) -> Delivery:
    found = queue.poll(PATIENCE_S)
    assert found is not None
    return found


def test_a_batch_is_not_taken_whole_by_who_asks_for_one_event(stem: ConnectedStem) -> None:
    stem.publish_many("orders", range(100))

    with stem.queue("orders", name="emails") as queue:
        one(queue)

        info = stem.queues.show("orders", "emails")
        assert (info.out, info.ready) == (1, 99)
        assert len(queue.poll_many(10, PATIENCE_S)) == 10
        assert stem.queues.show("orders", "emails").out == 11


def test_who_is_quick_is_given_many_and_none_of_them_is_left_when_it_is_slow(
    stem: ConnectedStem,
) -> None:
    stem.publish_many("orders", range(500))
    found = []

    with stem.queue("orders", name="emails", follow=False) as queue:
        for delivery in queue:
            with delivery as event:
                found.append(event.json())
        members = stem.queues.show("orders", "emails").consumers

    assert found == list(range(500))
    assert members == {}


def test_nothing_that_nobody_saw_becomes_a_dead_letter_however_many_work_for_however_long(
    stem: ConnectedStem,
) -> None:
    lock_s, workers, turns = 1.0, 20, 8
    stem.publish_many("orders", range(2 * workers * turns))
    seen: set[int] = set()

    with stem.queue("orders", name="emails", max_deliveries=3, lock_s=lock_s) as queue:

        def work() -> None:
            for _ in range(turns):
                # Who comes too late is told so, and the event comes again.
                with suppress(StaleDelivery), one(queue) as event:
                    seen.add(event.json())
                    Event().wait(0.6 * lock_s)

        for thread in [in_thread(work) for _ in range(workers)]:
            thread.join(PATIENCE_S)

    assert len(seen) > workers
    if stem.topics.list("orders.dead"):
        assert {letter.json() for letter in stem.subscribe("orders.dead", follow=False)} <= seen


def test_where_many_are_held_at_once_members_make_room_for_those_who_ask_for_one(
    stem: ConnectedStem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connected_queue, "_MOST_MEMBERS", 2)
    stem.publish_many("orders", range(100))

    with stem.queue("orders", name="emails") as queue:
        for limit in (10, 20, 30, 1):
            queue.ack_many(queue.poll_many(limit, PATIENCE_S))

        info = stem.queues.show("orders", "emails")
        assert len(info.consumers) <= 2
        assert (info.ready, info.out) == (100 - 10 - 20 - 20 - 1, 0)


def test_a_delivery_that_took_too_long_is_refused_and_comes_again(stem: ConnectedStem) -> None:
    stem.publish("orders", 1)

    with stem.queue("orders", name="emails", lock_s=1) as queue:
        late = one(queue)
        again = one(queue)

        assert again.count == 2
        for settle in (late.ack, late.nack, late.reject):
            with pytest.raises(StaleDelivery, match="orders\\[0\\]@0"):
                settle()
        again.ack()


def test_who_holds_as_much_as_can_be_waits_until_a_lock_runs_out(
    stem: ConnectedStem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connected_queue, "_MOST_MEMBERS", 1)
    stem.publish("orders", 1)

    with stem.queue("orders", name="emails", lock_s=1) as queue:
        one(queue)
        assert queue.poll(0) is None
        assert one(queue).count == 2
    with stem.queue("orders", name="emails", follow=False) as queue:
        assert [delivery.count for delivery in queue] == [3]


def test_a_loop_ends_when_all_is_settled_or_out_and_not_when_a_poll_was_in_vain() -> None:
    left, ready = 3, 2
    end = QueueEnd(lambda: left, lambda: ready)

    assert not end.is_here(lambda: 2, was_given=True)
    assert end.is_here(lambda: 3, was_given=True)
    ready = 0
    # What was given to a member here just now is not ready either: it is looked at twice.
    assert [end.is_here(lambda: 2, was_given=True) for _ in range(2)] == [False, True]
    assert not QueueEnd(lambda: None, lambda: None).is_here(lambda: 0, was_given=False)


def test_the_lock_of_a_queue_that_was_made_in_the_directory_is_known(tmp_path: Path) -> None:
    with mainstem.open(tmp_path) as stem:
        stem.publish("orders", 1)
        stem.queue("orders", name="emails", lock_s=0.5).close()

    with serving(tmp_path) as address, mainstem.connect(address) as stem:
        queue = stem.queue("orders", name="emails")
        late = one(queue)
        again = one(queue)
        with pytest.raises(StaleDelivery, match="its lock has run out"):
            late.ack()
        again.ack()


def test_of_many_only_what_came_again_meanwhile_is_refused(stem: ConnectedStem) -> None:
    for number in range(2):
        stem.publish("orders", number)

    with stem.queue("orders", name="emails", lock_s=1) as queue:
        late, again = one(queue), one(queue)
        while again.count == 1:
            again = one(queue)
        with pytest.raises(StaleDelivery):
            queue.ack_many([late, again])

        other = one(queue)
        assert {again.event.json(), other.event.json()} == {0, 1}
        other.ack()
    assert stem.queues.show("orders", "emails").ready == 0


def test_what_the_server_refuses_of_a_block_is_raised_by_who_asks_next(
    stem: ConnectedStem, served: Running
) -> None:
    stem.publish("orders", 1)

    with stem.queue("orders", name="emails") as queue:
        with one(queue):
            served.node.broker.queues.seek("orders", "emails", {0: 0})

        # What comes again meanwhile is acked; the refusal comes with one of the next answers.
        with pytest.raises(StaleDelivery, match="orders\\[0\\]@0"):
            queue.ack_many(iter(lambda: one(queue), None))


def test_what_the_server_refuses_of_acks_that_nobody_waits_for_is_raised_by_close(
    stem: ConnectedStem, served: Running
) -> None:
    stem.publish_many("orders", [1, 2])
    queue = stem.queue("orders", name="emails")
    held = [one(queue), one(queue)]
    served.node.broker.queues.seek("orders", "emails", {0: 0})
    for delivery in held:
        delivery.ack(wait=False)

    with pytest.raises(StaleDelivery, match="orders\\[0\\]@0") as raised:
        queue.close()

    (note,) = raised.value.__notes__
    assert "orders[0]@1" in note


def test_giving_back_counts_and_what_comes_too_often_is_a_dead_letter(stem: ConnectedStem) -> None:
    stem.publish("orders", "bad")

    with stem.queue("orders", name="emails", max_deliveries=2) as queue:
        one(queue).release()
        last = one(queue)
        last.release()

        assert last.count == 2
        assert queue.poll(0) is None
    (letter,) = stem.subscribe("orders.dead", follow=False)
    origin = origin_of(letter)
    assert origin is not None
    assert (origin.queue, origin.deliveries) == ("emails", 2)


def test_a_queue_may_try_for_ever(stem: ConnectedStem) -> None:
    stem.publish("orders", "bad")

    with stem.queue("orders", name="emails", max_deliveries=0) as queue:
        for _ in range(10):
            one(queue).nack()
        assert one(queue).count == 11
    assert stem.queues.show("orders", "emails").max_deliveries == 0


def test_a_queue_that_begins_at_the_latest_event_gets_what_is_published_after(
    stem: ConnectedStem,
) -> None:
    stem.publish("orders", "before")

    with stem.queue("orders", name="emails", start="latest") as queue:
        stem.publish("orders", "after")

        assert one(queue).event.text() == "after"


def test_only_events_of_committed_transactions_are_delivered(stem: ConnectedStem) -> None:
    with stem.queue("orders", name="emails") as queue:
        assert queue.poll(0) is None

    info = stem.queues.show("orders", "emails")
    assert info.name == "emails"
    shown = stem.queues._groups.settings("emails")
    assert shown["share.isolation.level"] == "read_committed"


def test_what_cannot_be_had_over_the_network_is_refused_with_what_to_do(
    stem: ConnectedStem,
) -> None:
    stem.publish("orders", 1)

    with pytest.raises(UnknownTopic):
        stem.queue("nothing", name="emails")
    for wrong in ({"start": 0}, {"start": {0: 0}}, {"order": "key"}):
        with pytest.raises(Unsupported, match=r"mainstem\.open"):
            stem.queue("orders", name="emails", **wrong)
    with pytest.raises(InvalidSetting, match=r"share\.record\.lock\.duration\.ms=86400000"):
        stem.queue("orders", name="emails", lock_s=86_400)
    with stem.queue("orders", name="emails") as queue:
        delivery = one(queue)
        with pytest.raises(Unsupported, match="lock_s"):
            delivery.renew()
        with pytest.raises(Unsupported, match="delay_s"):
            delivery.nack(delay_s=1)
        with pytest.raises(InvalidSetting):
            queue.ack_many([object()])  # type: ignore[list-item]
        delivery.ack()


def test_closing_the_stem_closes_its_queues(served: Running, stem: ConnectedStem) -> None:
    stem.publish("orders", 1)
    with mainstem.connect(str(served.kafka)) as other:
        queue = other.queue("orders", name="emails")
        held = one(queue)

    with pytest.raises(Closed, match="connect again"):
        held.ack()
    assert one(stem.queue("orders", name="emails")).count == 2


def test_what_is_settled_while_another_thread_closes_the_queue_is_not_said_to_be_done(
    stem: ConnectedStem,
) -> None:
    stem.publish_many("orders", range(3))

    with stem.queue("orders", name="emails") as queue:
        acked, left, many = (one(queue) for _ in range(3))
        for each in (acked, left, many):
            assert isinstance(each, ConnectedDelivery)
            # So far the other thread has come after this one has seen the queue open.
            each.given.member.close()

        with pytest.raises(Closed, match="is redelivered"):
            acked.ack()
        with pytest.raises(Closed), left:
            pass
        with pytest.raises(Closed):
            queue.ack_many([many])
    with stem.queue("orders", name="emails", follow=False) as queue:
        assert [delivery.count for delivery in queue] == [2, 2, 2]


def test_a_loop_that_is_left_gives_back_what_it_did_not_settle(stem: ConnectedStem) -> None:
    stem.publish_many("orders", range(3))

    for delivery in stem.queue("orders", name="emails"):
        assert delivery.count == 1
        break
    del delivery

    (info,) = stem.queues.list()
    assert (info.ready, info.out) == (3, 0)
    # Nobody is there any more.
    stem.queues.delete("orders", "emails")


def test_a_queue_goes_on_when_its_server_comes_back(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as address:
        stem = mainstem.connect(address)
        stem.topics.create("orders", partitions=1)
        stem.publish("orders", 1)
        queue = stem.queue("orders", name="emails")
        one(queue).ack()
    found: list[object] = []
    waiting = in_thread(lambda: found.append(one(queue).event.json()))
    with serving(tmp_path / "data", int(address.rpartition(":")[2])):
        with mainstem.connect(address) as other:
            other.publish("orders", 2)
        waiting.join(PATIENCE_S)
        stem.close()

    assert found == [2]


def test_a_server_that_is_gone_is_said_to_be(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as address:
        stem = mainstem.connect(address, timeout_s=1)
        stem.topics.create("orders", partitions=1)
        queue = stem.queue("orders", name="emails")
        assert queue.poll(0) is None

    with pytest.raises(Unreachable):
        queue.poll(PATIENCE_S)

    with suppress(Unreachable):
        stem.close()


def test_a_setting_that_share_groups_do_not_know_is_refused(
    served: Running, stem: ConnectedStem
) -> None:
    with (
        mainstem.connect(str(served.kafka), isolation_level="read_committed") as other,
        other.queue("orders", name="emails") as queue,
        pytest.raises(InvalidSetting, match=r"isolation\.level"),
    ):
        queue.poll(0)


# Looking


def test_queues_of_a_server_are_listed_shown_peeked_at_and_deleted(stem: ConnectedStem) -> None:
    stem.publish("orders", b"\x00\xff", key="k", headers={"a": "1", "b": None}, timestamp_ms=7)
    stem.publish("orders", None)
    queue = stem.queue("orders", name="emails")
    held = one(queue)

    (info,) = stem.queues.list()
    first, second = stem.queues.peek("orders", "emails")

    assert info == stem.queues.show("orders", "emails")
    assert (info.ready, info.out, list(info.consumers.values())) == (1, 1, [1])
    assert (first.event, first.deliveries) == (held.event, 1)
    assert first.consumer in info.consumers
    assert (second.event.value, second.deliveries, second.consumer) == (None, 0, None)
    with pytest.raises(GroupIsLive):
        stem.queues.delete("orders", "emails")
    queue.close()
    stem.queues.delete("orders", "emails")
    assert stem.queues.list() == ()


def test_large_events_are_looked_at_in_several_pages(stem: ConnectedStem) -> None:
    stem.topics.alter("orders", max_batch_bytes=20_000_000)
    for number in range(3):
        stem.publish("orders", bytes([number]) * 900_000)
    stem.publish_many("orders", [str(number) for number in range(1200)])
    stem.queue("orders", name="emails").close()
    with stem.queue("orders", name="emails") as queue:
        queue.poll(0)

        found = stem.queues.peek("orders", "emails", 5000)
        later = stem.queues.peek("orders", "emails", 2, after=found[1].event.position)

    assert [each.event.offset for each in found] == list(range(1203))
    assert [len(each.event.value or b"") for each in found[:3]] == [900_000] * 3
    assert [each.event.offset for each in later] == [2, 3]


def test_queues_that_are_not_there_are_named(stem: ConnectedStem) -> None:
    for deed in (stem.queues.show, stem.queues.peek, stem.queues.delete):
        with pytest.raises(UnknownQueue):
            deed("orders", "nobody")
    for look in (stem.queues.show, stem.queues.peek):
        with pytest.raises(UnknownTopic):
            look("nothing", "emails")
    with pytest.raises(InvalidSetting):
        stem.queues.peek("orders", "emails", 0)


def test_another_server_at_the_admin_port_is_not_taken_for_this_one(
    stem: ConnectedStem, served: Running
) -> None:
    port = stem.queues._port()

    assert port.address == str(served.admin)
    with server(None) as other:
        assert other.admin is not None
        wrong = AdminPort(other.admin.host, other.admin.port, port.run_id)
        with pytest.raises(Unreachable, match="another server"):
            queues_at(wrong, PATIENCE_S)

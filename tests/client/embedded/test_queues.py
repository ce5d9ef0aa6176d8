"""Queues in Python: deliveries are acked, redelivered after failures, and released."""

import threading
from pathlib import Path
from typing import Unpack

import pytest

import mainstem
from mainstem.client.embedded.ack_batching import SettlementWindow
from mainstem.client.embedded.queue import EmbeddedQueue
from mainstem.client.info import QueuedEvent
from mainstem.client.queue_options import QueueArguments
from mainstem.core.dead_letters import origin_of
from mainstem.core.errors import (
    Closed,
    InvalidName,
    InvalidSetting,
    StaleDelivery,
    UnknownPartition,
    UnknownQueue,
)

PATIENCE_S = 30


def drained(stem: mainstem.EmbeddedStem, name: str = "emails") -> list[str]:
    """Ack and return everything that can be had now."""
    texts = []
    with stem.queue("orders", name=name, follow=False) as queue:
        for delivery in queue:
            with delivery as event:
                texts.append(event.text())
    return texts


def test_what_is_worked_on_is_acked_and_stays_so(tmp_path: Path) -> None:
    with mainstem.open(tmp_path) as stem:
        stem.publish_many("orders", ["1", "2", "3"])
        assert drained(stem) == ["1", "2", "3"]

    with mainstem.open(tmp_path) as stem:
        assert drained(stem) == []
        assert drained(stem, "other") == ["1", "2", "3"]


def test_an_error_nacks_and_is_not_swallowed(stem: mainstem.EmbeddedStem) -> None:
    stem.publish("orders", "bad")
    queue = stem.queue("orders", name="emails", max_deliveries=2)

    for count in (1, 2):
        delivery = next(queue)
        assert delivery.count == count
        with pytest.raises(ValueError, match="no"), delivery:
            raise ValueError("no such customer")

    assert queue.poll(timeout=0) is None
    queue.close()
    (letter,) = stem.subscribe("orders.dead", follow=False)
    origin = origin_of(letter)
    assert origin is not None
    assert (origin.queue, origin.deliveries) == ("emails", 2)
    assert origin.reason == "ValueError: no such customer"


def queue_of_one(stem: mainstem.EmbeddedStem, **options: Unpack[QueueArguments]) -> EmbeddedQueue:
    """Publish an event; return a consumer of a queue that has it."""
    stem.publish("orders", "1")
    return stem.queue("orders", name="emails", **options)


class Untold(Exception):
    """An error that cannot say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


def test_an_error_that_cannot_be_told_nacks_and_stays_itself(
    memory: mainstem.EmbeddedStem,
) -> None:
    queue = queue_of_one(memory, max_deliveries=1)

    with pytest.raises(Untold), next(queue):
        raise Untold

    (letter,) = memory.subscribe("orders.dead", follow=False)
    origin = origin_of(letter)
    assert origin is not None
    assert origin.reason.startswith("Untold: ")


def test_an_interruption_gives_back_without_counting(memory: mainstem.EmbeddedStem) -> None:
    queue = queue_of_one(memory, max_deliveries=1)

    with pytest.raises(KeyboardInterrupt), next(queue):
        raise KeyboardInterrupt

    assert next(queue).count == 1


def test_deliveries_are_settled_by_hand(memory: mainstem.EmbeddedStem) -> None:
    memory.publish_many("orders", ["ack", "nack", "release", "reject", "delay"])
    queue = memory.queue("orders", name="emails")
    ack, nack, release, reject, delay = queue.poll_many(10, timeout=0)

    ack.ack()
    nack.nack(reason="again")
    release.release()
    reject.reject("never")
    delay.nack(delay_s=3600)
    again = queue.poll_many(10, timeout=0)

    assert [(each.event.text(), each.count) for each in again] == [("nack", 2), ("release", 1)]
    assert [each.text() for each in memory.subscribe("orders.dead", follow=False)] == ["reject"]
    with pytest.raises(StaleDelivery):
        ack.nack()


def test_what_was_settled_inside_the_block_is_not_settled_again(
    memory: mainstem.EmbeddedStem,
) -> None:
    queue = queue_of_one(memory)

    with (delivery := next(queue)):
        delivery.nack()

    assert next(queue).count == 2


def test_a_delivery_that_took_too_long_is_refused(memory: mainstem.EmbeddedStem) -> None:
    memory.publish("orders", "1")
    queue = memory.queue("orders", name="emails", lock_s=0.001)
    late = next(queue)
    with memory.queue("orders", name="emails") as other:
        again = other.poll(timeout=PATIENCE_S)

        assert again is not None
        with pytest.raises(StaleDelivery):
            late.ack()
        with pytest.raises(StaleDelivery):
            late.renew()


def test_a_renewed_delivery_can_be_acked(memory: mainstem.EmbeddedStem) -> None:
    delivery = next(queue_of_one(memory))

    delivery.renew()
    delivery.ack()

    assert memory.queues.show("orders", "emails").ready == 0


def ack_late(stem: mainstem.EmbeddedStem, queue: EmbeddedQueue) -> None:
    """Ack a delivery that is none any more."""
    late = next(queue)
    stem.node.broker.queues.seek("orders", "emails", {0: 0})
    late.ack(wait=False)


def ack_everything(queue: EmbeddedQueue) -> None:
    for delivery in queue:
        delivery.ack()


def test_an_ack_that_nobody_waits_for_and_that_fails_is_raised_by_the_next_poll(
    memory: mainstem.EmbeddedStem,
) -> None:
    queue = queue_of_one(memory)
    ack_late(memory, queue)

    with pytest.raises(StaleDelivery, match="orders\\[0\\]@0"):
        ack_everything(queue)


def test_an_ack_that_nobody_waits_for_and_that_fails_is_raised_by_close(
    memory: mainstem.EmbeddedStem,
) -> None:
    queue = queue_of_one(memory)
    ack_late(memory, queue)

    with pytest.raises(StaleDelivery):
        queue.close()

    assert drained(memory) == ["1"]


def test_an_error_of_the_block_matters_more_than_an_ack_that_failed(
    memory: mainstem.EmbeddedStem,
) -> None:
    queue = queue_of_one(memory)
    ack_late(memory, queue)

    with pytest.raises(ValueError, match="of the block"), queue:
        raise ValueError("of the block")


def test_an_ack_that_nobody_waits_for_lets_the_next_event_of_its_key_out(
    memory: mainstem.EmbeddedStem,
) -> None:
    for value in "12":
        memory.publish("orders", value, key="ann")

    with memory.queue("orders", name="emails", order="key", follow=False) as queue:
        for delivery in queue:
            delivery.ack(wait=False)

    assert drained(memory) == []


def test_a_queue_ends_only_after_what_its_own_acks_let_out(
    memory: mainstem.EmbeddedStem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The background thread may write at any moment: here it does so as soon as it can."""
    monkeypatch.setattr(SettlementWindow.__init__, "__defaults__", (0.0,))
    events = [str(number) for number in range(200)]
    for each in events:
        memory.publish("orders", each, key="ann")

    with memory.queue("orders", name="emails", order="key", follow=False) as queue:
        found = []
        for delivery in queue:
            found.append(delivery.event.text())
            delivery.ack(wait=False)

    assert found == events


def test_closing_the_stem_settles_what_nobody_waited_for(tmp_path: Path) -> None:
    with mainstem.open(tmp_path) as stem:
        stem.publish_many("orders", ["1", "2"])
        queue = stem.queue("orders", name="emails")
        next(queue).ack(wait=False)
        next(queue).reject("never", wait=False)

    with mainstem.open(tmp_path) as stem:
        assert drained(stem) == []
        assert [each.text() for each in stem.subscribe("orders.dead", follow=False)] == ["2"]


def test_closing_gives_back_at_once(memory: mainstem.EmbeddedStem) -> None:
    memory.publish_many("orders", ["1", "2"])
    queue = memory.queue("orders", name="emails")
    taken = queue.poll_many()

    queue.close()

    assert drained(memory) == ["1", "2"]
    with pytest.raises(Closed):
        taken[0].ack()
    with pytest.raises(Closed):
        queue.poll()
    assert list(queue) == []


def test_closing_the_stem_gives_back(tmp_path: Path) -> None:
    with mainstem.open(tmp_path) as stem:
        stem.publish("orders", "1")
        next(stem.queue("orders", name="emails", max_deliveries=1))

    with mainstem.open(tmp_path) as stem:
        assert drained(stem) == ["1"]


def test_who_waits_gets_what_is_published(stem: mainstem.EmbeddedStem) -> None:
    queue = stem.queue("orders", name="emails")
    got: list[str] = []

    def work() -> None:
        for delivery in queue:
            with delivery as event:
                got.append(event.text())
                if event.text() == "last":
                    return

    worker = threading.Thread(target=work)
    worker.start()
    stem.publish("orders", "first")
    stem.publish("orders", "last")
    worker.join(PATIENCE_S)

    assert got == ["first", "last"]


def test_who_waits_gets_what_another_gives_back(memory: mainstem.EmbeddedStem) -> None:
    memory.publish("orders", "1")
    one, other = (memory.queue("orders", name="emails") for _ in range(2))
    delivery = next(one)
    got: list[int] = []
    waiting = threading.Thread(target=lambda: got.append(next(other).count))
    waiting.start()

    delivery.nack()
    waiting.join(PATIENCE_S)

    assert got == [2]


def test_closing_ends_the_wait_of_another_thread(memory: mainstem.EmbeddedStem) -> None:
    queue = memory.queue("orders", name="emails")
    ended = threading.Thread(target=lambda: list(queue))
    ended.start()

    queue.close()
    ended.join(PATIENCE_S)

    assert not ended.is_alive()


def test_several_threads_share_a_queue_without_a_duplicate(stem: mainstem.EmbeddedStem) -> None:
    stem.topics.create("orders", partitions=3)
    stem.publish_many("orders", [str(number) for number in range(600)])
    got: list[str] = []

    def work() -> None:
        with stem.queue("orders", name="emails", follow=False) as queue:
            for delivery in queue:
                with delivery as event:
                    got.append(event.text())

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(PATIENCE_S)

    assert sorted(got, key=int) == [str(number) for number in range(600)]


def test_events_of_a_key_are_worked_on_in_order(memory: mainstem.EmbeddedStem) -> None:
    for value in ("1", "2"):
        memory.publish("orders", value, key="k")
    queue = memory.queue("orders", name="emails", order="key")

    first = next(queue)
    assert queue.poll(timeout=0) is None
    first.ack()

    assert next(queue).event.text() == "2"


def test_events_of_a_higher_partition_come_first(memory: mainstem.EmbeddedStem) -> None:
    memory.topics.create("orders", partitions=3)
    for priority in (0, 2, 1, 2):
        memory.publish("orders", str(priority), partition=priority)

    with memory.queue("orders", name="emails", order="priority", follow=False) as queue:
        found = [delivery.event.text() for delivery in queue]

    assert found == ["2", "2", "1", "0"]


def test_a_queue_begins_where_it_is_told_and_keeps_its_settings(
    memory: mainstem.EmbeddedStem,
) -> None:
    memory.publish("orders", "old")
    memory.queue("orders", name="emails", start="latest", lock_s=5, max_deliveries=0)
    memory.publish("orders", "new")

    queue = memory.queue("orders", name="emails")

    assert next(queue).event.text() == "new"
    info = memory.queues.show("orders", "emails")
    assert (info.lock_s, info.max_deliveries, info.order) == (5, 0, "none")


def test_queues_are_listed_shown_peeked_at_and_deleted(memory: mainstem.EmbeddedStem) -> None:
    memory.publish_many("orders", ["1", "2", "3"])
    queue = memory.queue("orders", name="emails")
    next(queue)

    (info,) = memory.queues.list()
    assert (info.topic, info.name, info.out, info.ready) == ("orders", "emails", 1, 2)
    assert info.consumers == {queue.consumer: 1}
    peeked = memory.queues.peek("orders", "emails", 2)
    assert [(each.event.text(), each.deliveries) for each in peeked] == [("1", 1), ("2", 0)]
    assert peeked[0].consumer == queue.consumer

    memory.queues.delete("orders", "emails")
    with pytest.raises(UnknownQueue):
        memory.queues.show("orders", "emails")
    queue.close()


def test_many_events_are_looked_at_in_pieces(memory: mainstem.EmbeddedStem) -> None:
    memory.topics.create("orders", partitions=3)
    memory.publish_many("orders", [str(number) for number in range(40)])
    queue = memory.queue("orders", name="emails")
    given_back = queue.poll_many(25)
    queue.ack_many(given_back.pop(at) for at in (20, 11, 3))
    given_back[7].nack()
    expected = memory.queues.peek("orders", "emails", 100)

    seen: list[QueuedEvent] = []
    while piece := memory.queues.peek(
        "orders", "emails", 5, after=seen[-1].event.position if seen else None
    ):
        assert len(piece) <= 5
        seen += piece

    assert len(seen) == 37
    assert tuple(seen) == expected


def test_what_means_nothing_is_refused(memory: mainstem.EmbeddedStem) -> None:
    with pytest.raises(InvalidSetting, match="order"):
        memory.queue("orders", name="emails", order="random")  # type: ignore[arg-type]
    for wrong in (0, 0.0001, 86_401, "30"):
        with pytest.raises(InvalidSetting, match="lock_s"):
            memory.queue("orders", name="emails", lock_s=wrong)  # type: ignore[arg-type]
    for wrong in (-1, 1_000_001, "3", 2.5):
        with pytest.raises(InvalidSetting, match="or 0 to try for ever"):
            memory.queue("orders", name="emails", max_deliveries=wrong)  # type: ignore[arg-type]
    for name in ("", "a\nb", 5):
        with pytest.raises(InvalidName, match="cannot name a queue"):
            memory.queue("orders", name=name)  # type: ignore[arg-type]
    with pytest.raises(InvalidSetting):
        memory.queue("orders", name="emails", start=-1)
    delivery = next(queue_of_one(memory))
    for seconds in (-1.0, float("nan"), float("inf")):
        with pytest.raises(InvalidSetting, match="delay_s"):
            delivery.nack(delay_s=seconds)
        with pytest.raises(InvalidSetting, match="lock_s"):
            memory.queue("orders", name="emails", lock_s=seconds)
    for limit in (0, -3, 1.5):
        with pytest.raises(InvalidSetting, match="limit"):
            memory.queue("orders", name="emails").poll_many(limit)  # type: ignore[arg-type]
        with pytest.raises(InvalidSetting, match="limit"):
            memory.queues.peek("orders", "emails", limit)  # type: ignore[arg-type]
    delivery.ack()


def test_a_queue_cannot_begin_in_a_partition_that_is_not_there(
    memory: mainstem.EmbeddedStem,
) -> None:
    memory.publish_many("orders", ["1", "2"])

    for number in (7, -1, "0"):
        with pytest.raises(UnknownPartition):
            memory.queue("orders", name="emails", start={number: 1})  # type: ignore[dict-item]

    assert memory.queues.list() == ()
    assert next(memory.queue("orders", name="emails", start={0: 1})).event.text() == "2"


def test_events_that_a_restart_took_away_are_not_taken_for_settled(tmp_path: Path) -> None:
    with mainstem.open(tmp_path) as stem:
        stem.topics.create("orders", durability="memory")
        stem.publish_many("orders", ["1", "2"])
        assert drained(stem) == ["1", "2"]

    with mainstem.open(tmp_path) as stem:
        stem.publish("orders", "3")
        assert drained(stem) == ["3"]


def test_many_are_acked_in_one_write(stem: mainstem.EmbeddedStem) -> None:
    stem.publish_many("orders", [str(number) for number in range(50)])
    queue = stem.queue("orders", name="emails")
    deliveries = queue.poll_many(50)
    queue.ack_many(deliveries[:1])
    before = stem.topics.show("__mainstem_subscriptions").events

    queue.ack_many(deliveries[1:40])

    assert stem.topics.show("__mainstem_subscriptions").events == before + 1
    with pytest.raises(StaleDelivery):
        queue.ack_many(deliveries[39:])
    assert stem.queues.show("orders", "emails").out == 0


def test_what_is_acked_together_in_its_block_is_not_settled_again(
    memory: mainstem.EmbeddedStem,
) -> None:
    queue = queue_of_one(memory)

    with (delivery := next(queue)):
        queue.ack_many([delivery])

    assert memory.queues.show("orders", "emails").out == 0


def test_a_delivery_of_another_consumer_is_not_acked_nor_those_with_it(
    memory: mainstem.EmbeddedStem,
) -> None:
    memory.publish("orders", "1")
    emails, invoices = (memory.queue("orders", name=name) for name in ("emails", "invoices"))
    own, foreign = next(emails), next(invoices)

    for wrong in (foreign, own.event):
        with pytest.raises(InvalidSetting, match="acked"):
            emails.ack_many([own, wrong])  # type: ignore[list-item]

    assert memory.queues.show("orders", "emails").out == 1
    assert memory.queues.show("orders", "invoices").out == 1
    own.ack()


def test_of_many_only_what_was_delivered_again_meanwhile_is_refused(
    memory: mainstem.EmbeddedStem,
) -> None:
    memory.publish_many("orders", ["late", "1"])
    queue = memory.queue("orders", name="emails")
    late, one = queue.poll_many(2)
    late.nack()
    (again,) = queue.poll_many(2, timeout=0)

    with pytest.raises(StaleDelivery):
        queue.ack_many([late, one])

    assert memory.queues.show("orders", "emails").consumers == {queue.consumer: 1}
    again.ack()
    with pytest.raises(StaleDelivery):
        one.ack()

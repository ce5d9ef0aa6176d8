"""Queues on every kind of stem."""

import threading
from contextlib import suppress

import pytest
from tests.client.every_stem.stems import PATIENCE_S, fill, in_thread

from mainstem.client.stem import Delivery, Queue, Stem
from mainstem.core.errors import (
    Closed,
    InvalidName,
    InvalidSetting,
    StaleDelivery,
    UnknownQueue,
    UnknownTopic,
    Unsupported,
)


def drained(stem: Stem, topic: str, queue: str) -> list[int]:
    """Ack and return everything that can be had now."""
    found = []
    with stem.queue(topic, name=queue, follow=False) as deliveries:
        for delivery in deliveries:
            with delivery as event:
                found.append(event.json())
    return sorted(found)


def one(queue: Queue) -> Delivery:
    found = queue.poll(PATIENCE_S)
    assert found is not None
    return found


def test_what_is_worked_on_is_acked_and_other_queues_get_it_too(stem: Stem, name: str) -> None:
    fill(stem, name, 50, partitions=3)

    assert drained(stem, name, name) == list(range(50))
    assert drained(stem, name, name) == []
    assert drained(stem, name, f"{name}-other") == list(range(50))


def test_a_queue_on_a_topic_without_events_ends_if_it_does_not_follow(
    stem: Stem, name: str
) -> None:
    stem.topics.create(name)

    assert drained(stem, name, name) == []


def test_what_failed_comes_again_and_is_counted(stem: Stem, name: str) -> None:
    fill(stem, name, 1)

    with stem.queue(name, name=name) as queue:
        one(queue).nack()
        again = one(queue)
        with pytest.raises(ValueError, match="no such customer"), again:
            raise ValueError("no such customer")
        last = one(queue)
        last.ack()

    assert (again.count, last.count) == (2, 3)
    assert drained(stem, name, name) == []


def test_what_is_rejected_never_comes_again(stem: Stem, name: str) -> None:
    fill(stem, name, 2)

    with stem.queue(name, name=name) as queue:
        first, second = one(queue), one(queue)
        first.reject("no")
        second.ack()

    assert drained(stem, name, name) == []


def test_a_delivery_is_settled_once(stem: Stem, name: str) -> None:
    fill(stem, name, 1)

    with stem.queue(name, name=name) as queue:
        delivery = one(queue)
        with delivery:
            delivery.ack()
        for settle in (delivery.ack, delivery.nack, delivery.reject, delivery.release):
            with pytest.raises(StaleDelivery):
                settle()


def test_what_nobody_waits_for_is_settled_once_the_queue_is_closed(stem: Stem, name: str) -> None:
    fill(stem, name, 250, partitions=2)
    found: list[int] = []

    with stem.queue(name, name=name) as queue:
        while len(found) < 250:
            delivery = one(queue)
            found.append(delivery.event.json())
            delivery.ack(wait=False)
            with pytest.raises(StaleDelivery):
                delivery.ack(wait=False)

    assert sorted(found) == list(range(250))
    assert drained(stem, name, name) == []


def test_what_nobody_waits_for_comes_again_or_not(stem: Stem, name: str) -> None:
    fill(stem, name, 1)

    with stem.queue(name, name=name) as queue:
        one(queue).nack(wait=False)
        one(queue).release(wait=False)
        again = one(queue)
        again.reject("no", wait=False)
        assert queue.poll(timeout=0.5) is None

    assert again.count > 1
    assert drained(stem, name, name) == []


def test_who_holds_many_is_given_more(stem: Stem, name: str) -> None:
    fill(stem, name, 40)

    with stem.queue(name, name=name) as queue:
        held = [one(queue) for _ in range(40)]
        queue.ack_many(held[:20])
        for delivery in held[20:]:
            delivery.ack()

    assert sorted(each.event.json() for each in held) == list(range(40))
    assert drained(stem, name, name) == []


def test_deliveries_are_settled_in_any_order(stem: Stem, name: str) -> None:
    fill(stem, name, 50)
    held: list[Delivery] = []

    with stem.queue(name, name=name) as queue:
        while len(held) < 50:
            held += queue.poll_many(50, PATIENCE_S)
        queue.ack_many(held[45:] + held[40:45])
        for delivery in reversed(held[20:40]):
            with delivery:
                pass
        for delivery in held[10:20] + held[:10]:
            with delivery:
                pass

    assert {each.count for each in held} == {1}
    assert drained(stem, name, name) == []


def test_a_loop_that_does_not_follow_ends_though_others_hold_events(stem: Stem, name: str) -> None:
    fill(stem, name, 3)

    with stem.queue(name, name=name) as other:
        one(other)
        held = other.poll_many(10, 1)
        left = drained(stem, name, name)

    assert len(left) == 3 - 1 - len(held)


def test_what_was_not_settled_comes_again_when_its_queue_is_closed(stem: Stem, name: str) -> None:
    fill(stem, name, 5)

    with stem.queue(name, name=name) as queue:
        one(queue).ack()
        one(queue)

    assert len(drained(stem, name, name)) == 4


def test_several_threads_share_a_queue_without_a_duplicate(stem: Stem, name: str) -> None:
    fill(stem, name, 200, partitions=2)
    found: list[int] = []
    barrier = threading.Barrier(4, timeout=PATIENCE_S)
    queue = stem.queue(name, name=name, follow=False)

    def work() -> None:
        # Each holds one before anybody settles: nobody waits for another.
        first = one(queue)
        barrier.wait()
        for delivery in (first, *queue):
            with delivery as event:
                found.append(event.json())

    threads = [in_thread(work) for _ in range(4)]
    for thread in threads:
        thread.join(PATIENCE_S)
    found += drained(stem, name, name)
    queue.close()

    assert sorted(found) == list(range(200))


def test_who_waits_gets_what_is_published(stem: Stem, name: str) -> None:
    stem.topics.create(name, partitions=1)
    with stem.queue(name, name=name) as queue:
        assert queue.poll(timeout=0) is None
        found: list[object] = []
        waiting = in_thread(lambda: found.append(one(queue).event.json()))

        stem.publish(name, 7)
        waiting.join(PATIENCE_S)

    assert found == [7]


def test_closing_ends_the_wait_of_another_thread(stem: Stem, name: str) -> None:
    stem.topics.create(name, partitions=1)
    queue = stem.queue(name, name=name)
    found: list[object] = []
    waiting = in_thread(lambda: found.extend(queue))

    queue.close()
    waiting.join(PATIENCE_S)

    assert not waiting.is_alive()
    assert found == []
    with pytest.raises(Closed):
        queue.poll(0)


def test_only_the_queue_object_that_gave_a_delivery_acks_it(stem: Stem, name: str) -> None:
    stem.topics.create(name, partitions=1)
    for number in range(2):
        # Not together, as Kafka gives out whole batches.
        stem.publish(name, number)

    with stem.queue(name, name=name) as first, stem.queue(name, name=name) as second:
        mine = one(first)
        theirs = one(second)
        with pytest.raises(InvalidSetting):
            first.ack_many([mine, theirs])
        mine.ack()
        theirs.ack()

    assert drained(stem, name, name) == []


def test_what_means_nothing_is_refused(stem: Stem, name: str) -> None:
    fill(stem, name, 1)

    with pytest.raises(InvalidName):
        stem.queue(name, name="")
    for wrong in ({"max_deliveries": -1}, {"lock_s": -1.0}, {"lock_s": float("nan")}):
        with pytest.raises(InvalidSetting):
            stem.queue(name, name=name, **wrong)
    with stem.queue(name, name=name) as queue, pytest.raises(InvalidSetting):
        queue.poll_many(0)


def test_a_queue_object_that_is_let_go_holds_nothing_for_long(stem: Stem, name: str) -> None:
    fill(stem, name, 1)

    delivery = one(stem.queue(name, name=name))
    delivery.ack()

    assert drained(stem, name, name) == []


def test_an_interruption_gives_back(stem: Stem, name: str) -> None:
    fill(stem, name, 1)

    with stem.queue(name, name=name) as queue:
        with suppress(KeyboardInterrupt), one(queue):
            raise KeyboardInterrupt
        one(queue).ack()


def test_a_queue_is_emptied_into_another_topic_or_for_good(stem_of_ours: Stem, name: str) -> None:
    stem = stem_of_ours
    fill(stem, name, 5)
    stem.topics.create(f"{name}-later")
    begin(stem, name)

    assert drained_to(stem, name, 2) == [0, 1]
    assert stem.queues.purge(name, name) == 3
    assert stem.queues.purge(name, name) == 0
    assert stem.queues.move(name, name, f"{name}-later") == 0


def begin(stem: Stem, name: str) -> None:
    """Make a queue, which over the network begins with its first delivery."""
    with stem.queue(name, name=name) as queue:
        one(queue).release()


def drained_to(stem: Stem, name: str, limit: int) -> list[int]:
    """Move events, and return what the other topic has then."""
    to = f"{name}-later"
    assert stem.queues.move(name, name, to, limit=limit) == limit
    return [each.json() for each in stem.subscribe(to, follow=False)]


def test_what_is_not_there_is_neither_purged_nor_moved(stem_of_ours: Stem, name: str) -> None:
    stem = stem_of_ours
    fill(stem, name, 1)
    begin(stem, name)

    with pytest.raises(UnknownQueue):
        stem.queues.purge(name, "nobody")
    with pytest.raises(UnknownTopic, match=f"{name}-later"):
        stem.queues.move(name, name, f"{name}-later")
    with pytest.raises(InvalidSetting):
        stem.queues.move(name, name, name)
    with pytest.raises(InvalidSetting):
        stem.queues.move(name, name, name, limit=0)


@pytest.mark.peers
def test_a_kafka_says_that_it_cannot_purge_and_move(of_kafka: Stem, name: str) -> None:
    fill(of_kafka, name, 1)

    with pytest.raises(Unsupported, match="no mainstem server"):
        of_kafka.queues.purge(name, name)
    with pytest.raises(Unsupported, match="no mainstem server"):
        of_kafka.queues.move(name, name, f"{name}-later")

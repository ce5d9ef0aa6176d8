"""What subscribers of PUB receive, and what requests are answered."""

import asyncio
from collections.abc import Callable

import pytest
import zmq
from tests.heads.transport.echo import until
from tests.heads.zmq.zmq_head import (
    TOPIC,
    answer,
    broker_with_topic,
    events,
    received,
    serving,
)

from mainstem.core.event import Event
from mainstem.core.topic_settings import Overload
from mainstem.heads.brokerless.codec import (
    Events,
    Refusal,
    TopicBounds,
    decode_answer,
    decode_whole,
)
from mainstem.heads.zmq.metrics import COMMON, DROPPED, SUBSCRIPTIONS


async def test_a_subscriber_receives_the_events_of_its_topic_from_then_on() -> None:
    async with serving() as served:
        await served.publish(Event(b"before"))
        subscriber = await served.subscriber(b"orders/")

        await served.publish(Event(b"one", b"key"), Event(None, None, (("h", b"v"), ("n", None))))

        subject, value, *_ = await received(subscriber)
        assert (subject, value) == (b"orders/key", b"one")
        (second,) = await events(subscriber, 1)
        assert second.event.headers == (("h", b"v"), ("n", None))
        assert (second.event.value, second.event.key) == (None, None)
        assert (second.event.offset, second.after) == (2, 2)


@pytest.mark.parametrize("frames", ["three", "one"])
async def test_a_header_whose_name_the_frames_cannot_hold_is_left_out(frames: str) -> None:
    async with serving(publish_frames=frames) as served:
        subscriber = await served.subscriber(b"orders/")
        headers = (("h", b"v"), ("x" * 65_535, b"1"), ("x" * 65_536, b"2"), ("n", None))

        await served.publish(Event(b"one", None, headers), Event(b"two"))

        if frames == "three":
            one, two = await events(subscriber, 2)
        else:
            one, two = [decode_whole((await received(subscriber))[0]) for _ in range(2)]
        assert one.event.headers == (headers[0], headers[1], headers[3])
        assert two.event.value == b"two"
        found = await answer(served.socket(zmq.DEALER), b"REPLAY", b"orders", b"0", b"0")
        assert isinstance(found, Events)
        assert [each.event.value for each in found.events] == [b"one", b"two"]


async def test_a_subscription_to_a_prefix_of_keys_receives_those_events_only() -> None:
    async with serving() as served:
        subscriber = await served.subscriber(b"orders/eu-")

        await served.publish(Event(b"us", b"us-1"), Event(b"eu", b"eu-1"))

        assert (await received(subscriber))[1] == b"eu"


async def test_an_event_has_one_frame_if_the_setting_says_so() -> None:
    async with serving(publish_frames="one") as served:
        subscriber = await served.subscriber(b"orders/eu-")

        await served.publish(
            Event(b"us", b"us-1"),
            Event(b"eu", b"eu-\0", (("h", b"v"), ("n", None))),
            Event(None, b"eu-2"),
        )

        first, second = [await received(subscriber) for _ in range(2)]
        assert (len(first), len(second)) == (1, 1)
        assert first[0].startswith(b"orders/eu-\xc0\x80\0")
        found = decode_whole(first[0]).event
        assert (found.key, found.value) == (b"eu-\0", b"eu")
        assert found.headers == (("h", b"v"), ("n", None))
        last = decode_whole(second[0])
        assert (last.event.key, last.event.value) == (b"eu-2", None)
        assert (last.event.offset, last.after) == (2, 2)


async def test_a_subscription_to_everything_receives_topics_that_are_created_later() -> None:
    async with serving() as served:
        subscriber = await served.subscriber(b"")

        served.broker.create_topic("later")
        await asyncio.sleep(0)
        await served.publish(Event(b"value"), topic="later")

        # What is published before the head knows the topic is only in the log.
        await answer(served.socket(zmq.DEALER), b"BOUNDS", b"later")
        await served.publish(Event(b"value"), topic="later")
        assert (await received(subscriber))[:2] == [b"later/", b"value"]


async def test_topics_are_read_only_while_somebody_is_subscribed() -> None:
    async with serving() as served:
        subscriber = await served.subscriber(b"orders/")
        assert served.metric(SUBSCRIPTIONS) == 1

        subscriber.close()

        await until(lambda: served.metric(SUBSCRIPTIONS) == 0)
        await until(lambda: not served.head._tails)


async def test_a_request_is_answered_with_the_events_since_an_offset() -> None:
    async with serving() as served:
        await served.publish(*(Event(b"%d" % number) for number in range(5)))
        asker = served.socket(zmq.DEALER)

        found = await answer(asker, b"REPLAY", b"orders", b"0", b"2")

        assert isinstance(found, Events)
        assert [each.event.value for each in found.events] == [b"2", b"3", b"4"]
        assert [each.after for each in found.events] == [2, 3, 4]
        assert (found.first, found.next, found.tail) == (2, 5, 5)
        assert served.metric(COMMON.replayed) == 3
        found = await answer(asker, b"BOUNDS", b"orders")
        assert found == TopicBounds("orders", served.head.publishes_at.port, ((0, 5),))


async def test_req_sockets_are_answered() -> None:
    async with serving() as served:
        asker = served.socket(zmq.REQ)

        assert isinstance(await answer(asker, b"REPLAY", b"orders", b"0", b"0"), Events)
        assert isinstance(await answer(asker, b"REPLAY", b"orders", b"0", b"0"), Events)


async def test_a_large_backlog_is_answered_in_portions() -> None:
    async with serving() as served:
        served.broker.publish(TOPIC, [Event(b"x" * 1_000) for _ in range(2_000)])
        asker = served.socket(zmq.DEALER)

        offset, portions, offsets = 0, 0, list[int]()
        while offset < 2_000:
            found = await answer(asker, b"REPLAY", b"orders", b"0", b"%d" % offset)
            assert isinstance(found, Events)
            assert sum(len(each.event.value or b"") for each in found.events) <= 257 * 1024
            offsets += [each.event.offset for each in found.events]
            offset, portions = found.next, portions + 1

        assert offsets == list(range(2_000))
        assert portions >= 8


async def test_an_answer_says_that_retention_has_deleted_events() -> None:
    async with serving() as served:
        await served.publish(*(Event(b"%d" % number) for number in range(5)))
        served.broker.trim(TOPIC, 0, 3)

        found = await answer(served.socket(zmq.DEALER), b"REPLAY", b"orders", b"0", b"1")

        assert isinstance(found, Events)
        assert (found.first, [it.event.offset for it in found.events]) == (3, [3, 4])


@pytest.mark.parametrize(
    ("frames", "failure"),
    [
        ((b"REPLAY", b"orders", b"0", b"99"), "invalid"),
        ((b"REPLAY", b"orders", b"7", b"0"), "not_found"),
        ((b"REPLAY", b"nobody", b"0", b"0"), "not_found"),
        ((b"BOUNDS", b"../x"), "not_found"),
        ((b"BOUNDS", b"\xff"), "invalid"),
        ((b"REPLAY", b"orders", b"-1", b"0"), "invalid"),
        ((b"REPLAY", b"orders", b"0", b"9" * 5_00), "invalid"),
        ((b"REPLAY", b"orders", b"0", b"9" * 19), "invalid"),
        ((b"REPLAY", b"orders", b"0"), "invalid"),
        ((b"REPLAY",) * 1_000, "invalid"),
        ((b"HELLO",), "invalid"),
        ((b"",), "invalid"),
        ((b"", b""), "invalid"),
    ],
)
async def test_a_bad_request_is_refused(frames: tuple[bytes, ...], failure: str) -> None:
    async with serving() as served:
        asker = served.socket(zmq.DEALER)

        asker.send_multipart(frames)
        found = await received(asker)

        refusal = decode_answer(found[found.index(b"") + 1 :] if b"" in found else found)
        assert isinstance(refusal, Refusal)
        assert refusal.failure == failure
        assert served.metric(COMMON.requests, failure) == 1
        assert isinstance(await answer(asker, b"BOUNDS", b"orders"), TopicBounds)


async def test_partitions_have_their_own_offsets() -> None:
    async with serving(broker_with_topic(partitions=3)) as served:
        subscriber = await served.subscriber(b"orders/")

        for number in range(3):
            served.broker.publish(TOPIC, [Event(b"%d" % number)] * 2, number)

        found = [it.event for it in await events(subscriber, 6)]
        assert sorted((it.partition, it.offset) for it in found) == [
            (number, offset) for number in range(3) for offset in range(2)
        ]


SMALL: dict[str, int | bytes] = {"RCVHWM": 1, "RCVBUF": 4096}
"""What a subscriber takes before it has read."""
LARGE = b"x" * 50_000


async def test_with_backpressure_all_subscribers_wait_for_a_slow_one_and_none_misses_anything() -> (
    None
):
    count = 300
    broker = broker_with_topic(overload=Overload.BACKPRESSURE, max_backlog=count)
    async with serving(broker, high_water_mark=10) as served:
        slow = await served.subscriber(b"orders/", **SMALL)
        fast = await served.subscriber(b"orders/o")
        slow.setsockopt(zmq.SUBSCRIBE, b"orders/o")
        await until(lambda: served.told(b"orders/o") == 2)

        broker.publish(TOPIC, [Event(LARGE, b"o%d" % number) for number in range(count)])
        heard = [it.event.offset for it in await events(fast, 10)]
        # The fast one waits, too: PUB does not go on until the slow one has read.
        published = await standstill(lambda: served.metric(COMMON.published))
        assert published < count
        heard += [it.event.offset for it in await events(fast, int(published) - 10)]
        assert not fast.poll(50)

        slowly = [it.event.offset for it in await events(slow, count)]
        heard += [it.event.offset for it in await events(fast, count - int(published))]

        assert slowly == heard == list(range(count))
        assert served.metric(DROPPED) == 0


async def standstill(value: Callable[[], float]) -> float:
    """Return a value once it has not changed for many turns of the loop."""
    last, turns = value(), 0
    while turns < 100:
        await asyncio.sleep(0.002)
        turns = turns + 1 if value() == last else 0
        last = value()
    return last

"""Deliveries to real receivers on loopback: at least once, by the schedule, in order if asked."""

import asyncio
import json
import random
from collections import Counter, defaultdict

import pytest
from aiohttp import web
from standardwebhooks import Webhook
from tests.broker.brokers import read_all
from tests.heads.webhooks.receiver import answer, receiving
from tests.heads.webhooks.served import SETTINGS, Served, serving, until

from mainstem.core.dead_letters import origin_of
from mainstem.core.errors import MainstemError
from mainstem.core.event import Event
from mainstem.log.memory import MemoryLog


async def test_an_event_is_delivered_signed_and_logged() -> None:
    async with receiving() as receiver, serving() as served:
        added = await served.add(receiver.url)
        served.publish(b'{"id": 1}')

        assert await receiver.got(1) == [b'{"id": 1}']

        headers, body = receiver.came[0]
        assert Webhook(added["secret"]).verify(body, headers) == {"id": 1}
        assert headers["content-type"] == "application/json"
        await until(lambda: served.unsettled() == 0)
        (logged,) = await served.attempts()
        assert (logged["verdict"], logged["status"], logged["attempt"]) == ("delivered", 204, 1)
        assert (logged["topic"], logged["offset"]) == ("orders", 0)
        assert logged["id"] == headers["webhook-id"]


async def test_a_failure_is_retried_by_the_schedule_with_the_same_id() -> None:
    statuses = iter([500, 503, 302, 404, 204])

    async def failing(_: web.Request, __: bytes) -> web.StreamResponse:
        return web.Response(status=next(statuses))

    async with receiving() as receiver, serving() as served:
        receiver.answering = failing
        await served.add(receiver.url, retries_ms=[5, 10, 15, 20])
        served.publish(b"1")

        await receiver.got(5)
        await until(lambda: served.unsettled() == 0)

        assert len({headers["webhook-id"] for headers, _ in receiver.came}) == 1
        logged = await served.attempts()
        assert [each.get("status") for each in logged] == [500, 503, 302, 404, 204]
        assert [each.get("retry_ms") for each in logged] == [5, 10, 15, 20, None]
        assert [each["attempt"] for each in logged] == [1, 2, 3, 4, 5]
        assert [each["verdict"] for each in logged] == [*["retry"] * 4, "delivered"]


async def test_at_the_end_of_the_schedule_an_event_becomes_a_dead_letter() -> None:
    async with receiving() as receiver, serving() as served:
        receiver.answering = answer(500)
        await served.add(receiver.url, retries_ms=[1, 1])
        served.publish(b"1")

        await until(lambda: bool(served.broker.topics("orders.dead")))
        await until(lambda: served.unsettled() == 0)

        (letter,) = read_all(served.broker, "orders.dead")
        origin = origin_of(letter)
        assert letter.value == b"1"
        assert origin is not None
        assert origin.queue == "webhook.shop"
        assert origin.deliveries == 3
        assert origin.reason == "status 500 from 127.0.0.1"
        assert [each["verdict"] for each in await served.attempts()] == ["retry", "retry", "dead"]
        assert len(receiver.came) == 3


async def test_410_disables_the_endpoint_until_it_is_resumed() -> None:
    async with receiving() as receiver, serving() as served:
        receiver.answering = answer(410)
        await served.add(receiver.url, retries_ms=[1])
        served.publish(b"1", b"2")
        await until(lambda: not receiver.now and bool(receiver.came))
        await until_status(served, "disabled")
        assert (await served.call("show", name="shop"))[
            "reason"
        ] == "the receiver answered 410 Gone"

        came = len(receiver.came)
        served.publish(b"3")
        # A test message shows that the receiver could be reached.
        assert (await served.call("test", name="shop"))["status"] == 410
        assert len(receiver.came) == came + 1
        assert served.unsettled() == 3

        receiver.answering = answer(200)
        await served.call("resume", name="shop")
        await until(lambda: served.unsettled() == 0)
        assert {b"1", b"2", b"3"} <= set(receiver.bodies()[came:])


async def until_status(served: Served, status: str) -> None:
    label = (status,)
    await until(lambda: ("mainstem_webhooks_endpoints", label, 1) in served.samples())
    assert (await served.call("show", name="shop"))["status"] == status


async def test_a_receiver_that_is_overloaded_gets_nothing_before_it_wants() -> None:
    """It says 1 s, and the schedule 1 ms: no second request comes before the second is over."""
    loop = asyncio.get_running_loop()
    times: list[float] = []

    async def overloaded(_: web.Request, __: bytes) -> web.StreamResponse:
        times.append(loop.time())
        status = 429 if len(times) == 1 else 204
        return web.Response(status=status, headers={"Retry-After": "1"})

    async with receiving() as receiver, serving() as served:
        receiver.answering = overloaded
        await served.add(receiver.url, retries_ms=[1] * 5)
        served.publish(b"1", b"2", b"3")

        await receiver.got(4)
        await until(lambda: served.unsettled() == 0)

        assert times[1] - times[0] >= 0.99
        assert Counter(receiver.bodies()) == {b"1": 2, b"2": 1, b"3": 1}


@pytest.mark.parametrize("seed", range(3))
async def test_with_order_endpoint_no_event_overtakes_another(seed: int) -> None:
    chance = random.Random(seed)
    done: list[bytes] = []

    async def failing(request: web.Request, body: bytes) -> web.StreamResponse:
        if (kind := chance.random()) < 0.2:
            return web.Response(status=500)
        if kind < 0.3:
            assert request.transport is not None
            request.transport.abort()
        done.append(body)
        return web.Response()

    async with receiving() as receiver, serving() as served:
        receiver.answering = failing
        await served.add(receiver.url, order="endpoint", retries_ms=[1] * 50)
        sent = [b"%d" % number for number in range(200)]
        served.publish(*sent)

        await until(lambda: served.unsettled() == 0)

        assert receiver.most == 1
        assert first_occurrences(done) == sent
        assert first_occurrences(receiver.bodies()) == sent


def first_occurrences(bodies: list[bytes]) -> list[bytes]:
    return list(dict.fromkeys(bodies))


async def test_with_order_key_events_of_one_key_do_not_overtake_each_other() -> None:
    chance = random.Random(4)

    async def failing(_: web.Request, __: bytes) -> web.StreamResponse:
        await asyncio.sleep(chance.random() / 1000)
        return web.Response(status=500 if chance.random() < 0.2 else 204)

    async with receiving() as receiver, serving() as served:
        receiver.answering = failing
        await served.add(receiver.url, order="key", payload="envelope", retries_ms=[1] * 50)
        events = [Event(b"%d" % number, b"k%d" % (number % 7)) for number in range(300)]
        served.broker.publish("orders", events)

        await until(lambda: served.unsettled() == 0)

        found = defaultdict(list)
        for body in receiver.bodies():
            event = json.loads(body)
            found[event["key"]].append(event["value"])
        for values in found.values():
            assert values == sorted(values)
        assert sum(len(set(values)) for values in found.values()) == 300
        assert receiver.most > 1


async def test_in_parallel_no_more_requests_are_under_way_than_allowed() -> None:
    async with receiving() as receiver, serving() as served:
        over = receiver.hold_after(20)
        await served.add(receiver.url, max_in_flight=4)
        served.publish(*[b"%d" % number for number in range(100)])

        await receiver.until(lambda: receiver.now == 4)
        over.set()
        await until(lambda: served.unsettled() == 0)

        assert receiver.most == 4
        assert sorted(receiver.bodies()) == sorted(b"%d" % number for number in range(100))


async def test_a_batch_has_several_events_and_one_signature() -> None:
    async with receiving() as receiver, serving() as served:
        added = await served.add(receiver.url, batch=10, payload="envelope", from_start=True)
        served.publish(*[b"%d" % number for number in range(25)])

        await until(lambda: served.unsettled() == 0)

        batches = [Webhook(added["secret"]).verify(body, it) for it, body in receiver.came]
        assert [each["value"] for batch in batches for each in batch] == list(range(25))
        assert max(map(len, batches)) == 10
        assert len(await served.attempts()) == 25


async def test_a_filter_leaves_events_out() -> None:
    async with receiving() as receiver, serving() as served:
        await served.add(receiver.url, filters=["value.type=paid", "key=eu-*"])
        served.publish(b'{"type": "paid", "n": 1}', b'{"type": "open", "n": 2}', key=b"eu-1")
        served.publish(b'{"type": "paid", "n": 3}', key=b"us-1")
        served.publish(b'{"type": "paid", "n": 4}', key=b"eu-2")

        await until(lambda: served.unsettled() == 0)

        assert [json.loads(body)["n"] for body in receiver.bodies()] == [1, 4]


async def test_a_pattern_gets_topics_that_are_created_later_from_their_first_event() -> None:
    async with receiving() as receiver, serving() as served:
        served.broker.create_topic("eu.old")
        served.publish(b"before", topic="eu.old")
        await served.add(receiver.url, topics="eu.*")
        served.publish(b"old", topic="eu.old")
        served.broker.create_topic("eu.new")
        served.broker.create_topic("us.new")
        served.publish(b"new", topic="eu.new")
        served.publish(b"other", topic="us.new")

        assert sorted(await receiver.got(2)) == [b"new", b"old"]

        served.broker.delete_topic("eu.old")
        served.publish(b"more", topic="eu.new")
        assert (await receiver.got(3))[2] == b"more"


async def test_events_from_before_are_delivered_if_wanted() -> None:
    async with receiving() as receiver, serving() as served:
        served.publish(b"before")
        await served.add(receiver.url, name="late")
        await served.add(receiver.url, name="all", from_start=True)
        served.publish(b"after")

        assert Counter(await receiver.got(3)) == {b"before": 1, b"after": 2}


async def test_events_of_a_paused_endpoint_wait() -> None:
    async with receiving() as receiver, serving() as served:
        await served.add(receiver.url)
        assert (await served.call("pause", name="shop"))["status"] == "paused"
        served.publish(b"1", b"2")
        (listed,) = await served.call("ls")
        assert (listed["waiting"], listed["reason"]) == (2, "by an operator")
        assert (await served.call("test", name="shop"))["status"] == 204
        assert len(receiver.came) == 1

        assert (await served.call("resume", name="shop"))["status"] == "active"

        assert sorted((await receiver.got(3))[1:]) == [b"1", b"2"]


async def test_an_endpoint_that_has_failed_for_long_is_paused_and_says_why(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with receiving() as receiver, serving() as served:
        receiver.answering = answer(500)
        await served.add(receiver.url, retries_ms=[20] * 100, pause_after_ms=1_000)
        served.publish(b"1")
        await receiver.got(2)
        shown = await served.call("show", name="shop")
        assert shown["failing_since_ms"] is not None

        await until_status(served, "paused")

        reason = (await served.call("show", name="shop"))["reason"]
        assert reason.startswith("every attempt of 1 seconds has failed, the last one: status 500")
        assert "endpoint shop is paused" in caplog.text
        assert ("mainstem_webhooks_stopped_total", ("paused",), 1) in served.samples()
        assert served.unsettled() == 1

        receiver.answering = answer(200)
        assert (await served.call("resume", name="shop"))["failing_since_ms"] is None
        await until(lambda: served.unsettled() == 0)


async def test_a_new_secret_overlaps_with_the_old_one() -> None:
    async with receiving() as receiver, serving() as served:
        old = (await served.add(receiver.url))["secret"]
        rotated = await served.call("rotate", name="shop", overlap_ms=60_000)
        new = rotated["secret"]
        served.publish(b"1")
        await receiver.got(1)
        headers, body = receiver.came[0]

        assert len(headers["webhook-signature"].split(" ")) == 2
        assert Webhook(old).verify(body, headers) == Webhook(new).verify(body, headers) == 1
        assert [each.get("until_ms") is None for each in rotated["endpoint"]["secrets"]] == [
            True,
            False,
        ]

        newest = (await served.call("rotate", name="shop", overlap_ms=0))["secret"]
        served.publish(b"2")
        await receiver.got(2)
        headers, body = receiver.came[1]
        assert len(headers["webhook-signature"].split(" ")) == 1
        assert Webhook(newest).verify(body, headers) == 2


async def test_events_are_replayed_by_id_and_by_range() -> None:
    async with receiving() as receiver, serving() as served:
        await served.add(receiver.url, retries_ms=[20] * 100)
        served.publish(*[b"%d" % number for number in range(10)])
        await receiver.got(10)
        ids = {body: headers["webhook-id"] for headers, body in receiver.came}
        await until(lambda: served.unsettled() == 0)

        assert (await served.call("replay", name="shop", id=ids[b"3"]))["offsets"] == 1
        assert (await receiver.got(11))[10] == b"3"
        assert receiver.came[10][0]["webhook-id"] == ids[b"3"]

        receiver.answering = answer(500)
        await served.call("replay", name="shop", topic="orders", first=5, last=7)
        await receiver.got(12)
        assert (await served.call("show", name="shop"))["replays"]
        receiver.answering = answer(200)
        await served.call("replay", name="shop", topic="orders", first=8)
        await until(lambda: set(receiver.bodies()[11:]) == {b"5", b"6", b"7", b"8", b"9"})
        await until(lambda: served.broker.queues.names() == {"webhook.shop"})
        assert not (await served.call("show", name="shop"))["replays"]


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"id": "msg_x"},
        {"id": "msg_ffff_0_1"},
        {"topic": "orders"},
        {"topic": "orders", "first": 1, "last": 0},
        {"topic": "orders", "first": -1},
        {"topic": "orders", "last": 5},
        {"topic": "orders", "partition": 3},
        {"topic": "nowhere", "first": 0},
    ],
)
async def test_a_replay_of_nothing_is_refused(given: dict[str, object]) -> None:
    async with receiving() as receiver, serving() as served:
        await served.add(receiver.url)

        with pytest.raises(MainstemError):
            await served.call("replay", name="shop", **given)


async def test_a_removed_endpoint_leaves_nothing_behind() -> None:
    async with receiving() as receiver, serving() as served:
        receiver.answering = answer(500)
        await served.add(receiver.url)
        served.publish(b"1")
        await receiver.got(1)
        await served.call("replay", name="shop", topic="orders", first=0)

        await served.call("rm", name="shop")

        assert await served.call("ls") == []
        assert served.broker.queues.names() == set()
        assert served.broker.definitions.open("webhooks").items("endpoint") == {}
        assert served.broker.definitions.open("webhooks").items("replay") == {}
        with pytest.raises(MainstemError, match="there is no endpoint 'shop'"):
            await served.call("show", name="shop")


async def test_a_definition_can_be_replaced_and_keeps_secret_and_backlog() -> None:
    async with receiving() as old, receiving() as new, serving() as served:
        old.answering = answer(500)
        secret = (await served.add(old.url))["secret"]
        served.publish(b"1")
        await old.got(1)
        with pytest.raises(MainstemError, match="there is an endpoint shop already"):
            await served.add(new.url)

        replaced = await served.add(new.url, replace=True, retries_ms=[1])

        assert replaced["secret"] == ""
        served.publish(b"2")
        await new.got(1)
        headers, body = new.came[0]
        assert Webhook(secret).verify(body, headers) == 2


async def test_what_was_not_delivered_is_delivered_after_a_restart() -> None:
    log = MemoryLog()
    given = {"secret": "file:signing", "retries_ms": [1] * 50}
    async with receiving() as receiver:
        async with serving(SETTINGS, log) as served:
            receiver.answering = answer(500)
            await served.add(receiver.url, **given)
            served.publish(*[b"%d" % number for number in range(20)])
            await receiver.got(5)
            await served.call("pause", name="shop")
        receiver.came.clear()
        receiver.answering = answer(200)
        async with serving(SETTINGS, log) as served:
            assert [it["status"] for it in await served.call("ls")] == ["paused"]
            assert served.unsettled() == 20
            await served.call("resume", name="shop")
            await until(lambda: served.unsettled() == 0)

    assert set(receiver.bodies()) == {b"%d" % number for number in range(20)}

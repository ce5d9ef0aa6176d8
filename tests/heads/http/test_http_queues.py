"""Queues over HTTP: leases with wait, each outcome, locks, order, dead letters and redrive."""

import asyncio
from typing import Any

import pytest
from tests.broker.brokers import Clock, new_broker, publish
from tests.heads.http.serving import EVENTS, TOPIC, Client, serve
from tests.heads.http.test_http_publishing import problem
from tests.heads.started import Started
from tests.heads.transport.echo import until

QUEUE = f"/topics/{TOPIC}/queues/{TOPIC}"
LEASES = f"{QUEUE}/leases"


async def lease(client: Client, path: str = LEASES, **asked: int) -> list[dict[str, Any]]:
    answer = await client.post(path, params=asked)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["deliveries"]
    return found


def values(deliveries: list[dict[str, Any]]) -> list[int]:
    return [each["event"]["value"] for each in deliveries]


async def settle(client: Client, delivery: dict[str, Any], action: str) -> int:
    """Settle a delivery by its own address; return the status."""
    path = f"{QUEUE}/deliveries/{delivery['delivery']}/{action}"
    return (await client.post(path)).status_code


def test_an_acked_event_never_comes_again_and_others_share_the_rest() -> None:
    async def scenario(server: Started, client: Client) -> None:
        publish(server.broker, TOPIC, b"1", b"2", b"3")

        first = await lease(client, limit=2)
        second = await lease(client, limit=2)
        assert (values(first), values(second)) == ([1, 2], [3])
        assert await lease(client) == []
        for each in first + second:
            assert await settle(client, each, "ack") == 204

        assert server.out() == 0
        assert (await client.get(QUEUE)).json()["windows"][0]["start"] == 3

    serve(scenario)


def test_each_action_does_what_it_says() -> None:
    async def scenario(server: Started, client: Client) -> None:
        publish(server.broker, TOPIC, b"1")

        (first,) = await lease(client)
        assert (first["count"], await settle(client, first, "nack")) == (1, 204)
        (second,) = await lease(client)
        assert (second["count"], await settle(client, second, "release")) == (2, 204)
        (third,) = await lease(client)
        assert (third["count"], await settle(client, third, "extend")) == (2, 204)
        assert await settle(client, third, "reject?reason=broken") == 204

        assert await lease(client) == []
        (letter,) = (await client.get(f"/topics/{TOPIC}/dead-letters")).json()["letters"]
        assert letter["event"]["value"] == 1
        assert letter["origin"]["reason"] == "broken"

    serve(scenario)


def test_several_deliveries_are_settled_in_one_request() -> None:
    async def scenario(server: Started, client: Client) -> None:
        publish(server.broker, TOPIC, b"1", b"2", b"3")
        found = await lease(client, limit=2) + await lease(client)
        names = [each["delivery"] for each in found]
        said = [
            {"delivery": names[0]},
            {"delivery": names[1], "action": "nack", "delay_ms": 0},
            {"delivery": names[2], "action": "extend"},
            {"delivery": names[0].replace("0.0.", "0.7."), "action": "ack"},
        ]

        answer = (await client.post(f"{QUEUE}/settlements", json={"settlements": said})).json()

        assert answer["settled"] == 3
        (refused,) = answer["refused"]
        assert refused["problem"]["failure"] == "stale"
        assert values(await lease(client, limit=9)) == [2]

    serve(scenario)


def test_a_delivery_is_settled_once() -> None:
    async def scenario(server: Started, client: Client) -> None:
        publish(server.broker, TOPIC, b"1")
        (delivery,) = await lease(client)

        assert await settle(client, delivery, "ack") == 204
        assert await settle(client, delivery, "ack") == 409
        assert await settle(client, delivery, "extend") == 409

    serve(scenario)


def test_a_lease_waits_for_the_next_event() -> None:
    async def scenario(server: Started, client: Client) -> None:
        waiting = [asyncio.create_task(lease(client, limit=5, wait_s=60)) for _ in range(3)]
        await until(lambda: len(server.context.parked) == 3)

        publish(server.broker, TOPIC, b"1", b"2", b"3")
        found = await asyncio.gather(*waiting)

        assert sorted(value for each in found for value in values(each)) == [1, 2, 3]

    serve(scenario)


def test_a_nacked_event_with_a_delay_comes_later() -> None:
    clock = Clock()
    broker = new_broker(clock=clock)
    broker.create_topic(TOPIC)

    async def scenario(server: Started, client: Client) -> None:
        publish(server.broker, TOPIC, b"1")
        (delivery,) = await lease(client)
        path = f"{QUEUE}/deliveries/{delivery['delivery']}/nack?delay_ms=60000"
        assert (await client.post(path)).status_code == 204

        assert await lease(client) == []
        clock.now_ms += 60_000

        assert values(await lease(client)) == [1]

    serve(scenario, broker=broker)


def test_who_goes_while_waiting_gets_nothing_and_others_do() -> None:
    async def scenario(server: Started, client: Client) -> None:
        leaving = asyncio.create_task(lease(client, wait_s=60))
        await until(lambda: len(server.context.parked) == 1)
        leaving.cancel()
        await until(lambda: not server.context.parked)

        publish(server.broker, TOPIC, b"1")

        assert values(await lease(client)) == [1]

    serve(scenario)


def test_a_queue_is_created_with_settings_shown_and_deleted() -> None:
    async def scenario(server: Started, client: Client) -> None:
        publish(server.broker, TOPIC, b"1")
        path = f"/topics/{TOPIC}/queues/own"
        problem(await client.get(path), 404, "not_found")

        created = await client.put(path, json={"lock_ms": 5000, "order": "key", "from": "latest"})
        assert created.status_code == 201
        changed = await client.put(path, json={"max_deliveries": 7})
        assert changed.status_code == 200

        shown = (await client.get(path)).json()["settings"]
        assert (shown["lock_ms"], shown["order"], shown["max_deliveries"]) == (5000, "key", 7)
        assert await lease(client, f"{path}/leases") == []
        assert (await client.delete(path)).status_code == 204
        problem(await client.delete(path), 404, "not_found")

    serve(scenario)


def test_a_queue_is_created_by_the_first_lease() -> None:
    async def scenario(server: Started, client: Client) -> None:
        publish(server.broker, TOPIC, b"1")

        assert values(await lease(client, f"/topics/{TOPIC}/queues/new/leases")) == [1]
        problem(await client.post("/topics/nothing/queues/new/leases"), 404, "not_found")

    serve(scenario)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (f"{QUEUE}/settlements", {"settlements": []}),
        (f"{QUEUE}/settlements", {"settlements": [{"delivery": "x"}]}),
        (f"{QUEUE}/settlements", {"settlements": [{"delivery": "0.0.1.a", "action": "x"}]}),
        (f"{QUEUE}/settlements", {"settlements": [{"delivery": "0.0.1.a", "delay_ms": -1}]}),
        (f"{QUEUE}/settlements", []),
        (f"{QUEUE}/deliveries/0.0.1/ack", None),
        (f"{QUEUE}/deliveries/a.0.1.x/ack", None),
        (f"{QUEUE}/deliveries/0.0.1.x/shred", None),
        (f"{LEASES}?limit=0", None),
        (f"{LEASES}?wait_s=x", None),
        (f"{LEASES[:-7]}%00/leases", None),
    ],
)
def test_what_means_nothing_is_refused(path: str, body: object) -> None:
    async def scenario(_: Started, client: Client) -> None:
        problem(await client.post(path, json=body), 400, "invalid")

    serve(scenario)


def test_settings_that_mean_nothing_are_refused() -> None:
    async def scenario(_: Started, client: Client) -> None:
        for body in ({"lock_ms": 0}, {"lock": 1}, {"order": "random"}, {"max_bytes": -1}, 7):
            problem(await client.put(QUEUE, json=body), 400, "invalid")

    serve(scenario)


def test_dead_letters_are_redriven_where_they_came_from() -> None:
    async def scenario(server: Started, client: Client) -> None:
        publish(server.broker, TOPIC, b"1", b"2", b"3")
        for delivery in await lease(client, limit=3):
            assert await settle(client, delivery, "reject") == 204
        letters = f"/topics/{TOPIC}/dead-letters"
        assert len((await client.get(letters)).json()["letters"]) == 3

        first = (await client.post(f"{letters}/redrive?limit=2")).json()
        assert first == {"redriven": {TOPIC: 2}, "kept": []}
        (left,) = (await client.get(letters)).json()["letters"]
        assert left["event"]["value"] == 3
        second = (await client.post(f"{letters}/redrive?to=other")).json()

        assert second["failure"] == "not_found"
        assert (await client.post("/topics/other/events", json=0)).is_success
        third = (await client.post(f"{letters}/redrive?to=other")).json()
        assert third == {"redriven": {"other": 1}, "kept": []}
        assert (await client.get(letters)).json() == {"letters": []}
        again = (await client.get(f"{EVENTS}?from=3")).json()["events"]
        assert [(event["value"], event.get("headers")) for event in again] == [(1, None), (2, None)]
        (moved,) = (await client.get("/topics/other/events?from=1")).json()["events"]
        assert moved["value"] == 3

    serve(scenario)


def test_a_dead_letter_whose_topic_is_gone_stays() -> None:
    async def scenario(server: Started, client: Client) -> None:
        await client.post("/topics/gone.dead/events", json=1)
        letters = "/topics/gone/dead-letters"

        answer = (await client.post(f"{letters}/redrive")).json()

        assert answer["redriven"] == {}
        assert answer["kept"][0]["offset"] == 0
        assert len((await client.get(letters)).json()["letters"]) == 1
        problem(await client.post("/topics/nothing/dead-letters/redrive"), 404, "not_found")

    serve(scenario)

"""Server-Sent Events: all events in order, ids to resume from, heartbeats, slow clients, ends."""

import asyncio
import json
import random

import pytest
from tests.broker.brokers import publish
from tests.heads.http.serving import EVENTS, TOPIC, Client, serve
from tests.heads.http.sockets import talk
from tests.heads.http.sse import ACCEPT, Message, following
from tests.heads.http.test_http_publishing import problem
from tests.heads.started import Started
from tests.heads.transport.echo import until

from mainstem.core.topic_settings import TopicSettings
from mainstem.heads.http.settings import HttpSettings

QUICK = HttpSettings(heartbeat_s=0.05, slow_client_s=0.2)


def values(messages: list[Message]) -> list[object]:
    return [message.value for message in messages]


def test_a_stream_has_what_was_there_and_what_comes() -> None:
    async def scenario(server: Started, client: Client) -> None:
        publish(server.broker, TOPIC, b"0", b"1")
        async with following(client, f"{EVENTS}?from=earliest") as stream:
            assert stream.response.headers["content-type"].startswith("text/event-stream")
            assert values(await stream.take(2)) == [0, 1]

            publish(server.broker, TOPIC, b'"two"', b'{"a":\n3}')

            (two, three) = await stream.take(2)
            assert (two.value, two.id) == ("two", "0:3")
            assert (three.value, three.id) == ({"a": 3}, "0:4")

    serve(scenario)


def test_a_stream_begins_at_the_end_and_says_where_that_is() -> None:
    async def scenario(server: Started, client: Client) -> None:
        publish(server.broker, TOPIC, b"0", b"1")
        async with following(client, EVENTS) as stream:
            assert await stream.begun() == "0:2"
            publish(server.broker, TOPIC, b"2")

            assert values(await stream.take(1)) == [2]

    serve(scenario)


def test_a_client_that_resumes_again_and_again_gets_every_event_once() -> None:
    async def scenario(server: Started, client: Client) -> None:
        server.broker.create_topic("many", TopicSettings(partitions=3))
        chance = random.Random(7)
        place, found = "", list[tuple[int, object]]()

        for each in range(40):
            publish(
                server.broker,
                "many",
                *(b"%d" % (each * 5 + n) for n in range(5)),
                partition=each % 3,
            )
            resume = {"last-event-id": place} if place else {}
            path = "/topics/many/events?from=earliest"
            async with following(client, path, resume) as stream:
                for message in await stream.take(chance.randint(1, 4)):
                    event = json.loads(message.data)
                    found.append((event["partition"], event["value"]))
                    place = message.id
        async with following(client, "/topics/many/events", {"last-event-id": place}) as stream:
            while len(found) < 200:
                (message,) = await stream.take(1)
                event = json.loads(message.data)
                found.append((event["partition"], event["value"]))

        assert len(found) == len(set(found)) == 200
        for partition in range(3):
            own = [value for at, value in found if at == partition]
            assert own == [n for n in range(200) if n // 5 % 3 == partition]

    serve(scenario)


def test_heartbeats_say_the_position_also_behind_events_that_a_filter_left_out() -> None:
    async def scenario(server: Started, client: Client) -> None:
        async with following(client, f"{EVENTS}?filter=value>5") as stream:
            assert await stream.begun() == "0:0"
            publish(server.broker, TOPIC, b"1", b"2")

            async for block in stream.blocks():
                assert not block.data
                if block.id == "0:2":
                    break
            publish(server.broker, TOPIC, b"6")
            assert values(await stream.take(1)) == [6]

    serve(scenario, QUICK)


def test_clients_with_keys_filters_and_partitions_get_their_own_events() -> None:
    async def scenario(server: Started, client: Client) -> None:
        server.broker.create_topic("many", TopicSettings(partitions=2))
        path = "/topics/many/events?from=earliest"
        for partition in (0, 1):
            for key in ("a", "b"):
                body = f'{{"p":{partition},"k":"{key}"}}'
                asked = f"/topics/many/events?partition={partition}&key={key}"
                await client.post(asked, content=body)

        async def read(more: str) -> list[object]:
            async with following(client, path + more) as stream:
                return values(await stream.take(2))

        first, second, third = await asyncio.gather(
            read("&key=a"), read("&partition=1"), read("&filter=value.k==b")
        )

        assert sorted(map(str, first)) == ["{'p': 0, 'k': 'a'}", "{'p': 1, 'k': 'a'}"]
        assert second == [{"p": 1, "k": "a"}, {"p": 1, "k": "b"}]
        assert sorted(map(str, third)) == ["{'p': 0, 'k': 'b'}", "{'p': 1, 'k': 'b'}"]

    serve(scenario)


def test_partitions_that_are_added_are_followed() -> None:
    async def scenario(server: Started, client: Client) -> None:
        async with following(client, EVENTS) as stream:
            await stream.begun()
            server.broker.alter_topic(TOPIC, partitions=3)
            publish(server.broker, TOPIC, b"7", partition=2)

            (message,) = await stream.take(1)
            assert (message.value, message.id) == (7, "0:0,1:0,2:1")

    serve(scenario)


def test_what_retention_deleted_is_told() -> None:
    async def scenario(server: Started, client: Client) -> None:
        publish(server.broker, TOPIC, b"0", b"1", b"2")
        server.broker.trim(TOPIC, 0, 2)

        async with following(client, f"{EVENTS}?from=0:0") as stream:
            missed, event = await stream.take(2)

        assert (missed.event, json.loads(missed.data)) == ("missed", {"missed": 2})
        assert (event.event, event.value) == ("message", 2)

    serve(scenario)


def test_a_deleted_topic_ends_the_stream_with_its_error() -> None:
    async def scenario(server: Started, client: Client) -> None:
        async with following(client, EVENTS) as stream:
            await stream.begun()
            server.broker.delete_topic(TOPIC)

            (message,) = await stream.take(1)
            assert message.event == "error"
            assert json.loads(message.data)["failure"] == "not_found"
            assert await stream.take(1) == []
        problem(await client.get(EVENTS, headers=ACCEPT), 404, "not_found")

    serve(scenario)


def test_a_stream_ends_when_the_server_drains() -> None:
    async def scenario(server: Started, client: Client) -> None:
        async with following(client, EVENTS) as stream:
            await stream.begun()
            server.context.drain()

            assert await stream.take(1) == []

    serve(scenario)


@pytest.mark.parametrize("asked", ["to=0:5", "limit=5", "wait_s=5", "filter=x", "from=x"])
def test_what_a_stream_cannot_do_is_refused(asked: str) -> None:
    async def scenario(_: Started, client: Client) -> None:
        problem(await client.get(f"{EVENTS}?{asked}", headers=ACCEPT), 400, "invalid")
        bad = await client.get(EVENTS, headers={**ACCEPT, "last-event-id": "nonsense"})
        problem(bad, 400, "invalid")

    serve(scenario)


@pytest.mark.parametrize(("place", "status"), [("0:3", 400), ("0:1,1:1", 404)])
def test_a_stream_is_not_resumed_behind_the_end_or_in_a_partition_that_is_not_there(
    place: str, status: int
) -> None:
    async def scenario(server: Started, client: Client) -> None:
        # As after the loss of a topic in memory: what comes now would be skipped without a word.
        publish(server.broker, TOPIC, b"1", b"2")
        for path, headers in (
            (EVENTS, {"last-event-id": place}),
            (f"{EVENTS}?from={place}", {}),
        ):
            answer = await client.get(path, headers={**ACCEPT, **headers})
            problem(answer, status, "invalid" if status == 400 else "not_found")
        async with talk(server) as socket:
            said = await socket.ask(do="subscribe", id="s", topic=TOPIC, from_=place)
            assert said["problem"]["status"] == status
        async with following(client, EVENTS, {"last-event-id": "0:2"}) as stream:
            publish(server.broker, TOPIC, b"3")
            assert values(await stream.take(1)) == [3]

    serve(scenario)


def test_the_head_of_a_stream_has_no_stream() -> None:
    async def scenario(_: Started, client: Client) -> None:
        answer = await client.head(EVENTS, headers=ACCEPT)

        assert answer.headers["content-type"].startswith("text/event-stream")

    serve(scenario)


def test_a_client_that_does_not_read_is_dropped_and_told_and_resumes_without_loss() -> None:
    count, kib = 4_000, 4

    async def scenario(server: Started, client: Client) -> None:
        text = "x" * (kib * 1024)
        for first in range(0, count, 500):
            batch = [b'["%d","%b"]' % (n, text.encode()) for n in range(first, first + 500)]
            publish(server.broker, TOPIC, *batch)
        path = f"{EVENTS}?from=earliest"
        async with following(client, path) as stream:
            found = await stream.take(1)
            slow = metric(server, "mainstem_http_slow_clients_total")
            await until(lambda: metric(server, "mainstem_http_slow_clients_total") > slow)

            async for message in stream.messages():
                found.append(message)
        assert found[-1].event == "slow"
        assert len(found) < count
        del found[-1]
        place = found[-1].id
        assert stream.id == place
        async with following(client, path, {"last-event-id": place}) as stream:
            async for message in stream.messages():
                found.append(message)
                if len(found) == count:
                    break

        assert [int(json.loads(it.data)["value"][0]) for it in found] == list(range(count))

    serve(scenario, QUICK)


def metric(server: Started, name: str) -> float:
    return sum(sample[1] for each, sample in server.running.samples() if each.name == name)

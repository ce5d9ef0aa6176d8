"""Ranges are read by GET: by position, time, key, filter, as JSON or lines; long poll."""

import asyncio
from collections.abc import Sequence

import pytest
from tests.broker.brokers import NOW_MS, publish
from tests.heads.http.serving import EVENTS, TOPIC, Client, serve
from tests.heads.http.test_http_publishing import problem
from tests.heads.started import Started
from tests.heads.transport.echo import until

from mainstem.core.event import Event
from mainstem.core.topic_settings import TopicSettings

LINES = {"accept": "application/x-ndjson"}


def values(events: Sequence[dict[str, object]]) -> list[object]:
    return [event["value"] for event in events]


def test_a_range_ends_with_the_position_where_the_next_one_begins() -> None:
    async def scenario(server: Started, client: Client) -> None:
        publish(server.broker, TOPIC, *(b"%d" % each for each in range(7)))
        found: list[object] = []
        place = "earliest"

        for _ in range(4):
            answer = await client.get(EVENTS, params={"from": place, "limit": 3})
            assert answer.headers["mainstem-next"] == answer.json()["next"]
            found.append(values(answer.json()["events"]))
            place = answer.json()["next"]

        assert found == [[0, 1, 2], [3, 4, 5], [6], []]
        assert place == "0:7"

    serve(scenario)


def test_all_partitions_are_read_and_each_in_order() -> None:
    async def scenario(server: Started, client: Client) -> None:
        server.broker.create_topic("many", TopicSettings(partitions=3))
        for partition in range(3):
            publish(
                server.broker, "many", *(b"%d" % each for each in range(5)), partition=partition
            )
        by_partition: dict[int, list[object]] = {0: [], 1: [], 2: []}
        place = "earliest"

        for _ in range(6):
            answer = (
                await client.get("/topics/many/events", params={"from": place, "limit": 4})
            ).json()
            place = answer["next"]
            for event in answer["events"]:
                by_partition[event["partition"]].append(event["value"])

        assert by_partition == {each: [0, 1, 2, 3, 4] for each in range(3)}
        assert place == "0:5,1:5,2:5"

    serve(scenario)


def test_reading_starts_at_an_offset_a_position_or_a_time() -> None:
    async def scenario(server: Started, client: Client) -> None:
        server.broker.create_topic("many", TopicSettings(partitions=2))
        for partition in (0, 1):
            events = [Event(b"%d" % at, None, (), NOW_MS + 1000 * at) for at in range(4)]
            server.broker.publish("many", events, partition).durable.wait(30)

        async def read(**asked: object) -> list[tuple[int, int]]:
            answer = await client.get("/topics/many/events", params=asked)  # type: ignore[arg-type]
            assert answer.is_success, answer.text
            return sorted((event["partition"], event["value"]) for event in answer.json()["events"])

        assert await read(**{"from": "2", "partition": 1}) == [(1, 2), (1, 3)]
        assert await read(**{"from": "0:3,1:2"}) == [(0, 3), (1, 2), (1, 3)]
        assert await read(**{"from": "1:4"}) == [(0, 0), (0, 1), (0, 2), (0, 3)]
        assert await read(**{"from": "2023-11-14T22:13:23Z"}) == [(0, 3), (1, 3)]
        assert await read(**{"from": "2023-11-14T23:13:23+01:00"}) == [(0, 3), (1, 3)]
        assert await read(**{"from": "0:1,1:1", "to": "0:2,1:3"}) == [(0, 1), (1, 1), (1, 2)]
        assert await read(**{"from": "latest"}) == []
        problem(await client.get("/topics/many/events?from=2"), 400, "invalid")

    serve(scenario)


@pytest.mark.parametrize(
    "asked",
    [
        "from=yesterday",
        "from=99",
        "from=-1",
        "from=0:1:2",
        "from=2026-01-01T00:00:00",
        "from=99999999999999999999",
        "limit=0",
        "limit=100000000",
        "limit=a",
        "wait_s=-1",
        "wait_s=100000",
        "partition=x",
        "filter=a",
        "filter=value.a",
        "&".join(["filter=key==a"] * 17),
        "form=earliest",
        "from=earliest&offset=3",
    ],
)
def test_what_cannot_be_asked_for_is_refused(asked: str) -> None:
    async def scenario(server: Started, client: Client) -> None:
        publish(server.broker, TOPIC, b"1")

        problem(await client.get(f"{EVENTS}?{asked}"), 400, "invalid")

    serve(scenario)


def test_a_partition_that_is_not_there_is_not_found() -> None:
    async def scenario(server: Started, client: Client) -> None:
        publish(server.broker, TOPIC, b"1")
        problem(await client.get(f"{EVENTS}?partition=1"), 404, "not_found")
        problem(await client.get(f"{EVENTS}?from=1:0"), 404, "not_found")
        problem(await client.get(f"{EVENTS}?from=0:1&to=0:1,7:0"), 404, "not_found")
        problem(await client.get("/topics/nothing/events"), 404, "not_found")

    serve(scenario)


def test_a_position_that_retention_deleted_is_refused_and_says_where_events_begin() -> None:
    async def scenario(server: Started, client: Client) -> None:
        publish(server.broker, TOPIC, b"0", b"1", b"2")
        server.broker.trim(TOPIC, 0, 2)

        detail = problem(await client.get(f"{EVENTS}?from=0:1"), 400, "invalid")

        assert "2 to 3" in detail
        assert values((await client.get(EVENTS)).json()["events"]) == [2]

    serve(scenario)


def test_filters_select_by_key_header_and_json_field() -> None:
    async def scenario(server: Started, client: Client) -> None:
        events = [
            Event(b'{"id":0,"who":{"name":"ann"},"ok":true}', b"a", (("trace", b"x1"),)),
            Event(b'{"id":1,"who":{"name":"bob"},"tags":["red","big"]}', b"b", (("trace", b"y"),)),
            Event(b"plain", b"a"),
            Event(b'{"id":3,"amount":7.5}', None),
        ]
        server.broker.publish(TOPIC, events).durable.wait(30)

        async def offsets(*asked: str, **more: str) -> list[int]:
            query = {"filter": list(asked), **more}
            answer = (await client.get(EVENTS, params=query)).json()
            assert answer["next"] == "0:4"
            return [event["offset"] for event in answer["events"]]

        assert await offsets(key="a") == [0, 2]
        assert await offsets("key==b") == [1]
        assert await offsets("key!=b") == [0, 2]
        assert await offsets("header.trace~x") == [0]
        assert await offsets("value.who.name==bob") == [1]
        assert await offsets("value.tags.1==big") == [1]
        assert await offsets("value.id>=1") == [1, 3]
        assert await offsets("value.amount<8", "value.id>2") == [3]
        assert await offsets("value.ok==true") == [0]
        assert await offsets("value.ok==1") == []
        assert await offsets("value~lai") == [2]
        assert await offsets("value.id>1", key="a") == []

    serve(scenario)


def test_lines_are_one_event_each_even_if_a_value_has_line_ends() -> None:
    async def scenario(server: Started, client: Client) -> None:
        publish(server.broker, TOPIC, b'{\n "a": 1.50\r\n}', b'"b"')

        answer = await client.get(EVENTS, headers=LINES)

        assert answer.headers["content-type"] == "application/x-ndjson"
        assert answer.headers["mainstem-next"] == "0:2"
        assert [line.rpartition('"value":')[2] for line in answer.text.splitlines()] == [
            '{"a":1.50}}',
            '"b"}',
        ]

    serve(scenario)


def test_an_answer_of_another_kind_is_not_acceptable() -> None:
    async def scenario(_: Started, client: Client) -> None:
        answer = await client.get(EVENTS, headers={"accept": "image/png"})

        assert answer.status_code == 406

    serve(scenario)


def test_a_long_poll_is_answered_by_the_next_event_that_passes_its_filter() -> None:
    async def scenario(server: Started, client: Client) -> None:
        publish(server.broker, TOPIC, b"0")
        waiting = asyncio.create_task(client.get(f"{EVENTS}?wait_s=60&filter=value>1"))
        await until(lambda: bool(server.context.parked))

        publish(server.broker, TOPIC, b"1")
        publish(server.broker, TOPIC, b"2")

        answer = (await waiting).json()
        assert values(answer["events"]) == [2]
        assert answer["next"] == "0:3"
        assert not server.context.parked

    serve(scenario)


def test_a_long_poll_whose_time_is_up_answers_with_no_events() -> None:
    async def scenario(_: Started, client: Client) -> None:
        answer = (await client.get(f"{EVENTS}?wait_s=1")).json()

        assert answer == {"events": [], "next": "0:0"}

    serve(scenario)


def test_a_long_poll_ends_when_its_peer_goes() -> None:
    async def scenario(server: Started, client: Client) -> None:
        waiting = asyncio.create_task(client.get(f"{EVENTS}?wait_s=60"))
        await until(lambda: bool(server.context.parked))

        waiting.cancel()

        await until(lambda: not server.context.parked)

    serve(scenario)


def test_a_long_poll_ends_when_its_topic_is_deleted() -> None:
    async def scenario(server: Started, client: Client) -> None:
        broker = server.broker
        broker.create_topic("short")
        waiting = asyncio.create_task(client.get("/topics/short/events?wait_s=60"))
        await until(lambda: bool(server.context.parked))

        broker.delete_topic("short")

        problem(await waiting, 404, "not_found")

    serve(scenario)

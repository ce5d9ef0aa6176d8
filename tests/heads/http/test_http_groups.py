"""Groups over HTTP: positions are stored under a name, and reading goes on there."""

import pytest
from tests.broker.brokers import publish
from tests.heads.http.serving import EVENTS, TOPIC, Client, serve
from tests.heads.http.sse import following
from tests.heads.http.test_http_publishing import problem
from tests.heads.started import Started

from mainstem.core.topic_settings import TopicSettings

GROUP = f"/topics/{TOPIC}/groups/readers"


def test_a_group_reads_on_where_it_committed() -> None:
    async def scenario(server: Started, client: Client) -> None:
        publish(server.broker, TOPIC, *(b"%d" % each for each in range(6)))
        found: list[object] = []

        for _ in range(3):
            answer = (await client.get(f"{EVENTS}?group=readers&limit=2")).json()
            found += [event["value"] for event in answer["events"]]
            committed = await client.put(GROUP, json={"position": answer["next"]})
            assert committed.status_code == 204

        assert found == [0, 1, 2, 3, 4, 5]
        publish(server.broker, TOPIC, b"6")
        async with following(client, f"{EVENTS}?group=readers") as stream:
            assert [message.value for message in await stream.take(1)] == [6]
        async with following(client, f"{EVENTS}?group=others") as stream:
            assert [message.value for message in await stream.take(2)] == [0, 1]
        polled = (await client.get(f"{EVENTS}?group=readers&wait_s=5")).json()
        assert [event["value"] for event in polled["events"]] == [6]

    serve(scenario)


def test_a_group_is_shown_with_its_lag_and_deleted() -> None:
    async def scenario(server: Started, client: Client) -> None:
        server.broker.create_topic("many", TopicSettings(partitions=2))
        publish(server.broker, "many", b"1", b"2", partition=1)
        path = "/topics/many/groups/g"
        problem(await client.get(path), 404, "not_found")

        await client.put(path, json={"position": "1:1"})

        assert (await client.get(path)).json() == {
            "group": "g",
            "topic": "many",
            "position": "1:1",
            "lag": 1,
            "partitions": [
                {"partition": 0, "offset": None, "lag": 0},
                {"partition": 1, "offset": 1, "lag": 1},
            ],
        }
        assert (await client.delete("/groups/g")).status_code == 204
        problem(await client.get(path), 404, "not_found")
        problem(await client.delete("/groups/g"), 404, "not_found")

    serve(scenario)


def test_the_names_of_groups_and_queues_may_have_any_printable_characters() -> None:
    async def scenario(_: Started, client: Client) -> None:
        name, at = "team/ä b%2F", "team%2F%C3%A4%20b%252F"
        (await client.post(EVENTS, json=1)).raise_for_status()

        done = await client.put(f"/topics/{TOPIC}/groups/{at}", json={"position": "0:1"})
        assert done.status_code == 204
        assert (await client.get(f"/topics/{TOPIC}/groups/{at}")).json()["group"] == name
        read = await client.get(EVENTS, params={"group": name})
        assert read.json()["next"] == "0:1"
        assert (await client.delete(f"/groups/{at}")).status_code == 204
        made = await client.put(f"/topics/{TOPIC}/queues/{at}")
        assert (made.status_code, made.json()["name"]) == (201, name)
        problem(await client.put(f"/topics/{TOPIC}/queues/a%FF"), 400, "")
        problem(await client.post("/topics/..%2F..%2Fetc/events", json=1), 400, "invalid")

    serve(scenario)


@pytest.mark.parametrize(
    ("position", "status"), [("0:9", 400), ("", 400), ("x", 400), ("0:-1", 400), ("7:0", 404)]
)
def test_a_position_that_is_not_there_is_refused(position: str, status: int) -> None:
    async def scenario(_: Started, client: Client) -> None:
        answer = await client.put(GROUP, json={"position": position})

        assert answer.status_code == status

    serve(scenario)


def test_a_group_with_members_of_another_protocol_is_not_committed_to() -> None:
    async def scenario(server: Started, client: Client) -> None:
        publish(server.broker, TOPIC, b"1")
        server.broker.join("readers", [TOPIC], lambda: None)

        problem(await client.put(GROUP, json={"position": "0:1"}), 409, "conflict")

    serve(scenario)

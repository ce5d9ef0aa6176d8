"""A repeated Idempotency-Key gets the first answer, also after a restart, and publishes nothing."""

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.broker.brokers import Clock, new_broker, publish, read_all
from tests.heads.http.serving import (
    EVENTS,
    NDJSON,
    TOPIC,
    Client,
    create_full_topic,
    serve,
    serving,
)
from tests.heads.http.test_http_publishing import problem
from tests.heads.started import Started
from tests.heads.transport.echo import run, until

from mainstem.auth import Auth, Credentials, Peer, Principal, deny_all
from mainstem.core.event import Event
from mainstem.core.topic_settings import TopicSettings
from mainstem.heads.http.adapter.idempotency import KEPT_MS, KIND, IdempotencyKeys
from mainstem.heads.http.formats.bodies import Parsed
from mainstem.log.memory import MemoryLog

KEY = {"idempotency-key": "order-1"}


def test_a_repeated_request_gets_the_first_answer() -> None:
    async def scenario(server: Started, client: Client) -> None:
        publish(server.broker, TOPIC, b"0")

        first = await client.post(EVENTS, json={"id": 1}, headers=KEY)
        publish(server.broker, TOPIC, b"2")
        again = await client.post(EVENTS, json={"id": 1}, headers=KEY)
        quoted = await client.post(EVENTS, json={"id": 1}, headers={"idempotency-key": '"order-1"'})
        other = await client.post(EVENTS, json={"id": 1}, headers={"idempotency-key": "order-2"})

        assert first.json() == again.json() == quoted.json()
        assert first.json() == {"positions": [{"partition": 0, "offset": 1}]}
        assert other.json() == {"positions": [{"partition": 0, "offset": 3}]}
        assert len(read_all(server.broker, TOPIC)) == 4

    serve(scenario)


@settings(max_examples=20, deadline=None)
@given(
    keys=st.lists(st.sampled_from(["", "a", "b", "c", "d"]), min_size=1, max_size=8),
    before=st.integers(0, 3),
    trimmed=st.booleans(),
)
def test_after_a_restart_the_first_answer_holds(
    keys: list[str], before: int, *, trimmed: bool
) -> None:
    log = MemoryLog()
    kind = {"content-type": "application/vnd.mainstem.events+json", **KEY}
    body = "\n".join(
        f'{{"value":{n}' + (f',"key":"{key}"' if key else "") + "}" for n, key in enumerate(keys)
    )

    async def scenario() -> None:
        broker = new_broker(log)
        broker.create_topic("many", TopicSettings(partitions=3))
        for each in range(before):
            publish(broker, "many", b"x", partition=each % 3)
        async with serving(broker=broker) as (_, client):
            first = (await client.post("/topics/many/events", content=body, headers=kind)).json()
        for partition in range(3):
            publish(broker, "many", b"y", partition=partition)
            if trimmed:
                broker.trim("many", partition, broker.bounds("many", partition).tail)
        async with serving(broker=new_broker(log)) as (server, client):
            again = (await client.post("/topics/many/events", content=body, headers=kind)).json()

            assert again == first
            assert len(again["positions"]) == len(keys)
            for partition in range(3):
                found = read_all(server.broker, "many", partition)
                mine = [it for it in found if it.value not in (b"x", b"y")]
                for event in mine:
                    place = again["positions"][int(event.value or b"")]
                    assert place == {"partition": partition, "offset": event.offset}

    run("uvloop", scenario)


def test_a_key_that_comes_again_with_other_events_is_refused() -> None:
    async def scenario(server: Started, client: Client) -> None:
        assert (await client.post(EVENTS, json=1, headers=KEY)).is_success

        for answer in (
            await client.post(EVENTS, json=2, headers=KEY),
            await client.post(f"{EVENTS}?key=k", json=1, headers=KEY),
            await client.post(f"{EVENTS}?partition=0", json=1, headers=KEY),
            await client.post(EVENTS, content=b"1\n1", headers=KEY | NDJSON),
        ):
            assert answer.status_code == 422
        assert len(read_all(server.broker, TOPIC)) == 1
        assert (await client.post("/topics/other/events", json=2, headers=KEY)).is_success

    serve(scenario)


def test_requests_with_the_same_key_at_once_publish_one_time() -> None:
    async def scenario(server: Started, client: Client) -> None:
        create_full_topic(server.broker)
        asked = [client.post("/topics/small/events", json=1, headers=KEY) for _ in range(8)]

        waiting = asyncio.gather(*asked)
        await until(lambda: len(server.context.parked) == 8)
        server.broker.commit("group", {("small", 0): 1})

        answers = [answer.json() for answer in await waiting]
        assert answers == [{"positions": [{"partition": 0, "offset": 1}]}] * 8

    serve(scenario)


def test_a_bad_key_or_partition_is_refused() -> None:
    async def scenario(server: Started, client: Client) -> None:
        for key in ("", "a" * 256, '""'):
            bad = await client.post(EVENTS, json=1, headers={"idempotency-key": key})
            problem(bad, 400, "invalid")
        problem(await client.post(f"{EVENTS}?partition=5", json=1, headers=KEY), 404, "not_found")

        assert read_all(server.broker, TOPIC) == []

    serve(scenario)


def test_a_user_without_the_permission_publishes_nothing_with_a_key() -> None:
    async def scenario(server: Started, client: Client) -> None:
        answer = await client.post(EVENTS, json=1, headers=KEY)

        problem(answer, 403, "denied")
        assert read_all(server.broker, TOPIC) == []

    serve(scenario, auth=Auth(authorize=deny_all))


def test_a_key_belongs_to_its_user() -> None:
    def authenticate(_mechanism: str, credentials: Credentials, _peer: Peer) -> Principal:
        return Principal(credentials.user)

    async def scenario(server: Started, client: Client) -> None:
        ann = await client.post(EVENTS, json=1, headers=KEY, auth=("ann", "x"))
        bob = await client.post(EVENTS, json=2, headers=KEY, auth=("bob", "x"))

        assert (ann.json()["positions"], bob.json()["positions"]) == (
            [{"partition": 0, "offset": 0}],
            [{"partition": 0, "offset": 1}],
        )
        assert len(read_all(server.broker, TOPIC)) == 2

    serve(scenario, auth=Auth(authenticate=authenticate))


def test_keys_are_kept_for_a_day_and_no_more_than_so_many() -> None:
    async def scenario(server: Started, _: Client) -> None:
        broker, clock = server.broker, server.context.now_ms
        assert isinstance(clock, Clock)
        keys = IdempotencyKeys(server.context, max_keys=3)
        peer = Peer("127.0.0.1:1")

        async def send(key: str) -> int:
            parsed = Parsed([Event(b"1")])
            return (await keys.publish(peer, broker, TOPIC, parsed, key))[0].offset

        assert [await send(key) for key in ("a", "b", "c", "d", "b")] == [0, 1, 2, 3, 1]
        assert len(broker.definitions.open("http").items(KIND)) == 3
        assert await send("a") == 4
        clock.now_ms += KEPT_MS + 1
        assert await send("d") == 5
        assert len(broker.definitions.open("http").items(KIND)) == 1

    serve(scenario)

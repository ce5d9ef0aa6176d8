"""WebSockets: topics with positions and credit, queues with acknowledgements, publishing, ends."""

import asyncio

import pytest
from tests.broker.brokers import publish, read_all
from tests.heads.http.serving import TOPIC, Client, create_full_topic, serve
from tests.heads.http.sockets import talk
from tests.heads.http.test_http_event_stream import metric
from tests.heads.started import Started
from tests.heads.transport.echo import until
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from mainstem.auth import Auth, Principal, deny_all
from mainstem.core.errors import Unauthenticated
from mainstem.core.event import Event
from mainstem.heads.http.settings import HttpSettings


def test_a_subscription_gets_what_was_there_and_what_comes_with_positions() -> None:
    async def scenario(server: Started, _: Client) -> None:
        publish(server.broker, TOPIC, b"0", b"1")
        async with talk(server) as socket:
            await socket.send(do="subscribe", id="s", topic=TOPIC, from_="earliest")
            first = await socket.take()
            assert first["type"] == "event"
            assert (first["id"], first["position"], first["event"]["value"]) == ("s", "0:1", 0)
            assert (await socket.take())["event"]["value"] == 1

            publish(server.broker, TOPIC, b"2")

            assert (await socket.take())["event"]["value"] == 2
            assert metric(server, "mainstem_http_streams") == 1
        await until(lambda: metric(server, "mainstem_http_streams") == 0)
        assert not server.context.parked

    serve(scenario)


def test_credit_limits_what_is_sent() -> None:
    async def scenario(server: Started, _: Client) -> None:
        publish(server.broker, TOPIC, *(b"%d" % each for each in range(9)))
        async with talk(server) as socket:
            await socket.send(do="subscribe", id="s", topic=TOPIC, from_="earliest", credit=2)
            found = await socket.take_all(2)
            assert (await socket.ask(do="publish", topic="other", events=[{"value": 1}]))[
                "type"
            ] == ("published")
            await socket.send(do="credit", id="s", credit=3)
            found += await socket.take_all(3)

            assert [each["event"]["value"] for each in found] == [0, 1, 2, 3, 4]
            assert (await socket.ask(do="unsubscribe", id="s"))["type"] == "done"

    serve(scenario)


def test_filters_keys_partitions_and_new_partitions() -> None:
    async def scenario(server: Started, _: Client) -> None:
        async with talk(server) as socket:
            await socket.ask(do="subscribe", id="a", topic=TOPIC, filters=["value>1"])
            await socket.ask(do="subscribe", id="k", topic=TOPIC, key="k")
            publish(server.broker, TOPIC, b"1", b"2")
            assert (await socket.take())["event"]["value"] == 2
            server.broker.publish(TOPIC, [Event(b"0", b"k")]).durable.wait(30)
            assert (await socket.take())["id"] == "k"

            server.broker.alter_topic(TOPIC, partitions=2)
            publish(server.broker, TOPIC, b"7", partition=1)

            assert (await socket.take())["position"] == "0:3,1:1"

    serve(scenario)


def test_deliveries_of_a_queue_are_settled_and_give_their_credit_back() -> None:
    async def scenario(server: Started, _: Client) -> None:
        publish(server.broker, TOPIC, *(b"%d" % each for each in range(5)))
        async with talk(server) as socket:
            await socket.send(do="subscribe", id="q", topic=TOPIC, queue=TOPIC, credit=2)
            first, second = await socket.take_all(2)
            assert (first["type"], first["count"], first["event"]["value"]) == ("delivery", 1, 0)
            assert server.out() == 2

            said = await socket.ask(do="settle", id="q", deliveries=[first["delivery"]])
            third = await socket.take()
            assert (said["type"], third["event"]["value"]) == ("done", 2)
            await socket.send(
                do="settle", id="q", deliveries=[second["delivery"]], action="reject", reason="bad"
            )
            assert (await socket.take())["event"]["value"] == 3
            again = await socket.ask(do="settle", id="q", deliveries=[first["delivery"]])
            assert again["problem"]["failure"] == "stale"
            assert len(read_all(server.broker, f"{TOPIC}.dead")) == 1

    serve(scenario)


def test_what_was_not_settled_comes_to_others_when_the_client_goes() -> None:
    async def scenario(server: Started, _: Client) -> None:
        publish(server.broker, TOPIC, b"1")
        async with talk(server) as other:
            async with talk(server) as socket:
                await socket.send(do="subscribe", id="q", topic=TOPIC, queue=TOPIC)
                assert (await socket.take())["count"] == 1
                await other.ask(do="subscribe", id="q", topic=TOPIC, queue=TOPIC)

            found = await other.take()

            assert (found["type"], found["count"]) == ("delivery", 2)
            await other.ask(do="unsubscribe", id="q")
            assert server.out() == 0

    serve(scenario)


def test_a_group_commits_and_the_next_client_goes_on_there() -> None:
    async def scenario(server: Started, _: Client) -> None:
        publish(server.broker, TOPIC, b"0", b"1", b"2")
        async with talk(server) as socket:
            await socket.send(do="subscribe", id="s", topic=TOPIC, group="g")
            await socket.take()
            second = await socket.take()
            await socket.take()
            answer = await socket.ask(do="commit", id="s", position=second["position"])
            assert answer["type"] == "done"
        async with talk(server) as socket:
            await socket.send(do="subscribe", id="s", topic=TOPIC, group="g")

            assert (await socket.take())["event"]["value"] == 2

    serve(scenario)


def test_events_are_published_with_keys_and_idempotency() -> None:
    async def scenario(server: Started, _: Client) -> None:
        async with talk(server) as socket:
            events = [{"value": {"a": 1}, "key": "k", "headers": {"h": "1"}}, {"text": "t"}]
            for _each in range(2):
                answer = await socket.ask(
                    do="publish", topic=TOPIC, events=events, idempotency_key="once"
                )
                assert answer["positions"] == [
                    {"partition": 0, "offset": 0},
                    {"partition": 0, "offset": 1},
                ]
            answer = await socket.ask(do="publish", topic=TOPIC, events=[{"value": 3}], partition=0)

        assert answer["positions"] == [{"partition": 0, "offset": 2}]
        assert [(it.key, it.value) for it in read_all(server.broker, TOPIC)] == [
            (b"k", b'{"a": 1}'),
            (None, b"t"),
            (None, b"3"),
        ]

    serve(scenario)


def test_a_full_topic_holds_the_client_and_then_answers() -> None:
    async def scenario(server: Started, _: Client) -> None:
        create_full_topic(server.broker)
        async with talk(server) as socket:
            asked = asyncio.create_task(
                socket.ask(do="publish", topic="small", events=[{"value": 2}])
            )
            await until(lambda: len(server.context.parked) == 1)
            server.broker.commit("g", {("small", 0): 1})

            assert (await asked)["type"] == "published"

    serve(scenario)


SUBSCRIBE = {"do": "subscribe", "id": "s", "topic": TOPIC}


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"do": "dance"},
        {"do": "subscribe", "id": "s"},
        SUBSCRIBE | {"id": ""},
        SUBSCRIBE | {"topic": "nothing"},
        SUBSCRIBE | {"topic": "__mainstem_topics"},
        SUBSCRIBE | {"partitions": []},
        SUBSCRIBE | {"partitions": [1]},
        SUBSCRIBE | {"credit": -1},
        SUBSCRIBE | {"filters": ["x"]},
        SUBSCRIBE | {"from": "x"},
        SUBSCRIBE | {"queue": "q", "from": "latest"},
        SUBSCRIBE | {"queue": ""},
        {"do": "credit", "id": "other", "credit": 1},
        {"do": "settle", "id": "taken", "deliveries": ["0.0.1.x"]},
        {"do": "commit", "id": "taken", "position": "0:0"},
        SUBSCRIBE | {"id": "taken"},
        {"do": "publish", "topic": TOPIC, "events": []},
        {"do": "publish", "topic": TOPIC, "events": [{}]},
        {"do": "publish", "topic": TOPIC, "events": [{"value": 1}], "partition": -1},
        {"do": "publish", "topic": "a/b", "events": [{"value": 1}]},
        {"do": "publish", "topic": TOPIC, "events": [{"value": 1}], "idempotency_key": ""},
    ],
)
def test_what_means_nothing_is_refused_and_the_rest_goes_on(message: dict[str, object]) -> None:
    async def scenario(server: Started, _: Client) -> None:
        async with talk(server) as socket:
            await socket.ask(do="subscribe", id="taken", topic=TOPIC)
            answer = await socket.ask(**message)

            assert answer["type"] == "error"
            assert answer["problem"]["status"] in (400, 404, 501)
            assert read_all(server.broker, TOPIC) == []
            for text in ("", "{", "[]", '"a"', "[" * 100_000):
                await socket.connection.send(text)
                assert (await socket.take())["type"] == "error"
            done = await socket.ask(do="publish", topic=TOPIC, events=[{"value": 1}])
            assert done["type"] in ("published", "event")

    serve(scenario)


def test_a_deleted_topic_or_queue_ends_its_subscription_only() -> None:
    async def scenario(server: Started, _: Client) -> None:
        server.broker.create_topic("short")
        async with talk(server) as socket:
            await socket.ask(do="subscribe", id="t", topic="short")
            await socket.ask(do="subscribe", id="q", topic="short", queue="q")
            server.broker.delete_topic("short")

            ended = await socket.take_all(2)

            assert {each["id"] for each in ended} == {"t", "q"}
            assert {each["problem"]["failure"] for each in ended} == {"not_found"}
            answer = await socket.ask(do="publish", topic=TOPIC, events=[{"value": 1}])
            assert answer["type"] == "published"

    serve(scenario)


def test_what_retention_deleted_is_told() -> None:
    async def scenario(server: Started, _: Client) -> None:
        publish(server.broker, TOPIC, b"0", b"1", b"2")
        server.broker.trim(TOPIC, 0, 2)
        async with talk(server) as socket:
            await socket.send(do="subscribe", id="s", topic=TOPIC, from_="0:0")

            assert await socket.take() == {"type": "missed", "id": "s", "missed": 2}
            assert (await socket.take())["event"]["value"] == 2

    serve(scenario)


def test_a_client_that_does_not_read_is_dropped_and_told() -> None:
    async def scenario(server: Started, _: Client) -> None:
        for _each in range(20):
            publish(server.broker, TOPIC, *[b'"%b"' % (b"x" * 4096)] * 250)
        async with talk(server) as socket:
            transport = socket.connection.transport
            transport.pause_reading()
            await socket.send(do="subscribe", id="s", topic=TOPIC, from_="earliest")
            await until(lambda: metric(server, "mainstem_http_slow_clients_total") == 1)
            transport.resume_reading()
            count = 0
            with pytest.raises(ConnectionClosed) as closed:  # noqa: PT012 - the last one raises
                while True:
                    await socket.take()
                    count += 1

        assert closed.value.rcvd is not None
        assert (closed.value.rcvd.code, "slow_client_s" in closed.value.rcvd.reason) == (1013, True)
        assert count < 5000

    serve(scenario, HttpSettings(slow_client_s=0.2))


def test_a_user_without_the_permission_can_do_nothing() -> None:
    async def scenario(server: Started, _: Client) -> None:
        async with talk(server) as socket:
            for asked in (
                SUBSCRIBE,
                SUBSCRIBE | {"queue": TOPIC},
                {"do": "publish", "topic": TOPIC, "events": [{"value": 1}]},
            ):
                answer = await socket.ask(**asked)
                assert answer["problem"]["failure"] == "denied"
        assert read_all(server.broker, TOPIC) == []

    serve(scenario, auth=Auth(authorize=deny_all))


def test_a_failed_login_is_refused_before_the_upgrade() -> None:
    def authenticate(*_: object) -> Principal:
        raise Unauthenticated("the peer", "the password is wrong")

    async def scenario(server: Started, _: Client) -> None:
        with pytest.raises(InvalidStatus) as refused:
            await connect(f"ws://ann:no@{server.running.address}/ws", proxy=None)
        assert refused.value.response.status_code == 401

    serve(scenario, auth=Auth(authenticate=authenticate))


def test_a_websocket_ends_when_the_server_stops() -> None:
    async def scenario(server: Started, _: Client) -> None:
        async with talk(server) as socket:
            await socket.ask(do="subscribe", id="s", topic=TOPIC)
            server.context.drain()
            await server.running.drain(1, asyncio.Event())

            with pytest.raises(ConnectionClosed) as closed:
                await socket.take()
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1012

    serve(scenario)

"""Small requests share appends: each has its own positions, and its own error."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from tests.broker.brokers import Clock, LateLog, new_broker, read_all
from tests.heads.contexts import context_on
from tests.heads.transport.echo import run, until

from mainstem.auth import Auth, Peer, deny_all
from mainstem.broker.broker import Broker
from mainstem.core.errors import Denied, InvalidEvent, MainstemError, StorageFull, UnknownPartition
from mainstem.core.event import Event, Position
from mainstem.core.topic_settings import Overload, TopicSettings
from mainstem.heads.http.adapter.appends import MOST_EVENTS, SMALL_BYTES, Appends
from mainstem.heads.http.formats.bodies import Parsed

TOPIC = "orders"
Answers = list[list[Position] | BaseException]
Scenario = Callable[[LateLog, Broker, Appends], Coroutine[Any, Any, None]]


def serve(scenario: Scenario, settings: TopicSettings | None = None) -> None:
    """Run a scenario with a topic on a log that counts appends."""

    async def whole() -> None:
        log = LateLog()
        broker = new_broker(log)
        broker.create_topic(TOPIC, settings or TopicSettings())
        log.appends = 0
        await scenario(log, broker, Appends(context_on(broker, Clock())))

    run("uvloop", whole)


async def answers(appends: Appends, broker: Broker, *asked: Parsed) -> Answers:
    """Return what each of some requests that come at the same time is answered."""
    return await asyncio.gather(
        *(appends.append(broker, TOPIC, each) for each in asked), return_exceptions=True
    )


def request(*values: bytes, key: bytes | None = None, partition: int | None = None) -> Parsed:
    return Parsed([Event(value, key) for value in values], partition)


def test_requests_that_come_together_share_an_append_and_have_their_own_positions() -> None:
    async def scenario(log: LateLog, broker: Broker, appends: Appends) -> None:
        sent = [request(b"%d" % n, b"%d" % -n, key=b"%d" % n) for n in range(20)]
        found = await answers(appends, broker, *sent)

        assert log.appends == 1
        stored = {
            (each.partition, each.offset): each.value
            for partition in range(3)
            for each in read_all(broker, TOPIC, partition)
        }
        assert len(stored) == 40
        for asked, positions in zip(sent, found, strict=True):
            assert isinstance(positions, list)
            assert [stored[each] for each in positions] == [each.value for each in asked.events]

    serve(scenario, TopicSettings(partitions=3))


def test_requests_of_different_partitions_and_turns_do_not_share() -> None:
    async def scenario(log: LateLog, broker: Broker, appends: Appends) -> None:
        one, other = request(b"0", partition=0), request(b"1", partition=1)

        assert await answers(appends, broker, one, other, one) == [[(0, 0)], [(1, 0)], [(0, 1)]]
        assert log.appends == 2
        assert await answers(appends, broker, one) == [[(0, 2)]]
        assert log.appends == 3

    serve(scenario, TopicSettings(partitions=2))


def test_a_request_that_is_refused_takes_no_other_with_it() -> None:
    async def scenario(log: LateLog, broker: Broker, appends: Appends) -> None:
        good, bad = request(b"1", key=b"a"), request(b"2")

        first, second, third = await answers(appends, broker, good, bad, good)

        assert (first, third) == ([(0, 0)], [(0, 1)])
        assert isinstance(second, InvalidEvent)
        assert [each.value for each in read_all(broker, TOPIC)] == [b"1", b"1"]
        found = await answers(appends, broker, request(b"", key=b"a", partition=7), good)
        assert isinstance(found[0], UnknownPartition)
        assert found[1] == [(0, 2)]
        assert log.appends == 3

    serve(scenario, TopicSettings(compact=True))


@pytest.mark.parametrize("is_full", [True, False], ids=["at once", "when it is synced"])
def test_all_are_told_when_the_disk_is_full(is_full: bool) -> None:
    async def scenario(log: LateLog, broker: Broker, appends: Appends) -> None:
        log.is_full, log.late = is_full, True
        asked = asyncio.create_task(answers(appends, broker, *[request(b"1")] * 3))
        await until(lambda: asked.done() or bool(log.commits))
        log.settle(StorageFull("no space is left"))

        assert [type(each) for each in await asked] == [StorageFull] * 3

    serve(scenario)


def test_nobody_is_answered_before_the_append_is_durable() -> None:
    async def scenario(log: LateLog, broker: Broker, appends: Appends) -> None:
        log.late = True
        asked = asyncio.create_task(answers(appends, broker, *[request(b"1")] * 3))
        await until(lambda: bool(log.commits))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not asked.done()

        log.settle()

        assert await asked == [[(0, 0)], [(0, 1)], [(0, 2)]]

    serve(scenario)


def test_large_requests_and_those_to_a_topic_with_a_limit_are_appended_alone() -> None:
    async def scenario(log: LateLog, broker: Broker, appends: Appends) -> None:
        large = request(b"x" * SMALL_BYTES, b"x")
        assert await answers(appends, broker, large, large) == [[(0, 0), (0, 1)], [(0, 2), (0, 3)]]
        assert log.appends == 2

        broker.alter_topic(TOPIC, max_backlog=5, overload=Overload.DROP_NEWEST)
        found = await answers(appends, broker, *[request(b"1")] * 3)

        assert found[0] == [(0, 4)]
        assert all(isinstance(each, MainstemError) for each in found[1:])

    serve(scenario)


def test_an_append_has_a_limit() -> None:
    async def scenario(log: LateLog, broker: Broker, appends: Appends) -> None:
        sent = [request(b"1")] * (2 * MOST_EVENTS)
        found = await answers(appends, broker, *sent)

        assert found == [[(0, n)] for n in range(2 * MOST_EVENTS)]
        assert log.appends == 2

    serve(scenario)


def test_a_request_that_is_cancelled_leaves_the_others() -> None:
    async def scenario(_: LateLog, broker: Broker, appends: Appends) -> None:
        tasks = [
            asyncio.create_task(appends.append(broker, TOPIC, request(b"%d" % n))) for n in range(3)
        ]
        await asyncio.sleep(0)
        tasks[1].cancel()

        assert await tasks[0] == [(0, 0)]
        assert await tasks[2] == [(0, 2)]

    serve(scenario)


def test_each_user_publishes_with_their_own_permissions() -> None:
    async def scenario(_: LateLog, broker: Broker, appends: Appends) -> None:
        context = context_on(broker, Clock(), auth=Auth(authorize=deny_all))
        denied = context.door(Peer("127.0.0.1:1"))

        found = await asyncio.gather(
            appends.append(broker, TOPIC, request(b"1")),
            appends.append(denied, TOPIC, request(b"2")),
            appends.append(broker, TOPIC, request(b"3")),
            return_exceptions=True,
        )

        assert (found[0], found[2]) == ([(0, 0)], [(0, 1)])
        assert isinstance(found[1], Denied)

    serve(scenario)

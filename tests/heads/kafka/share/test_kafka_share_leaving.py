"""Waiting share fetches end when their member closes its session or begins a new one."""

import asyncio
from collections.abc import Callable

from tests.broker.brokers import new_broker, publish
from tests.heads.contexts import kafka_service
from tests.heads.kafka.share_member import LIMITS

from mainstem.broker.broker import Broker
from mainstem.core.topic_settings import TopicSettings
from mainstem.heads.conversation import Later
from mainstem.heads.kafka.adapter.apis import share_fetch, share_group_heartbeat
from mainstem.heads.kafka.adapter.service import Asked
from mainstem.heads.kafka.settings import KafkaSettings
from mainstem.kafka_protocol.messages.share_fetch import (
    ShareFetchPartition,
    ShareFetchRequest,
    ShareFetchResponse,
    ShareFetchTopic,
)
from mainstem.kafka_protocol.messages.share_groups import ShareGroupHeartbeatRequest
from mainstem.kafka_protocol.server_codec import RequestHeader

GROUP, TOPIC = "emails", "orders"
LEAVE = -1
HOUR_MS = 3_600_000


class Desk:
    """A head without sockets, and the answers that it gave to fetches."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.answers: list[ShareFetchResponse] = []
        service = kafka_service(broker, lambda: 0, KafkaSettings())
        header = RequestHeader(0, 2, 0, "test")
        self._asked = Asked(service, header, "127.0.0.1:1", set(), Later())

    def beat(self, member: str, epoch: int) -> None:
        wanted = None if epoch == LEAVE else (TOPIC,)
        body = ShareGroupHeartbeatRequest(GROUP, member, epoch, None, wanted)
        share_group_heartbeat.answer(self._asked, body, lambda _: None)

    def fetch(self, member: str, epoch: int, min_bytes: int = 1) -> None:
        topic_id = bytes.fromhex(self.broker.topic(TOPIC).id)
        body = ShareFetchRequest(
            group_id=GROUP,
            member_id=member,
            share_session_epoch=epoch,
            topics=[ShareFetchTopic(topic_id, [ShareFetchPartition(0)])],
            **(LIMITS | {"max_wait_ms": HOUR_MS, "min_bytes": min_bytes}),
        )
        share_fetch.answer(self._asked, body, self._note)

    def _note(self, answer: object) -> None:
        assert isinstance(answer, ShareFetchResponse)
        self.answers.append(answer)


def in_loop(test: Callable[[Desk], None]) -> None:
    async def main() -> None:
        broker = new_broker()
        broker.create_topic(TOPIC, TopicSettings(partitions=1))
        test(Desk(broker))

    asyncio.run(main())


def test_a_fetch_that_waits_is_answered_when_its_member_leaves() -> None:
    def test(desk: Desk) -> None:
        desk.beat("ann", 0)
        desk.fetch("ann", 0)
        assert desk.answers == []

        desk.beat("ann", LEAVE)

        assert [each.error_code for each in desk.answers] == [0]
        assert not desk.answers[0].responses
        publish(desk.broker, TOPIC, b"1")
        assert desk.broker.queues.show(TOPIC, GROUP).owners == {}

    in_loop(test)


def test_who_leaves_does_not_end_the_waiting_of_others() -> None:
    def test(desk: Desk) -> None:
        for member in ("ann", "bob"):
            desk.beat(member, 0)
        desk.fetch("ann", 0)

        desk.beat("bob", LEAVE)

        assert desk.answers == []

    in_loop(test)


def test_a_fetch_that_waits_is_answered_when_its_member_begins_anew() -> None:
    def test(desk: Desk) -> None:
        desk.beat("ann", 0)
        desk.fetch("ann", 0)

        desk.fetch("ann", 0)

        assert [each.error_code for each in desk.answers] == [0]
        assert not desk.answers[0].responses

    in_loop(test)


def test_whoever_is_content_with_no_bytes_does_not_wait() -> None:
    def test(desk: Desk) -> None:
        desk.beat("ann", 0)

        desk.fetch("ann", 0, min_bytes=0)

        assert [each.error_code for each in desk.answers] == [0]
        assert not desk.answers[0].responses

    in_loop(test)

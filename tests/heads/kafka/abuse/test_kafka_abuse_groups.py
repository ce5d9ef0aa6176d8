"""Groups, transactions and producers that are too many, or that nobody ends, over real sockets."""

import contextlib

from tests.heads.kafka.classic_members import joining
from tests.heads.kafka.raw_peers import Healthy, Peer, fetching, produce, request
from tests.heads.kafka.transactional_producer import TransactionalProducer
from tests.heads.server_process import Process

from mainstem.client.testing.local_broker import LocalBroker
from mainstem.core.event import Event
from mainstem.core.records import build
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages import transactions
from mainstem.kafka_protocol.messages.fetch import FETCH, FetchResponse
from mainstem.kafka_protocol.messages.membership import JOIN_GROUP, JoinGroupResponse
from mainstem.kafka_protocol.messages.producers import (
    DESCRIBE_PRODUCERS,
    LIST_TRANSACTIONS,
    DescribeProducersRequest,
    DescribeProducersResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
    ProducersTopic,
)


def newcomer(instance: int) -> bytes:
    return request(JOIN_GROUP, 5, joining("crowd", instance=f"instance-{instance}"))


def test_members_of_a_group_beyond_the_limit_are_refused(server: Process, healthy: Healthy) -> None:
    with contextlib.ExitStack() as stack:
        for number in range(24):
            peer = stack.enter_context(Peer(server.address))
            peer.send(b"".join(newcomer(number * 500 + each) for each in range(500)))
            healthy.check()

        last = stack.enter_context(Peer(server.address))
        last.send(newcomer(-1))
        answer = last.answer(JOIN_GROUP, 5, JoinGroupResponse)

        assert Code(answer.error_code) is Code.GROUP_MAX_SIZE_REACHED


def test_producer_ids_that_nobody_uses_cost_nothing(server: Process, healthy: Healthy) -> None:
    wishes = (
        request(transactions.INIT_PRODUCER_ID, 4, transactions.InitProducerIdRequest(None, 1000))
        * 500
    )
    with Peer(server.address) as peer:
        for _ in range(20):
            peer.send(wishes)
            for _ in range(500):
                answer = peer.answer(
                    transactions.INIT_PRODUCER_ID, 4, transactions.InitProducerIdResponse
                )
            healthy.check()

    assert answer.error_code == 0
    assert answer.producer_id >= 9_999


def test_producers_and_transactional_ids_that_nobody_uses_any_more_are_forgotten(
    mainstem: LocalBroker,
) -> None:
    topic = mainstem.topic("abandoned")
    asked = DescribeProducersRequest((ProducersTopic(topic, (0,)),))
    with Peer(mainstem.kafka) as peer:

        def known() -> tuple[int, int]:
            producers = peer.ask(DESCRIBE_PRODUCERS, 0, asked, DescribeProducersResponse)
            ids = peer.ask(
                LIST_TRANSACTIONS, 0, ListTransactionsRequest(), ListTransactionsResponse
            )
            return (
                len(producers.topics[0].partitions[0].active_producers),
                len(ids.transaction_states),
            )

        for number in range(50):
            batch = build(
                [Event(b"x")], now_ms=1, producer_id=number, producer_epoch=0, base_sequence=0
            )
            assert produce(peer, topic, bytes(batch)).error_code == 0
            TransactionalProducer(peer, f"abandoned-{number}", timeout_ms=1000, version=4)
        assert known() == (50, 50)

        mainstem.advance(86_400 - 60)
        assert known() == (50, 50)
        mainstem.advance(120)
        assert known() == (0, 50)
        mainstem.advance(7 * 86_400)
        assert known() == (0, 0)


def test_a_transaction_that_nobody_ends_is_aborted_and_holds_nobody_up_for_ever(
    server: Process, healthy: Healthy
) -> None:
    topic = "left.open"
    with Peer(server.address) as leaver, Peer(server.address) as reader:
        assert produce(leaver, topic, bytes(build([Event(b"seen")], now_ms=1))).error_code == 0
        producer = TransactionalProducer(leaver, "left open", timeout_ms=500, version=4)
        producer.add(topic=topic)
        assert producer.write(9, topic=topic, values=[b"never seen"]).error_code == 0

        stable = 1
        while stable == 1:
            answer = reader.ask(
                FETCH, 12, fetching(topic, 1, max_wait_ms=100, isolation=1), FetchResponse
            )
            stable = answer.responses[0].partitions[0].last_stable_offset

        healthy.check()
        # The event and the marker that aborts it.
        assert stable == 3
        assert Code(producer.end(3).error_code) in (
            Code.PRODUCER_FENCED,
            Code.INVALID_PRODUCER_EPOCH,
        )

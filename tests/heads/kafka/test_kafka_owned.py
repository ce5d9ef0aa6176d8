"""What members of a group own, as everybody else can see it."""

import pytest
from confluent_kafka import Consumer, Producer
from tests.broker.groups.classic.consumers import Room
from tests.heads.server_process import until
from tests.in_process_server import server

from mainstem.heads.kafka.adapter.groups.consumer_protocol import ConsumerProtocol
from mainstem.kafka_protocol.classic_group_metadata import encode_blob
from mainstem.kafka_protocol.messages.consumer_protocol import (
    ConsumerPartitions,
    ConsumerProtocolAssignment,
)

BLOB = encode_blob(
    1,
    ConsumerProtocolAssignment(
        (ConsumerPartitions("a", (0, 2)), ConsumerPartitions("b", (1,))), None
    ),
)


def members_of(protocol_type: str, assignment: bytes) -> dict[str, tuple[tuple[str, int], ...]]:
    room = Room()
    room.broker.consumers.use_protocol(ConsumerProtocol())
    joined = room.join(protocol_type=protocol_type).answer
    room.sync(joined, {joined.member_id: assignment})
    return room.broker.classic.members("g")


def test_the_assignment_of_a_consumer_is_read() -> None:
    (owned,) = members_of("consumer", BLOB).values()

    assert owned == (("a", 0), ("a", 2), ("b", 1))


@pytest.mark.parametrize("protocol_type", ["connect", "sr"])
def test_what_other_members_agree_on_is_their_own_affair(protocol_type: str) -> None:
    (owned,) = members_of(protocol_type, BLOB).values()

    assert owned == ()


@pytest.mark.parametrize("blob", [b"", b"\0", b"\xff\xff", BLOB[:-1], BLOB + b"\0", b"x" * 100])
def test_what_cannot_be_read_is_nothing(blob: bytes) -> None:
    (owned,) = members_of("consumer", blob).values()

    assert owned == ()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_live_group_is_shown_with_who_owns_what(protocol: str) -> None:
    with server(None) as running:
        config = {"bootstrap.servers": str(running.kafka), "log_level": 0}
        sender = Producer(config)
        for number in range(20):
            sender.produce("orders", b"x", partition=number % 4)
        assert sender.flush(30) == 0
        source = Consumer({**config, "group.id": "g", "group.protocol": protocol})
        source.subscribe(["orders"])
        until(lambda: len(source.assignment()) == 4, lambda: source.poll(0.1))

        found = running.node.broker.group("g")

        (member,) = found.members
        places = [("orders", number) for number in range(4)]
        assert found.members == {member: tuple(places)}
        assert [(each.topic, each.partition, each.member) for each in found.lags] == [
            (*place, member) for place in places
        ]
        assert running.node.broker.lag("g") == found.lags
        source.close()

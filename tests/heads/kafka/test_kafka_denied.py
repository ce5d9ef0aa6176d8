"""Peers that may not do something get Kafka's own refusals, whatever they ask for."""

import asyncio
from collections.abc import Callable, Iterator

import msgspec
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.broker.brokers import Clock, new_broker, read_all, values
from tests.heads.contexts import context_on
from tests.in_process_server import server
from tests.kafka_protocol.frames import request_frame

from mainstem.auth import Action, Auth, Principal, Resource, ResourceKind, deny_all
from mainstem.broker.broker import Broker
from mainstem.core.errors import Unauthenticated
from mainstem.core.event import Event
from mainstem.core.records import build
from mainstem.heads.conversation import Answer, Later
from mainstem.heads.kafka.adapter.apis import SERVED
from mainstem.heads.kafka.adapter.service import Service
from mainstem.heads.kafka.head import KafkaConversation
from mainstem.heads.kafka.settings import KafkaSettings
from mainstem.kafka_protocol.api import Api
from mainstem.kafka_protocol.apis import APIS
from mainstem.kafka_protocol.client_codec import decode_response
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.fields import Shape, Wire, layout
from mainstem.kafka_protocol.messages.produce import (
    PRODUCE,
    ProducePartition,
    ProduceRequest,
    ProduceTopic,
)
from mainstem.kafka_protocol.messages.topics import DeleteTopic

BATCH = bytes(build([Event(b"value", b"key")], now_ms=1))
REFUSALS = {
    Code.TOPIC_AUTHORIZATION_FAILED,
    Code.GROUP_AUTHORIZATION_FAILED,
    Code.CLUSTER_AUTHORIZATION_FAILED,
    Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
FREE = {
    10: "FindCoordinator: it is always this server",
    18: "ApiVersions",
    60: "DescribeCluster: it is always this server",
    29: "DescribeAcls: there are none",
    30: "CreateAcls: refused to everybody",
    31: "DeleteAcls: refused to everybody",
    34: "AlterReplicaLogDirs: there is one directory, and nothing is moved",
}
EMPTY = {16: "ListGroups", 66: "ListTransactions"}
"""Lists leave out what somebody may not see."""
HIDDEN = {(20, 6): Code.UNKNOWN_TOPIC_ID}
"""What is asked for by an id is hidden: there is no such topic."""
SAYS_NOTHING = {(35, 1), (43, 0)}
"""Versions that have no place for an error; their answer is empty."""
SAID: dict[str, object] = {
    "acks": -1,
    "acknowledgement_batches": (),
    "assignments": (),
    "configs": (),
    "configuration_keys": None,
    "cursor": None,
    "current_leader_epoch": -1,
    "generation_id": -1,
    "group_instance_id": None,
    "instance_id": None,
    "leader_epoch": -1,
    "member_id": "A" * 22,
    "max_bytes": 1_000,
    "max_records": 10,
    "num_partitions": 1,
    "partition_max_bytes": 1_000,
    "producer_epoch": -1,
    "producer_id": -1,
    "producer_id_filters": (),
    "protocol_type": "consumer",
    "rack_id": None,
    "rebalance_timeout_ms": 60_000,
    "replica_id": -1,
    "replication_factor": 1,
    "resource_type": 2,
    "session_epoch": -1,
    "session_timeout_ms": 10_000,
    "state_filters": (),
    "subscribed_topic_regex": None,
    "timeout_ms": 1_000,
    "topic_partitions": (),
    "transaction_timeout_ms": 1_000,
}
"""What a request must say to mean something; everything else is 0, or is called ``t``."""


class Asking:
    """A Kafka client that speaks to the head in this process."""

    def __init__(self, broker: Broker, auth: Auth) -> None:
        self.broker = broker
        context = context_on(broker, Clock(), auth=auth)
        peer = context.auth.peer("127.0.0.1:1")
        service = Service(context, KafkaSettings()).as_seen_by(peer)
        self.conversation = KafkaConversation(service, peer.address)

    async def ask(self, api: Api, version: int, body: Wire) -> Wire:
        """Return the answer to a request."""
        frame = request_frame(api, version, body)
        answer = self.conversation.handle(
            memoryview(bytearray(len(frame).to_bytes(4, "big") + frame))
        )
        if isinstance(answer, Later):
            settled = asyncio.Event()
            answer.then(settled.set)
            if answer.answer is None:
                await asyncio.wait_for(settled.wait(), 60)
        pieces: Answer = answer.take() if isinstance(answer, Later) else answer
        data = b"".join(
            piece if isinstance(piece, bytes | bytearray | memoryview) else piece.tobytes()
            for piece in pieces
        )
        return decode_response(api, version, memoryview(data)[4:]).body

    async def produce(self, version: int = 3) -> list[int]:
        """Return the codes of an answer to a produce request."""
        topic = ProduceTopic(name="t", partition_data=(ProducePartition(0, BATCH),))
        answer = await self.ask(PRODUCE, version, ProduceRequest(None, -1, 1_000, (topic,)))
        return list(codes(answer))


def request(struct: type[Wire], version: int, topic_id: bytes) -> Wire:
    """Return a request that speaks of what is called ``t``."""
    fields = {}
    for field in layout(struct, version):
        if field.shape is None or field.tag is not None:
            continue
        known = field.name in SAID and (SAID[field.name] is not None or field.default is None)
        fields[field.name] = SAID[field.name] if known else _value(field.shape, version, topic_id)
    if struct is DeleteTopic:
        # By name or by id.
        fields["name"] = None
    return struct(**fields)


def _value(shape: Shape, version: int, topic_id: bytes) -> object:
    match shape.kind:
        case "fixed":
            return {"?": False, "16s": topic_id, "d": 0.0}.get(shape.code, 0)
        case "struct":
            assert shape.struct is not None
            return request(shape.struct, version, topic_id)
        case "array":
            assert shape.element is not None
            return (_value(shape.element, version, topic_id),)
        case "records":
            return BATCH
        case "bytes":
            return b""
        case _:
            return "t"


def codes(answer: object) -> Iterator[int]:
    """Return every error code in an answer."""
    if isinstance(answer, msgspec.Struct):
        for name in answer.__struct_fields__:
            found = getattr(answer, name)
            if name.endswith("error_code"):
                yield found
            else:
                yield from codes(found)
    elif isinstance(answer, list | tuple):
        for each in answer:
            yield from codes(each)


def with_topic() -> Broker:
    broker = new_broker()
    broker.create_topic("t")
    broker.publish("t", [Event(b"before")])
    return broker


EVERY = [
    (key, version)
    for key, served in sorted(SERVED.items())
    for version in sorted({served.first, served.last})
]


@pytest.mark.parametrize(
    ("key", "version"), EVERY, ids=[f"{APIS[key].name}-v{version}" for key, version in EVERY]
)
async def test_every_request_of_whoever_may_do_nothing_is_refused(key: int, version: int) -> None:
    broker = with_topic()
    asking = Asking(broker, Auth(authorize=deny_all))
    topic_id = bytes.fromhex(broker.topic("t").id)

    answer = await asking.ask(APIS[key], version, request(APIS[key].request, version, topic_id))

    found = set(codes(answer))
    if key in EMPTY:
        assert found == {0}
        assert b"t" not in msgspec.json.encode(msgspec.to_builtins(answer)).split(b'"')
    elif (key, version) in HIDDEN:
        assert found == {HIDDEN[key, version]}
    elif key not in FREE and (key, version) not in SAYS_NOTHING:
        assert found & REFUSALS, found
        assert found <= REFUSALS | {0}
    assert values(read_all(broker, "t")) == [b"before"]
    assert [topic.name for topic in broker.topics()] == ["t"]
    assert broker.group_names() == []


def describing(principal: Principal, action: Action, resource: Resource) -> None:
    """Allow to look at everything, and to do nothing."""
    if action is not Action.DESCRIBE:
        deny_all(principal, action, resource)


def groups_only(principal: Principal, action: Action, resource: Resource) -> None:
    """Allow everything but topics."""
    if resource.kind is ResourceKind.TOPIC:
        deny_all(principal, action, resource)


def topics_only(principal: Principal, action: Action, resource: Resource) -> None:
    """Allow everything but groups."""
    if resource.kind is ResourceKind.GROUP:
        deny_all(principal, action, resource)


@pytest.mark.parametrize("authorize", [describing, groups_only, topics_only])
async def test_however_much_of_it_is_allowed_every_request_is_answered(
    authorize: Callable[[Principal, Action, Resource], None],
) -> None:
    for key, version in EVERY:
        broker = with_topic()
        broker.queues.create("t", "t")
        asking = Asking(broker, Auth(authorize=authorize))
        topic_id = bytes.fromhex(broker.topic("t").id)

        asked = request(APIS[key].request, version, topic_id)
        found = set(codes(await asking.ask(APIS[key], version, asked)))

        assert found <= {*Code}, APIS[key].name
        assert Code.UNKNOWN_SERVER_ERROR not in found, APIS[key].name


@pytest.mark.parametrize("version", [3, 10], ids=["decoded", "fast path"])
async def test_a_right_that_is_taken_back_is_missed_by_the_next_request(version: int) -> None:
    denied: set[Action] = set()

    def authorize(principal: Principal, action: Action, resource: Resource) -> None:
        if action in denied:
            deny_all(principal, action, resource)

    broker = with_topic()
    asking = Asking(broker, Auth(authorize=authorize))

    assert await asking.produce(version) == [0]
    assert await asking.produce(version) == [0]
    denied.add(Action.WRITE)

    assert await asking.produce(version) == [Code.TOPIC_AUTHORIZATION_FAILED]
    assert values(read_all(broker, "t")) == [b"before", b"value", b"value"]


async def test_who_has_not_logged_in_is_told_so() -> None:
    def authorize(principal: Principal, action: Action, resource: Resource) -> None:
        raise Unauthenticated("127.0.0.1:1", "it must")

    asking = Asking(with_topic(), Auth(authorize=authorize))

    assert await asking.produce() == [Code.SASL_AUTHENTICATION_FAILED]


def mine_only(principal: Principal, action: Action, resource: Resource) -> None:
    """Allow everything with what is called ``mine``, and what belongs to nobody."""
    if resource.name != "mine" and resource.kind is not ResourceKind.CLUSTER:
        deny_all(principal, action, resource)


def test_real_clients_understand_what_they_are_refused_and_go_on_with_the_rest() -> None:
    auth = Auth(authorize=mine_only)
    with server(None, auth=auth) as running:
        broker = running.node.broker
        config: dict[str, str | int | float | bool] = {"bootstrap.servers": str(running.kafka)}
        broker.create_topic("theirs")
        broker.create_topic("mine")
        told: list[KafkaError | None] = []

        producer = Producer(config | {"log_level": 0})
        for topic in ("theirs", "mine"):
            producer.produce(topic, b"x", on_delivery=lambda error, _: told.append(error))
            assert producer.flush(30) == 0
        admin = AdminClient(config)
        with pytest.raises(KafkaException) as created:
            admin.create_topics([NewTopic("another", 1)])["another"].result(30)
        visible = set(admin.list_topics(timeout=30).topics)
        consumer = Consumer(config | {"group.id": "theirs", "log_level": 0})
        consumer.subscribe(["mine"])
        message = consumer.poll(30)

        assert [error and error.code() for error in told] == [
            KafkaError.TOPIC_AUTHORIZATION_FAILED,
            None,
        ]
        assert created.value.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
        assert visible == {"mine"}
        error = None if message is None else message.error()
        assert error is not None
        assert error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED
        assert values(read_all(broker, "theirs")) == []
        consumer.close()

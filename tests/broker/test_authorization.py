"""The door with permissions: every operation checks one, and every operation can be permitted."""

import inspect
from collections.abc import Callable
from typing import Protocol

import pytest
from tests.broker.brokers import new_broker
from tests.broker.groups.classic.consumers import JOIN

from mainstem.auth import CLUSTER, Action, Auth, Peer, Principal, Resource, ResourceKind, deny_all
from mainstem.broker import authorization, door
from mainstem.broker.broker import Broker
from mainstem.broker.door import (
    DelayedEvent,
    Door,
    HeadChanges,
    ProducerIdAndEpoch,
    QueueSettlements,
    TopicEvents,
    guarded,
)
from mainstem.broker.journal import DELAYED
from mainstem.core.errors import Denied, MainstemError
from mainstem.core.event import Event

PEER = Peer("127.0.0.1:1", Principal("ann"))
PORTS = {
    "queues": (door.Queues, authorization.QUEUES),
    "delays": (door.Delays, authorization.DELAYS),
    "transactions": (door.Transactions, authorization.TRANSACTIONS),
    "producers": (door.Producers, authorization.PRODUCERS),
    "classic": (door.ClassicGroups, authorization.CLASSIC_GROUPS),
    "consumers": (door.ConsumerGroups, authorization.CONSUMER_GROUPS),
    "share": (door.ShareGroups, authorization.SHARE_GROUPS),
    "group_configs": (door.GroupConfigs, authorization.GROUP_CONFIGS),
}


class Asked:
    """Notes what is asked for, and allows it unless it is told not to."""

    def __init__(self, *denied: Resource) -> None:
        self.denied = denied
        self.asked: list[tuple[str, Action, str, str]] = []

    def __call__(self, principal: Principal, action: Action, resource: Resource) -> None:
        self.asked.append((principal.name, action, resource.kind, resource.name))
        if resource in self.denied:
            deny_all(principal, action, resource)


def seen(broker: Broker, authorize: Callable[[Principal, Action, Resource], None]) -> Door:
    return guarded(broker, Auth(authorize=authorize), PEER)


def operations(port: type) -> set[str]:
    return {
        name
        for each in inspect.getmro(port)
        if each not in (object, Protocol) and each.__module__.startswith("mainstem")
        for name in vars(each)
        if not name.startswith("_")
    }


def test_every_operation_of_the_door_has_a_rule() -> None:
    assert operations(Door) == set(authorization.DOOR)
    for port, rules in PORTS.values():
        assert operations(port) == set(rules)


def test_while_everything_is_allowed_peers_get_the_broker_itself() -> None:
    broker = new_broker()

    assert guarded(broker, Auth(), PEER) is broker


def test_what_is_behind_the_door_is_not_for_peers() -> None:
    with pytest.raises(AttributeError, match="not available to peers"):
        seen(new_broker(), Asked()).tick()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("call", "asked"),
    [
        (lambda it: it.create_topic("t"), (Action.CREATE, "topic", "t")),
        (lambda it: it.topic(name="o"), (Action.DESCRIBE, "topic", "o")),
        (lambda it: it.try_publish("o", [Event(b"")]), (Action.WRITE, "topic", "o")),
        (lambda it: it.follow("o", 0, 0), (Action.READ, "topic", "o")),
        (lambda it: it.cursor("g", "o", 0), (Action.DESCRIBE, "group", "g")),
        (lambda it: it.producers.new_id(), (Action.WRITE, "cluster", "mainstem")),
        (
            lambda it: it.transactions.begin("x", 1_000),
            (Action.WRITE, "transactional_id", "x"),
        ),
    ],
)
def test_the_right_is_asked_for_and_without_it_nothing_happens(
    call: Callable[[Door], object], asked: tuple[Action, str, str]
) -> None:
    broker, allowing = new_broker(), Asked()
    broker.create_topic("o")
    before = {topic.name: broker.bounds(topic.name, 0).end for topic in broker.topics()}

    with pytest.raises(Denied, match="'ann' may not"):
        call(seen(broker, deny_all))
    assert {topic.name: broker.bounds(topic.name, 0).end for topic in broker.topics()} == before
    call(seen(broker, allowing))

    assert allowing.asked == [("ann", *asked)]


def test_of_a_queue_both_the_queue_and_its_topic_are_asked_for() -> None:
    broker, allowing = new_broker(), Asked()
    broker.create_topic("o")
    broker.queues.create("o", "q")

    seen(broker, allowing).queues.acquire("o", "q", "ann", max_events=1)

    assert {each[1:] for each in allowing.asked} == {
        (Action.READ, "topic", "o"),
        (Action.READ, "group", "q"),
    }


def test_all_that_is_published_at_once_is_asked_for_before_any_of_it_is() -> None:
    broker = new_broker()
    for topic in ("a", "b"):
        broker.create_topic(topic)
    entries = [TopicEvents("a", [Event(b"1")]), TopicEvents("b", [Event(b"2")])]

    with pytest.raises(Denied):
        seen(broker, Asked(Resource(ResourceKind.TOPIC, "b"))).publish_all(entries)
    with pytest.raises(Denied):
        seen(broker, Asked(Resource(ResourceKind.GROUP, "q"))).publish_all(
            entries, [QueueSettlements("a", "q", "ann", [])]
        )
    with pytest.raises(Denied):
        seen(broker, Asked(CLUSTER)).publish_all(entries, defined=HeadChanges("h", {}))

    assert broker.bounds("a", 0).end == 0


def test_a_transaction_touches_only_topics_that_may_be_written() -> None:
    broker = new_broker()
    for topic in ("a", "b"):
        broker.create_topic(topic)
    begun = broker.transactions.begin("x", 1_000)
    who = ProducerIdAndEpoch(begun.producer_id, begun.epoch)

    with pytest.raises(Denied):
        seen(broker, Asked(Resource(ResourceKind.TOPIC, "b"))).transactions.add_partitions(
            "x", who, iter([("a", 0), ("b", 0)])
        )
    moved = seen(broker, Asked()).transactions.add_partitions("x", who, iter([("a", 0), ("b", 0)]))

    assert not moved.refused
    assert set(broker.transactions.describe("x").partitions) == {("a", 0), ("b", 0)}


def test_lists_leave_out_what_may_not_be_described() -> None:
    broker = new_broker()
    for topic in ("a", "b"):
        broker.create_topic(topic)
        broker.commit(f"group of {topic}", {(topic, 0): 0})
        broker.queues.create(topic, f"queue of {topic}")
    hidden = Asked(
        Resource(ResourceKind.TOPIC, "b"),
        Resource(ResourceKind.GROUP, "group of b"),
        Resource(ResourceKind.GROUP, "queue of b"),
    )
    ours = seen(broker, hidden)

    assert [topic.name for topic in ours.topics()] == ["a"]
    assert ours.topic_by_id(broker.topic("a").id) == broker.topic("a")
    assert ours.topic_by_id(broker.topic("b").id) is None
    assert ours.group_names() == ["group of a"]
    assert [group.name for group in ours.groups()] == ["group of a"]
    assert ours.queues.names() == {"queue of a"}
    assert not ours.share.has_members("group of b")


def test_who_may_not_join_hears_so_where_the_answer_was_to_come() -> None:
    broker = new_broker()
    heard: list[object] = []
    seen(broker, deny_all).classic.join(JOIN, heard.append)

    (error,) = heard
    assert isinstance(error, MainstemError)
    assert isinstance(error, Denied)


def test_delayed_events_need_the_permission_to_write_their_topic_now() -> None:
    broker = new_broker()
    broker.create_topic("t")
    allowing = Asked()
    to_topic, to_route = DelayedEvent(Event(b""), 1, "t"), DelayedEvent(Event(b""), 1, head="amqp")

    for delayed, topic in ((to_topic, "t"), (to_route, DELAYED)):
        seen(broker, allowing).publish_all((), delayed=[delayed])
        denying = Asked(Resource(ResourceKind.TOPIC, topic))
        with pytest.raises(Denied):
            seen(broker, denying).publish_all((), delayed=[delayed])

    assert [each[1:] for each in allowing.asked] == [
        (Action.WRITE, "topic", "t"),
        (Action.WRITE, "topic", DELAYED),
    ]
    assert broker.delays.waiting().events == 2

"""A connector's duty and lease: one runs it, and what comes late from another is refused."""

import threading

import msgspec
import pytest
from tests.broker.brokers import new_broker, read_all
from tests.connectors.test_runner import (
    COMMON,
    SETTINGS,
    ListSource,
    at,
    created,
    published,
    store,
    stored,
    transaction,
)
from tests.processes import wait_until

from mainstem.broker.broker import Broker
from mainstem.broker.door import TopicEvents
from mainstem.connectors.errors import ConnectorTaken, LeaseEnded, SourceFailed
from mainstem.connectors.running.lease_messages import Status, Taken, TargetTopic
from mainstem.connectors.running.leases import Leases
from mainstem.connectors.running.own_process import LeasedTarget
from mainstem.connectors.running.progress import PROGRESS
from mainstem.connectors.running.progress import Progress as Stored
from mainstem.connectors.running.target import DoorTarget
from mainstem.connectors.running.worker import Task, Worker
from mainstem.core.event import Event
from mainstem.core.topic_settings import TopicSettings


class Direct:
    """A server in this process, which a test can make lose its answers."""

    def __init__(self, leases: Leases) -> None:
        self.leases = leases
        self.sent: list[tuple[bytes, int, bool]] = []

    def take(self, name: str, holder: str) -> Taken:
        return self.leases.take(name, holder, lambda: None)

    def renew(self, name: str, token: str, status: Status) -> bytes | None:
        return self.leases.renew(name, token, status)

    def publish(self, name: str, token: str, piece: bytes, at: int, *, is_last: bool) -> str:
        self.sent.append((piece, at, is_last))
        return self.leases.publish(name, token, piece, at, is_last=is_last)

    def topic(
        self, name: str, token: str, topic: str, create: TopicSettings | None
    ) -> TargetTopic | None:
        return self.leases.topic(name, token, topic, create)

    def end(self, name: str, token: str) -> None:
        self.leases.end(name, token)


@pytest.fixture
def broker() -> Broker:
    found = new_broker()
    found.definitions.open("connectors").set("config", "shop", msgspec.json.encode(SETTINGS))
    found.create_topic("t")
    return found


def append(target: LeasedTarget, *values: bytes) -> None:
    changes = {(PROGRESS, "shop"): msgspec.json.encode(Stored(at(len(values))))}
    target.publish([TopicEvents("t", [Event(each) for each in values])], changes, None).wait()


def values(broker: Broker) -> list[bytes | None]:
    return [each.value for each in read_all(broker, "t")]


def test_an_append_larger_than_a_request_comes_in_pieces_and_is_one(broker: Broker) -> None:
    server = Direct(Leases(broker))
    target = LeasedTarget(server, "shop", server.take("shop", "a"))
    large = bytes(700_000)

    append(target, b"1", large, b"3")

    assert [(at, is_last) for _, at, is_last in server.sent] == [(0, False), (512 * 1024, True)]
    assert values(broker) == [b"1", large, b"3"]
    assert stored(broker) == Stored(at(3))


def test_what_a_process_sends_after_its_lease_was_taken_anew_or_voided_is_refused(
    broker: Broker,
) -> None:
    server = Direct(Leases(broker))
    first = server.take("shop", "a")
    append(LeasedTarget(server, "shop", first), b"1")
    ((piece, *_),) = server.sent

    second = server.take("shop", "a")
    with pytest.raises(LeaseEnded):
        server.publish("shop", first.token, piece, 0, is_last=True)
    server.leases.void("shop")
    with pytest.raises(LeaseEnded):
        server.publish("shop", second.token, piece, 0, is_last=True)
    with pytest.raises(LeaseEnded):
        server.renew("shop", second.token, Status())
    server.leases.end("shop")
    with pytest.raises(LeaseEnded):
        server.publish("shop", "", piece, 0, is_last=True)

    assert values(broker) == [b"1"]


def test_a_piece_that_is_there_twice_or_missing_ends_the_lease(broker: Broker) -> None:
    server = Direct(Leases(broker))
    append(LeasedTarget(server, "shop", server.take("shop", "a")), b"1")
    ((piece, *_),) = server.sent
    for places in ((0, 0), (7,)):
        token = server.take("shop", "a").token
        *before, last = places
        for place in before:
            server.publish("shop", token, piece[:7], place, is_last=False)
        with pytest.raises(LeaseEnded):
            server.publish("shop", token, piece, last, is_last=True)

    assert values(broker) == [b"1"]


def test_a_process_whose_lease_has_ended_gives_up_until_it_has_another(broker: Broker) -> None:
    server = Direct(Leases(broker))
    target = LeasedTarget(server, "shop", server.take("shop", "a"))
    server.leases.void("shop")

    for _ in range(2):
        with pytest.raises(SourceFailed, match="lease"):
            append(target, b"1")

    assert target.lost.is_set()
    assert len(server.sent) == 1
    assert values(broker) == []


def test_one_process_has_the_lease_and_the_duty(broker: Broker) -> None:
    leases = Leases(broker)
    taken = leases.take("shop", "a", lambda: None)
    with pytest.raises(ConnectorTaken, match="connector shop is run by a"):
        leases.take("shop", "b", lambda: None)
    granted = threading.Event()
    duty = broker.duties.hold("connector/shop", granted.set)
    assert not duty.is_held

    leases.end("shop", taken.token)

    assert granted.is_set()
    with pytest.raises(ConnectorTaken, match="another node"):
        leases.take("shop", "b", lambda: None)


def test_a_connector_waits_while_its_duty_is_held_elsewhere(broker: Broker) -> None:
    store(broker, Stored(at(1)))
    elsewhere = broker.duties.hold("connector/shop", lambda: None)
    source = ListSource([*transaction("x", 9, created(1)), None])
    opened = threading.Event()

    def open_source() -> ListSource:
        opened.set()
        return source

    task = Task(DoorTarget(broker), broker.duties, SETTINGS, COMMON, open_source, lambda: 10**18)
    worker = Worker(task, paused=False)
    worker.start()
    try:
        wait_until(lambda: "runs elsewhere" in worker.report.phase, lambda: worker.report.phase)
        assert not opened.is_set()
        elsewhere.release()
        wait_until(lambda: stored(broker) == Stored(at(9)), lambda: worker.report.phase)
    finally:
        worker.stop()
    assert published(broker)[0][0] == "c"
    assert broker.duties.hold("connector/shop", lambda: None).is_held

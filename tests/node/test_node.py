"""The node: what it builds, and how it starts and stops."""

import threading
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue

import pytest
from msgspec.structs import replace
from tests.broker.groups.classic.consumers import JOIN
from tests.faults.disk.disk_steps import append, full_after, killed, opened
from tests.faults.disk.simulated_disk import SimFiles

from mainstem.broker.broker import Broker
from mainstem.broker.groups.classic.coordinator import Membership
from mainstem.broker.groups.classic.group import Joined, Sync, Synced
from mainstem.broker.groups.consumer.heartbeat import Heartbeat
from mainstem.broker.groups.consumer.records import NOTHING
from mainstem.broker.groups.cursors import Cursor
from mainstem.broker.journal import IDS, SETTINGS, TOPICS
from mainstem.core.errors import (
    Closed,
    FormatTooNew,
    IllegalGeneration,
    MainstemError,
    StorageFull,
    UnknownMember,
)
from mainstem.core.event import Event
from mainstem.core.names import is_internal
from mainstem.core.records import build
from mainstem.core.topic_settings import Durability, TopicSettings
from mainstem.log.disk import DiskLog
from mainstem.log.port import PartitionId
from mainstem.node.config import Config
from mainstem.node.node import Node, open_node


def test_a_node_in_memory_has_a_broker_and_no_directory() -> None:
    node = open_node(None, Config())

    node.broker.create_topic("n")
    node.broker.publish("n", [Event(b"x")])

    assert node.broker.bounds("n", 0).tail == 1
    assert (node.path, node.recovery) == (None, None)
    node.close()


def test_a_node_on_disk_takes_its_directory_and_gives_it_back(tmp_path: Path) -> None:
    for _ in range(3):
        node = open_node(tmp_path, Config())
        node.close()

    node = open_node(tmp_path, Config())
    assert node.recovery is not None
    assert node.recovery.clean
    node.close()


@pytest.mark.parametrize("deed", ["create", "grow"])
def test_a_crash_after_a_refused_change_of_topics_leaves_no_partitions(deed: str) -> None:
    left = 0
    for steps in range(40):
        files = SimFiles()
        broker = Broker(opened(files), lambda: 0)
        broker.create_topic("old", TopicSettings(partitions=2))
        full_after(files, steps)
        try:
            if deed == "create":
                broker.create_topic("new", TopicSettings(partitions=20))
            else:
                broker.alter_topic("old", partitions=20)
        except StorageFull:
            log = opened(killed(files))
            left += len(log.disk_partitions())
            node = Node(Config(), log, None, lambda: 0)
            kept = [each.id for each in log.disk_partitions() if not is_internal(each.topic)]
            assert kept == list(node.broker.topic("old").partitions), steps
            assert [each.name for each in node.broker.topics()] == ["old"]
            left -= len(log.disk_partitions())
            node.close()
    assert left > 0


def test_a_partition_that_holds_events_is_kept_though_no_topic_is_known() -> None:
    files, partition = SimFiles(), PartitionId("a" * 32, 0)
    log = opened(files)
    log.ensure(partition, "lost", TopicSettings())
    append(log, partition, b"x")

    log = opened(killed(files))
    node = Node(Config(), log, None, lambda: 0)

    assert node.broker.topics() == []
    assert log.bounds(partition).end == 1
    node.close()


def member_of(broker: Broker, protocol: str) -> Membership:
    """Let the only member of a group ``g`` join by a protocol of Kafka's consumers."""
    if protocol == "consumer":
        beat = Heartbeat(
            group="g", member_id="ann", epoch=0, rebalance_timeout_ms=60_000, names=("n",)
        )
        heard = broker.consumers.heartbeat(replace(beat, owned=NOTHING))
        return Membership(heard.member_id, heard.epoch)
    joining, syncing = SimpleQueue[Joined | MainstemError](), SimpleQueue[Synced | MainstemError]()
    broker.classic.join(JOIN, joining.put)
    joined = joining.get(timeout=60)
    assert isinstance(joined, Joined)
    sync = Sync(group="g", member_id=joined.member_id, generation=joined.generation)
    broker.classic.sync(sync, syncing.put)
    assert isinstance(syncing.get(timeout=60), Synced)
    return Membership(joined.member_id, joined.generation)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_cursors_past_the_tail_are_put_back_also_of_a_group_whose_members_stay(
    tmp_path: Path, protocol: str
) -> None:
    node = open_node(tmp_path, Config(), listens="here")
    node.broker.create_topic("n", TopicSettings(durability=Durability.MEMORY))
    node.broker.publish("n", [Event(b"x")] * 5)
    member = member_of(node.broker, protocol)
    node.broker.classic.commit("g", member, {("n", 0): Cursor(5, 0)}).durable.wait(60)
    node.close()

    node = open_node(tmp_path, Config(), listens="here")

    found = node.broker.cursor("g", "n", 0)
    assert found is not None
    assert found.offset == 0
    node.broker.classic.commit("g", member, {("n", 0): Cursor(0, 0)})
    node.close()


def look(broker: Broker) -> None:
    assert broker.group("g").state == "empty"


def seek(broker: Broker) -> None:
    broker.seek("g", {("n", 0): 2})


def delete(broker: Broker) -> None:
    broker.delete_group("g")


def subscribe(broker: Broker) -> None:
    broker.join("g", ["n"], lambda: None).leave()


@pytest.mark.parametrize("deed", [look, seek, delete, subscribe])
def test_members_of_a_server_are_not_in_the_way_of_a_program_that_opens_its_directory(
    tmp_path: Path, deed: Callable[[Broker], None]
) -> None:
    server = open_node(tmp_path, Config(), listens="here")
    server.broker.create_topic("n")
    server.broker.publish("n", [Event(b"x")] * 5)
    member = member_of(server.broker, "classic")
    cursors = {("n", 0): Cursor(5, 0)}
    server.broker.classic.commit("g", member, cursors).durable.wait(60)
    server.close()

    program = open_node(tmp_path, Config())
    deed(program.broker)
    program.close()

    server = open_node(tmp_path, Config(), listens="here")
    if deed is look:
        server.broker.classic.commit("g", member, cursors)
    else:
        # It joins anew, and begins where the group's cursors are now.
        with pytest.raises((UnknownMember, IllegalGeneration)):
            server.broker.classic.commit("g", member, cursors)
    server.close()


def test_closing_twice_is_closing_once(tmp_path: Path) -> None:
    node = open_node(tmp_path, Config())

    node.close()
    node.close()

    with pytest.raises(Closed):
        node.broker.create_topic("n")


def test_the_defaults_of_new_topics_come_from_the_config() -> None:
    node = open_node(None, Config(partitions=7))

    assert node.defaults.partitions == 7
    node.close()


@pytest.mark.parametrize("kind", ["memory", "disk"])
def test_memory_is_bounded_by_the_config(tmp_path: Path, kind: str) -> None:
    node = open_node(None if kind == "memory" else tmp_path, Config(max_memory_bytes=10_000))
    node.broker.create_topic("n", TopicSettings(durability=Durability.MEMORY))
    for _ in range(8):
        node.broker.publish("n", [Event(b"x" * 1000)])

    with pytest.raises(StorageFull):
        node.broker.publish("n", [Event(b"x" * 2500)])

    assert node.broker.bounds("n", 0).tail == 8
    node.close()


def test_retention_in_memory_is_kept_up_by_itself() -> None:
    time_ms = [1_000]
    looks: SimpleQueue[int] = SimpleQueue()

    def now_ms() -> int:
        if threading.current_thread().name == "mainstem-upkeep":
            looks.put(time_ms[0])
        return time_ms[0]

    node = open_node(None, Config(upkeep_ms=10), now_ms=now_ms)
    node.broker.create_topic("n", TopicSettings(retention_ms=1_000))
    node.broker.publish("n", [Event(b"x")])

    time_ms[0] = 10_000
    late = 0
    while late < 2:  # The second look at the clock comes after the first round of upkeep.
        late += looks.get(timeout=30) == 10_000

    assert node.broker.bounds("n", 0).start == 1
    node.close()


def test_a_directory_that_cannot_be_served_is_given_back(tmp_path: Path) -> None:
    log = DiskLog.open(tmp_path, now_ms=lambda: 1000)
    journal = PartitionId(IDS[TOPICS], 0)
    log.ensure(journal, TOPICS, SETTINGS)
    later = Event(b'{"kind":"topic/99"}', b'["topic","n"]')
    log.append([(journal, build([later], now_ms=1000))]).durable.wait()
    log.close()

    for _ in range(2):
        with pytest.raises(FormatTooNew):
            open_node(tmp_path, Config())

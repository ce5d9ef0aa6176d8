"""Changes of topics and of groups' settings on a disk that is full, or fails.

What is told, what the broker goes on with, and what a restart finds are the same.
"""

import errno
from collections.abc import Callable

import pytest
from tests.broker.brokers import publish, read_all, values
from tests.faults.disk.disk_steps import allow, full_after, killed, opened, refuse
from tests.faults.disk.simulated_disk import SimFiles

from mainstem.broker.broker import Broker
from mainstem.core.errors import StorageFailed, StorageFull, TopicExists, UnknownTopic
from mainstem.core.event import Event
from mainstem.core.names import is_internal
from mainstem.core.topic_settings import Durability, TopicSettings
from mainstem.log.port import Durable

Change = Callable[[Broker], Durable]

LOCK = "share.record.lock.duration.ms"
CHANGES: dict[str, Change] = {
    "create": lambda it: it.create_topic("new", TopicSettings(partitions=20)).durable,
    "delete": lambda it: it.delete_topic("old"),
    "grow": lambda it: it.alter_topic("old", partitions=20).durable,
    "alter": lambda it: it.alter_topic("old", retention_ms=1_000).durable,
    "strict": lambda it: it.alter_topic("old", durability=Durability.FSYNC).durable,
    "group": lambda it: it.group_configs.alter("g", {LOCK: "1234"}),
}
every_change = pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)


class Place:
    """A broker on a simulated disk, with a topic that holds events, cursors and a queue."""

    def __init__(self) -> None:
        self.files = SimFiles()
        self.log = opened(self.files)
        self.broker = Broker(self.log, lambda: 0)
        self.broker.create_topic("old", TopicSettings(partitions=3, durability=Durability.DISK))
        publish(self.broker, "old", b"kept", partition=0)
        self.broker.commit("g", {("old", 0): 1})
        self.broker.queues.create("old", "s")
        self.log.committer.commit()

    def restarted(self) -> Broker:
        """Return the broker that kill -9 and a start leave."""
        return Broker(opened(killed(self.files)), lambda: 0)

    def in_log(self) -> dict[tuple[str, int], TopicSettings]:
        """Return the partitions that the log has for users."""
        return {
            (each.topic, each.id.number): each.settings
            for each in self.log.disk_partitions()
            if not is_internal(each.topic)
        }


def shown(broker: Broker) -> tuple[object, ...]:
    """Return all that the changes may change, as users see it."""
    topics = {topic.name: topic for topic in broker.topics()}
    old = values(read_all(broker, "old")) if "old" in topics else None
    queues = [(each.topic, each.name) for each in broker.queues.every()]
    return topics, broker.group_configs.shown("g"), old, broker.committed("g"), queues


def wanted(broker: Broker) -> dict[tuple[str, int], TopicSettings]:
    """Return the partitions that the log should have for users."""
    return {
        (topic.name, partition.number): topic.settings
        for topic in broker.topics()
        for partition in topic.partitions
    }


@every_change
def test_a_change_on_a_full_disk_is_made_and_told_or_not_made_and_refused(change: Change) -> None:
    outcomes = set()
    for steps in range(1_000):
        place = Place()
        was = shown(place.broker)
        refused = full_after(place.files, steps)

        try:
            durable = change(place.broker)
            place.log.committer.commit()
            done = durable.wait(60)
        except StorageFull:
            done = False

        now = shown(place.broker)
        assert (now != was) is done, steps
        assert shown(place.restarted()) == now, steps
        outcomes.add(done)
        allow(place.files)
        assert place.broker.wait_ms() is not None or wanted(place.broker) == place.in_log()
        place.broker.tick()
        place.log.committer.commit()
        assert wanted(place.broker) == place.in_log(), steps
        assert shown(place.broker) == shown(place.restarted()) == now, steps
        if not done:
            change(place.broker)
            place.log.committer.commit()
            assert shown(place.broker) == shown(place.restarted()) != was, steps
        if not refused:
            break
    assert outcomes == {True, False}


@every_change
def test_a_change_whose_commit_fails_is_taken_back(change: Change) -> None:
    place = Place()
    was = shown(place.broker)
    durable = change(place.broker)
    assert shown(place.broker) != was

    fail(place)

    with pytest.raises(StorageFailed):
        durable.wait(60)
    assert shown(place.broker) == was
    with pytest.raises(StorageFailed):
        change(place.broker)
    assert shown(place.broker) == was
    # Nobody can know what of a sync that failed has reached the disk, but it opens.
    shown(place.restarted())


def test_a_queue_forgets_partitions_that_were_taken_back() -> None:
    place = Place()
    place.broker.alter_topic("old", partitions=5)
    assert len(place.broker.queues.show("old", "s").windows) == 5

    fail(place)

    assert len(place.broker.queues.show("old", "s").windows) == 3
    assert len(place.broker.queues.acquire("old", "s", "ann")) == 1


def test_of_several_changes_to_a_topic_those_stay_that_are_durable() -> None:
    place = Place()
    place.broker.alter_topic("old", retention_ms=1_000)
    place.broker.alter_topic("old", partitions=4)
    place.broker.group_configs.alter("g", {LOCK: "1111"})
    place.log.committer.commit()
    was = shown(place.broker)

    place.broker.alter_topic("old", retention_ms=2_000)
    place.broker.alter_topic("old", partitions=5)
    place.broker.group_configs.alter("g", {LOCK: "2222"})
    place.broker.delete_topic("old")
    place.broker.group_configs.alter("g", {LOCK: None})
    place.broker.create_topic("new")
    place.broker.alter_topic("new", partitions=2)
    fail(place)

    assert place.broker.topic("old").settings.retention_ms == 1_000
    assert place.broker.topic("old").settings.partitions == 4
    assert shown(place.broker) == was


def test_a_topic_created_and_deleted_on_a_disk_that_fails_was_never_there() -> None:
    place = Place()
    was = shown(place.broker)
    place.broker.create_topic("new")
    place.broker.delete_topic("new")

    fail(place)

    assert shown(place.broker) == was


def test_what_a_deleted_topic_holds_stays_until_its_deletion_is_durable() -> None:
    place = Place()
    partitions = place.in_log()

    deleted = place.broker.delete_topic("old")

    with pytest.raises(UnknownTopic):
        place.broker.publish("old", [Event(b"late")])
    assert place.in_log() == partitions
    # The name is not free yet: another topic would have to go, too, if this one came back.
    with pytest.raises(TopicExists):
        place.broker.create_topic("old")
    place.log.committer.commit()
    assert deleted.done
    assert place.in_log() == {}
    assert place.broker.create_topic("old").topic.settings.partitions == 1


def test_a_deletion_that_finds_no_room_at_the_start_is_finished_when_there_is_some() -> None:
    place = Place()
    place.broker.delete_topic("old")
    crashed = killed(place.files)

    place.log = opened(crashed)
    full_after(crashed, 0)
    place.broker = Broker(place.log, lambda: 0)

    assert place.broker.topics() == []
    assert place.in_log() != {}
    place.broker.tick()
    assert place.in_log() != {}
    allow(crashed)
    place.broker.tick()
    assert place.in_log() == {}
    place.broker.create_topic("old")


def fail(place: Place) -> None:
    """Let the disk fail the next commit."""
    refuse(place.files, "sync", code=errno.EIO)
    place.log.committer.commit()

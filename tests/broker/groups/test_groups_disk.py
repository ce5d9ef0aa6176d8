"""Deleting or converting groups on a full disk: all or nothing."""

import json

import pytest
from tests.broker.brokers import Clock
from tests.broker.groups.classic.consumers import SESSION_MS, Asked, Room
from tests.broker.groups.consumer.classic_member_sessions import JsonConsumerProtocol
from tests.faults.disk.disk_steps import allow, full_after, killed, opened
from tests.faults.disk.simulated_disk import SimFiles

from mainstem.broker.broker import Broker
from mainstem.broker.groups.classic.group import Join, Joined
from mainstem.broker.groups.consumer.heartbeat import Heartbeat
from mainstem.broker.groups.consumer.records import NOTHING
from mainstem.core.errors import RebalanceInProgress, StorageFull
from mainstem.core.topic_settings import TopicSettings

GROUP = "g"
PARTITIONS = 200
"""So many that what is written of their cursors takes more room than is left over."""
FIRST_BEAT = Heartbeat(
    group=GROUP,
    member_id="ann",
    epoch=0,
    rebalance_timeout_ms=60_000,
    names=("t",),
    owned=NOTHING,
)


class Place:
    """A broker on a simulated disk, and a group that had members of both protocols."""

    def __init__(self) -> None:
        self.files = SimFiles()
        self.log = opened(self.files)
        clock = Clock()
        self.broker = Broker(self.log, clock)
        self.broker.create_topic("t", TopicSettings(partitions=PARTITIONS))
        room = Room(self.broker, clock)
        joining = room.join()
        self.log.committer.commit()
        room.leave(joining.answer)
        self.broker.consumers.heartbeat(FIRST_BEAT)
        self.broker.consumers.leave(GROUP, "ann", None)
        self.broker.commit(GROUP, {("t", each): 7 for each in range(PARTITIONS)})
        self.log.committer.commit()

    def restarted(self) -> Broker:
        """Return the broker that kill -9 and a start leave."""
        return Broker(opened(killed(self.files)), lambda: 0)


def kept(broker: Broker) -> tuple[int, bool, bool]:
    """Return what there is of the group: cursors, a classic generation, a consumer group."""
    return (
        len(broker.committed(GROUP)),
        GROUP in broker.classic.generations,
        GROUP in broker.consumers,
    )


def test_on_a_full_disk_a_group_is_deleted_altogether_or_not_at_all() -> None:
    outcomes = set()
    for steps in range(1_000):
        place = Place()
        assert kept(place.broker) == (PARTITIONS, True, True)
        refused = full_after(place.files, steps)

        try:
            place.broker.classic.delete(GROUP)
            is_done = True
        except StorageFull:
            is_done = False
        place.log.committer.commit()

        expected = (0, False, False) if is_done else (PARTITIONS, True, True)
        assert kept(place.broker) == kept(place.restarted()) == expected, steps
        outcomes.add(is_done)
        if not is_done:
            allow(place.files)
            place.broker.classic.delete(GROUP)
            place.log.committer.commit()
            assert kept(place.broker) == kept(place.restarted()) == (0, False, False), steps
        if not refused:
            break
    assert outcomes == {True, False}


class Mixed:
    """A broker on a simulated disk, and a group of one member of each protocol."""

    def __init__(self) -> None:
        self.files = SimFiles()
        self.log = opened(self.files)
        self.broker = Broker(self.log, Clock())
        self.broker.consumers.classic_members.protocol = JsonConsumerProtocol()
        self.broker.create_topic("t", TopicSettings(partitions=2))
        self.broker.consumers.heartbeat(FIRST_BEAT)
        self.generation = self.join().generation

    def join(self) -> Joined:
        """Let the classic member join, or join again."""
        asked = Asked[Joined]()
        join = Join(
            group=GROUP,
            member_id="classic member",
            protocol_type="consumer",
            protocols=(("range", json.dumps([("t",), []]).encode()),),
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=60_000,
        )
        self.broker.classic.join(join, asked)
        self.log.committer.commit()
        return asked.answer

    def restarted(self) -> Broker:
        """Return the broker that kill -9 and a start leave."""
        return Broker(opened(killed(self.files)), lambda: 0)


def is_consumer_group(broker: Broker) -> bool:
    """Tell which kind a group has, of which there must be one."""
    assert (GROUP in broker.consumers) != (GROUP in broker.classic.generations)
    return GROUP in broker.consumers


def test_on_a_full_disk_a_group_is_given_back_to_the_classic_protocol_or_stays_what_it_is() -> None:
    outcomes = set()
    for steps in range(1_000):
        place = Mixed()
        refused = full_after(place.files, steps)

        try:
            place.broker.consumers.leave(GROUP, "ann", None)
            is_out = True
        except StorageFull:
            is_out = False
        place.log.committer.commit()

        is_kept = is_consumer_group(place.broker)
        assert is_kept == is_consumer_group(place.restarted()), steps
        if is_kept:
            assert set(place.broker.consumers.members(GROUP)) == {"classic member"} | (
                set() if is_out else {"ann"}
            )
        outcomes.add((is_out, is_kept))
        allow(place.files)
        if not is_out:
            place.broker.consumers.leave(GROUP, "ann", None)
        with pytest.raises(RebalanceInProgress):
            place.broker.classic.heartbeat(GROUP, "classic member", place.generation)
        assert place.join().generation > place.generation, steps
        assert not is_consumer_group(place.broker)
        assert not is_consumer_group(place.restarted())
        if not refused:
            break
    assert outcomes == {(False, True), (True, True), (True, False)}

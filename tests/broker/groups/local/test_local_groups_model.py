"""A local group against a model: every event is processed once, by one member.

The members here do what a careful consumer does: they look at their assignment now and then, begin
new shares at the group's cursor, and finish, commit and release what is revoked. Between two looks
they go on with what they have. Only a crash, where a member disappears with work it has not
committed, makes events come again; never more than those.
"""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from tests.broker.brokers import Clock, new_broker

from mainstem.broker.groups.local.coordinator import AssignedPartition
from mainstem.core.errors import Fenced
from mainstem.core.event import Event
from mainstem.core.topic_settings import TopicSettings
from mainstem.log.memory import MemoryLog
from mainstem.log.port import PartitionId

TOPICS = ("t.a", "t.b", "other")
HAND_OVER_MS = 1_000
WISHES = [["t.*"], ["t.a"], ["t.b", "other"], ["*"]]
DEEDS = ["look"] * 6 + ["work"] * 3 + ["publish"] * 2
DEEDS += ["commit", "join", "leave", "crash", "topic", "time"]
numbers = st.integers(0, 11)
names = st.sampled_from(TOPICS)


class Consumer:
    """A member and how far it has read what it holds."""

    def __init__(self, machine: "GroupMachine", wanted: list[str]) -> None:
        self.machine = machine
        self.member = machine.broker.join("group", wanted, lambda: None)
        self.next_offsets: dict[AssignedPartition, int] = {}

    def look(self) -> None:
        """Begin what is new, give up what is revoked, drop what is gone."""
        assignment = self.member.assignment()
        self.next_offsets = {
            share: offset
            for share, offset in self.next_offsets.items()
            if share in assignment.owned or share in assignment.revoked
        }
        for share in assignment.owned:
            if share not in self.next_offsets:
                cursor = self.machine.broker.cursor("group", share.topic, share.partition)
                self.next_offsets[share] = 0 if cursor is None else cursor.offset
        held = {share: self.next_offsets.get(share) for share in assignment.revoked}
        self.member.commit({share: at for share, at in held.items() if at is not None})
        self.member.release(assignment.revoked)
        for share in assignment.revoked:
            self.next_offsets.pop(share, None)

    def work(self) -> None:
        """Read one event of every share it holds."""
        broker = self.machine.broker
        for share in self.next_offsets:
            partition = self.machine.held(self, share)
            if partition is None:
                continue
            offset = self.next_offsets[share]
            if offset < broker.bounds(share.topic, share.partition).tail:
                self.machine.worked_on(partition, offset)
                self.next_offsets[share] = offset + 1

    def commit(self) -> None:
        live = {
            share: offset
            for share, offset in self.next_offsets.items()
            if self.machine.held(self, share) is not None
        }
        self.member.commit(live)


class GroupMachine(RuleBasedStateMachine):
    """Members come, work, go and crash; topics appear, grow and vanish."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.log = MemoryLog()
        self.broker = new_broker(self.log, self.clock, HAND_OVER_MS)
        self.live: list[Consumer] = []
        self.expected: dict[PartitionId, int] = {}
        """The offset that should be worked on next in each partition."""
        self.cursors: dict[PartitionId, int] = {}

    @initialize(partitions=st.integers(1, 4), wanted=st.sampled_from(WISHES))
    def begin(self, partitions: int, wanted: list[str]) -> None:
        self.broker.create_topic("t.a", TopicSettings(partitions=partitions))
        self.publish("t.a", 3)
        self.join(wanted)

    def held(self, consumer: Consumer, share: AssignedPartition) -> PartitionId | None:
        """Return the partition of a share, unless it was taken away without being released."""
        assignment = consumer.member.assignment()
        if share not in assignment.owned and share not in assignment.revoked:
            return None
        return self.broker.topic(share.topic).partitions[share.partition]

    def worked_on(self, partition: PartitionId, offset: int) -> None:
        assert offset == self.expected.get(partition, 0), "an event was lost, or worked on twice"
        self.expected[partition] = offset + 1

    @rule(deed=st.sampled_from(DEEDS), who=numbers, times=st.integers(0, 2), topic=names)
    def anything(self, deed: str, who: int, times: int, topic: str) -> None:
        """Do one thing: a single rule, as Hypothesis would leave most of several out of a run."""
        match deed:
            case "join":
                self.join(WISHES[who % len(WISHES)])
            case "publish":
                self.publish(topic, times + 1)
            case "topic":
                self.create_or_grow_or_delete(topic, delete=times == 0)
            case "time":
                self.time_passes(HAND_OVER_MS // 4 * times)
            case _ if self.live:
                self.act(deed, self.live[who % len(self.live)], times)

    def join(self, wanted: list[str]) -> None:
        self.live.append(Consumer(self, wanted))

    def act(self, deed: str, consumer: Consumer, times: int) -> None:
        if deed == "look":
            consumer.look()
        if deed in {"look", "work"}:
            for _ in range(times):
                consumer.work()
            return
        if deed in {"commit", "leave"}:
            consumer.commit()
        if deed == "leave":
            consumer.member.leave()
            self.live.remove(consumer)
        if deed == "crash":
            self.gone_without_a_word(self.working_on(consumer))
            self.broker.fence("group", consumer.member.id)
            self.live.remove(consumer)

    def time_passes(self, ms: int) -> None:
        working = {consumer: self.working_on(consumer) for consumer in self.live}
        self.clock.now_ms += ms
        self.broker.tick()
        for consumer, partitions in working.items():
            if consumer.member.id not in self.broker._state.groups.members("group"):
                self.gone_without_a_word(partitions)
                self.live.remove(consumer)

    def working_on(self, consumer: Consumer) -> list[PartitionId]:
        held = [self.held(consumer, share) for share in consumer.next_offsets]
        return [partition for partition in held if partition is not None]

    def gone_without_a_word(self, partitions: list[PartitionId]) -> None:
        """Work that was not committed is done again by whoever gets the partition next."""
        for partition in partitions:
            self.expected[partition] = self.cursors.get(partition, 0)

    def publish(self, topic: str, count: int) -> None:
        for found in self.broker.topics(topic):
            for number in range(len(found.partitions)):
                self.broker.publish(topic, [Event(b"x")] * count, number)

    def create_or_grow_or_delete(self, topic: str, delete: bool) -> None:
        found = next(iter(self.broker.topics(topic)), None)
        if found is None:
            self.broker.create_topic(topic, TopicSettings(partitions=2))
        elif not delete:
            self.broker.alter_topic(topic, partitions=len(found.partitions) + 1)
        else:
            self.broker.delete_topic(topic)
            for partition in found.partitions:
                self.expected.pop(partition, None)
                self.cursors.pop(partition, None)

    @invariant()
    def every_partition_that_is_read_has_one_owner(self) -> None:
        owners: dict[tuple[str, int], str] = {}
        for consumer in self.live:
            assignment = consumer.member.assignment()
            for share in assignment.owned + assignment.revoked:
                assert share[:2] not in owners
                owners[share[:2]] = consumer.member.id
        wanted = [each for consumer in self.live for each in self.reads(consumer)]
        assert set(owners) == set(wanted)

    def reads(self, consumer: Consumer) -> list[tuple[str, int]]:
        state = self.broker._state.groups._groups["group"]
        return [
            (name, number)
            for name in state.reads[consumer.member.id]
            for number in range(len(self.broker.topic(name).partitions))
        ]

    @invariant()
    def no_partition_is_read_by_two(self) -> None:
        reading = [at for consumer in self.live for at in self.working_on(consumer)]
        assert len(reading) == len(set(reading))

    @invariant()
    def cursors_never_go_back(self) -> None:
        for (topic, number), cursor in self.broker.committed("group").items():
            partition = self.broker.topic(topic).partitions[number]
            assert cursor.offset >= self.cursors.get(partition, 0)
            self.cursors[partition] = cursor.offset

    @invariant()
    def another_broker_on_the_same_log_finds_the_same_cursors(self) -> None:
        again = new_broker(self.log, self.clock)
        assert again.committed("group") == self.broker.committed("group")
        assert again.topics() == self.broker.topics()

    def teardown(self) -> None:
        """When all come to rest, everything has been worked on, exactly once."""
        for _ in range(3):
            for consumer in self.live:
                consumer.look()
        for consumer in self.live:
            for _ in range(200):
                consumer.work()
            consumer.commit()
        for consumer in self.live:
            assignment = consumer.member.assignment()
            assert assignment.revoked == ()
            for share in assignment.owned:
                tail = self.broker.bounds(share.topic, share.partition).tail
                cursor = self.broker.cursor("group", share.topic, share.partition)
                assert cursor is not None
                assert cursor.offset == tail
        self.shares_are_even()

    def shares_are_even(self) -> None:
        owned = {each: each.member.assignment().owned for each in self.live}
        for shares in owned.values():
            for other, others in owned.items():
                if len(shares) > len(others) + 1:
                    assert not {share[:2] for share in shares} & set(self.reads(other))


def test_a_group_works_on_every_event_once_whatever_comes_and_goes() -> None:
    run_state_machine_as_test(
        GroupMachine, settings=settings(max_examples=60, stateful_step_count=50)
    )


def test_a_consumer_of_the_model_is_fenced_like_any_other() -> None:
    machine = GroupMachine()
    machine.begin(partitions=1, wanted=["t.*"])
    consumer = Consumer(machine, ["t.*"])

    machine.broker.fence("group", consumer.member.id)

    with pytest.raises(Fenced):
        consumer.look()

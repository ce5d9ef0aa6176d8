"""Share groups: membership, start offsets, and delivery of stored record batches."""

import pytest
from tests.broker.brokers import Clock, FullLog, LateLog, new_broker, publish
from tests.broker.transactions.transactional_producers import Bank

from mainstem.broker.broker import Broker
from mainstem.broker.groups.limits import GroupLimits
from mainstem.broker.groups.share.coordinator import ShareHeartbeatResponse
from mainstem.broker.groups.share.group import ShareHeartbeat
from mainstem.broker.groups.share.offset_reset import back_ms
from mainstem.broker.limits import Limits
from mainstem.broker.queues.records import (
    AcquiredRecords,
    Order,
    Outcome,
    QueueSettings,
    Settlement,
)
from mainstem.broker.topics.catalog import Topic, Topics
from mainstem.core.errors import (
    DamagedLog,
    GroupFull,
    GroupIsLive,
    InvalidSetting,
    StorageFull,
    UnknownGroup,
    UnknownMember,
)
from mainstem.core.event import Event
from mainstem.core.topic_settings import TopicSettings
from mainstem.log.memory import MemoryLog
from mainstem.log.port import PartitionId, Slice

HOUR_MS = 3_600_000


def beat(
    broker: Broker, epoch: int = 0, *, member: str = "ann", topics: tuple[str, ...] | None = None
) -> ShareHeartbeatResponse:
    wanted = ("orders",) if topics is None and not epoch else topics
    beat = ShareHeartbeat(group="emails", member_id=member, epoch=epoch, topics=wanted)
    return broker.share.heartbeat(beat)


def with_orders(clock: Clock | None = None, **settings: str) -> Broker:
    broker = new_broker(clock=clock)
    broker.create_topic("orders", TopicSettings(partitions=1))
    named = {f"share.{name.replace('_', '.')}": value for name, value in settings.items()}
    broker.group_configs.alter("emails", {"share.auto.offset.reset": "earliest"} | named)
    return broker


def lent(
    broker: Broker, count: int = 100, *, topic: str = "orders", whole: bool = False
) -> list[AcquiredRecords]:
    """Take events of all partitions; return which."""
    numbers = range(len(broker.topic(topic).partitions))
    lend = broker.queues.acquire_batches
    found = lend(topic, "emails", "ann", numbers, max_events=count, whole=whole)
    return [run for each in found for run in each.runs]


# Members


def test_a_member_that_is_silent_for_too_long_is_taken_out() -> None:
    clock = Clock()
    broker = with_orders(clock)
    epoch = beat(broker).epoch

    clock.now_ms += 44_999
    broker.tick()
    beat(broker, epoch)
    assert broker.wait_ms() == 45_000
    clock.now_ms += 45_000
    broker.tick()

    with pytest.raises(UnknownMember):
        beat(broker, epoch)
    assert broker.share.describe("emails").members == ()


def test_members_may_take_from_all_partitions_and_hear_of_new_ones() -> None:
    broker = with_orders()
    topic_id = broker.topic("orders").id
    first = beat(broker)
    second = beat(broker, member="bob")
    assert first.places == second.places == (("orders", topic_id, 1),)
    assert beat(broker, second.epoch, member="bob").places is None

    broker.alter_topic("orders", partitions=3)

    assert beat(broker, second.epoch, member="bob").places == (("orders", topic_id, 3),)


def test_a_group_has_members_of_one_kind_at_a_time() -> None:
    broker = with_orders()
    broker.join("emails", ["orders"], lambda: None)

    with pytest.raises(GroupIsLive, match="share"):
        beat(broker)


def test_members_and_what_they_want_are_limited() -> None:
    limits = GroupLimits(max_members=2, max_members_of_all=3, max_member_bytes=114, max_bytes=292)
    broker = Broker(MemoryLog(), Clock(), limits=Limits(groups=limits))

    def join(group: str, member: str, *topics: str) -> None:
        broker.share.heartbeat(
            ShareHeartbeat(group=group, member_id=member, epoch=0, topics=topics)
        )

    with pytest.raises(InvalidSetting):
        join("g", "ann", "t" * 51)
    with pytest.raises(InvalidSetting):
        join("g", "ann", "t", "u")
    for member in ("ann", "bob"):
        join("g", member, "t" * 40)
    with pytest.raises(GroupFull, match="2 members"):
        join("g", "cid", "t")
    with pytest.raises(GroupFull, match="292 bytes"):
        join("h", "cid", "t" * 21)
    join("h", "cid", "t")
    with pytest.raises(GroupFull, match="3 members"):
        join("i", "dan")
    broker.share.leave("g", "ann")
    join("i", "dan", "t" * 40)


def test_a_heartbeat_looks_only_at_the_topics_that_its_member_wants(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked: list[str] = []

    def count(topics: Topics, name: str) -> Topic | None:
        looked.append(name)
        return find(topics, name)

    find = Topics.find
    broker = with_orders()
    beat(broker, member="bob", topics=tuple(f"later.{number}" for number in range(1_000)))
    epoch = beat(broker).epoch
    monkeypatch.setattr(Topics, "find", count)

    beat(broker, epoch)

    assert set(looked) == {"orders"}
    assert len(looked) < 10


def test_after_a_restart_members_join_again_and_the_group_goes_on() -> None:
    log = MemoryLog()
    broker = new_broker(log)
    broker.create_topic("orders")
    broker.group_configs.alter("emails", {"share.auto.offset.reset": "earliest"})
    epoch = beat(broker).epoch
    publish(broker, "orders", b"1", b"2", b"3")
    lent(broker)
    broker.queues.settle("orders", "emails", "ann", [Settlement(0, 1)])

    again = new_broker(log)

    assert again.share.names() == ["emails"]
    with pytest.raises(UnknownMember):
        beat(again, epoch)
    beat(again)
    assert lent(again) == [AcquiredRecords(0, 0, 2), AcquiredRecords(2, 2, 2)]


def test_a_queue_of_the_same_name_is_the_group_and_keeps_its_settings() -> None:
    broker = with_orders()
    settings = QueueSettings(lock_ms=5_000, order=Order.KEY)
    broker.queues.create("orders", "emails", settings)
    broker.publish("orders", [Event(b"1", b"a"), Event(b"2", b"a"), Event(b"3", b"b")])

    beat(broker)

    assert broker.queues.settings("orders", "emails") == settings
    assert lent(broker) == [AcquiredRecords(0, 0, 1), AcquiredRecords(2, 2, 1)]
    with pytest.raises(UnknownGroup):
        broker.share.describe("others")


# Where a group begins


def test_a_group_begins_at_a_time_before_now() -> None:
    clock = Clock()
    broker = with_orders(clock, auto_offset_reset="by_duration:PT1H30M")
    publish(broker, "orders", b"old")
    clock.now_ms += 2 * HOUR_MS
    publish(broker, "orders", b"new")

    beat(broker)

    assert lent(broker) == [AcquiredRecords(1, 1, 1)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("by_duration:PT1H30M", 5_400_000),
        ("by_duration:P2DT3S", 172_803_000),
        ("by_duration:PT0.5S", 0),
        ("by_duration:P", None),
        ("by_duration:-PT1H", None),
        ("earliest", None),
    ],
)
def test_durations_are_read(text: str, expected: int | None) -> None:
    assert back_ms(text) == expected


def test_a_group_behaves_at_once_as_it_is_set_to() -> None:
    broker = with_orders()
    beat(broker)

    broker.group_configs.alter("emails", {"share.record.lock.duration.ms": "1234"})

    settings = broker.queues.settings("orders", "emails")
    assert settings is not None
    assert settings.lock_ms == 1234


@pytest.mark.parametrize(
    ("removal", "fresh"),
    [
        ({"share.delivery.count.limit": None, "share.record.lock.duration.ms": None}, False),
        ({}, True),
    ],
    ids=["named", "all others"],
)
def test_a_setting_that_is_removed_is_by_default_again_at_once(
    removal: dict[str, str | None], fresh: bool
) -> None:
    log, limit, lock = MemoryLog(), "share.delivery.count.limit", "share.record.lock.duration.ms"
    broker = new_broker(log)
    broker.create_topic("orders", TopicSettings(partitions=1))
    given = {"share.auto.offset.reset": "earliest", limit: "2", lock: "1234"}
    broker.group_configs.alter("emails", given)
    beat(broker)
    publish(broker, "orders", b"1")
    assert lent(broker) == [AcquiredRecords(0, 0, 1)]

    broker.group_configs.alter("emails", removal, fresh=fresh)

    by_default = QueueSettings(lock_ms=30_000, max_deliveries=5, uncommitted=True)
    assert broker.queues.settings("orders", "emails") == by_default
    # What is out already, too, may be delivered as often as by default.
    for count in (2, 3, 4, 5):
        broker.queues.leave("orders", "emails", "ann", failed=True)
        assert lent(broker) == [AcquiredRecords(0, 0, count)]
    assert new_broker(log).queues.settings("orders", "emails") == by_default


def test_what_is_set_for_a_group_lies_over_the_settings_of_a_queue() -> None:
    broker = with_orders()
    settings = QueueSettings(lock_ms=5_000, max_deliveries=7)
    broker.queues.create("orders", "emails", settings)
    beat(broker)

    broker.group_configs.alter("emails", {"share.record.lock.duration.ms": "1234"})
    over = broker.queues.settings("orders", "emails")
    broker.group_configs.alter("emails", {"share.record.lock.duration.ms": None})

    assert over == QueueSettings(lock_ms=1_234, max_deliveries=7)
    assert broker.queues.settings("orders", "emails") == settings
    assert broker.queues.created_with("orders", "emails") == settings


def test_a_topic_that_was_made_again_is_taken_from_its_beginning() -> None:
    broker = with_orders(auto_offset_reset="latest")
    epoch = beat(broker).epoch

    broker.delete_topic("orders")
    broker.create_topic("orders")
    publish(broker, "orders", b"1")
    beat(broker, epoch)

    assert lent(broker) == [AcquiredRecords(0, 0, 1)]


# What is handed out as it is stored


def test_a_topic_that_was_waited_for_is_taken_from_its_beginning_also_after_a_full_disk() -> None:
    log = FullLog()
    broker = new_broker(log)
    epoch = beat(broker).epoch
    broker.create_topic("orders", TopicSettings(partitions=1))
    publish(broker, "orders", b"1")

    log.is_full = True
    with pytest.raises(StorageFull):
        beat(broker, epoch)
    log.is_full = False
    beat(broker, epoch)

    assert lent(broker) == [AcquiredRecords(0, 0, 1)]


def test_a_new_group_is_put_somewhere_in_one_append() -> None:
    log = LateLog()
    broker = new_broker(log)
    broker.create_topic("orders", TopicSettings(partitions=2))
    for number in range(2):
        publish(broker, "orders", b"1", b"2", partition=number)
    log.late = True

    broker.share.seek("emails", "orders", {0: 1})

    assert len(log.commits) == 1
    (found,) = broker.share.positions("emails")
    assert [each.start for each in found.windows] == [1, 2]


def test_only_as_much_is_lent_as_may_be_unsettled() -> None:
    broker = with_orders(partition_max_record_locks="100")
    beat(broker)
    for _ in range(2):
        publish(broker, "orders", *[b"x"] * 80)

    assert lent(broker, 1_000, whole=True) == [AcquiredRecords(0, 99, 1)]
    assert lent(broker, 1_000, whole=True) == []
    broker.queues.settle("orders", "emails", "ann", [Settlement(0, 5)])
    assert lent(broker, 1_000, whole=True) == [AcquiredRecords(100, 100, 1)]


def test_a_batch_that_is_too_large_is_lent_alone_and_first() -> None:
    broker = with_orders()
    broker.alter_topic("orders", partitions=2)
    beat(broker)
    for partition in (0, 0, 0, 1, 1):
        publish(broker, "orders", b"x" * 1_000, partition=partition)
    publish(broker, "orders", b"x" * 5_000, partition=1)

    def lent_within(max_bytes: int) -> list[int]:
        lend = broker.queues.acquire_batches
        found = lend("orders", "emails", "ann", (0, 1), max_events=100, max_bytes=max_bytes)
        assert sum(len(batch) for each in found for batch in each.batches) <= max(max_bytes, 5_100)
        return [len(each.batches) for each in found]

    # Partitions have turns: the second one comes first.
    assert lent_within(3_500) == [2, 1]
    assert lent_within(1_500) == [1]
    assert lent_within(1_500) == [1]
    assert lent_within(1_500) == [1]
    assert lent_within(1_500) == []
    broker.queues.leave("orders", "emails", "ann")
    assert [lent_within(1_500) for _ in range(7)] == [[1]] * 6 + [[]]


def test_a_batch_that_is_begun_is_lent_whole_if_wanted() -> None:
    broker = with_orders()
    beat(broker)
    for _ in range(3):
        publish(broker, "orders", *[b"x"] * 10)

    assert lent(broker, 11, whole=True) == [AcquiredRecords(0, 19, 1)]
    assert lent(broker, 3) == [AcquiredRecords(20, 22, 1)]
    assert lent(broker, 1, whole=True) == [AcquiredRecords(23, 29, 1)]


@pytest.mark.parametrize(
    ("level", "before", "after"),
    [
        # Committed at 0, aborted at 2, ongoing at 4: with a marker each at 1, 3 and 5.
        ("read_committed", [AcquiredRecords(0, 0, 1)], [AcquiredRecords(4, 4, 1)]),
        (
            "read_uncommitted",
            [AcquiredRecords(0, 0, 1), AcquiredRecords(2, 2, 1), AcquiredRecords(4, 4, 1)],
            [],
        ),
    ],
)
def test_transactions_are_waited_for_if_the_group_says_so(
    level: str, before: list[AcquiredRecords], after: list[AcquiredRecords]
) -> None:
    bank = Bank()
    settings = {"share.isolation.level": level, "share.auto.offset.reset": "earliest"}
    bank.broker.group_configs.alter("emails", settings)
    teller = bank.begin()
    for end in (True, False):
        teller.add(0)
        teller.write(b"x")
        teller.end(committed=end)
    teller.add(0)
    teller.write(b"x")
    beat(bank.broker, topics=("t",))

    assert lent(bank.broker, topic="t") == before
    teller.end(committed=True)
    assert lent(bank.broker, topic="t") == after


def test_events_are_acquired_one_by_one_and_as_stored_side_by_side() -> None:
    broker = with_orders()
    beat(broker)
    publish(broker, "orders", *[b"%d" % number for number in range(9)])
    acquire = broker.queues.acquire

    first = acquire("orders", "emails", "bob", max_events=2)
    stored = lent(broker, 3)
    second = acquire("orders", "emails", "bob", max_events=2)

    assert [each.event.offset for each in [*first, *second]] == [0, 1, 5, 6]
    assert stored == [AcquiredRecords(2, 4, 1)]


def test_what_is_given_back_is_lent_once_also_after_a_change_of_settings() -> None:
    broker = with_orders()
    beat(broker)
    publish(broker, "orders", b"1", b"2")
    assert lent(broker) == [AcquiredRecords(0, 1, 1)]
    broker.queues.leave("orders", "emails", "ann", failed=True)

    broker.group_configs.alter("emails", {"share.record.lock.duration.ms": "20000"})

    assert lent(broker) == [AcquiredRecords(0, 1, 2)]
    assert broker.queues.show("orders", "emails").owners == {"ann": 2}


def test_an_event_that_waited_for_its_key_is_lent_once_after_a_restart() -> None:
    log = MemoryLog()
    broker = new_broker(log)
    broker.create_topic("orders", TopicSettings(partitions=1))
    broker.queues.create("orders", "emails", QueueSettings(order=Order.KEY))
    broker.publish("orders", [Event(b"1", b"k"), Event(b"2", b"k")])
    (first,) = broker.queues.acquire("orders", "emails", "bob", max_events=2)
    nack = Settlement(0, first.event.offset, Outcome.NACK)
    broker.queues.settle("orders", "emails", "bob", [nack])

    broker = new_broker(log)
    broker.queues.acquire("orders", "emails", "bob")
    broker.queues.settle("orders", "emails", "bob", [Settlement(0, 0)])

    assert lent(broker) == [AcquiredRecords(1, 1, 1)]
    assert broker.queues.show("orders", "emails").owners == {"ann": 1}


def test_what_was_taken_in_when_the_disk_could_not_be_read_is_not_taken_in_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = MemoryLog()
    broker = new_broker(log)
    broker.create_topic("orders", TopicSettings(partitions=1))
    broker.queues.create("orders", "emails", QueueSettings(order=Order.KEY))
    broker.publish("orders", [Event(b"1", b"k")])
    broker.queues.acquire("orders", "emails", "bob")
    broker.publish("orders", [Event(b"2", b"k")])
    broker.publish("orders", [Event(b"3", b"k")])
    read = log.read

    def read_some(at: PartitionId, offset: int, max_bytes: int) -> Slice:
        if offset == 2:
            raise DamagedLog("a segment cannot be read")
        return read(at, offset, 1)

    monkeypatch.setattr(log, "read", read_some)
    with pytest.raises(DamagedLog):
        lent(broker)
    monkeypatch.undo()

    got = []
    broker.queues.settle("orders", "emails", "bob", [Settlement(0, 0)])
    while found := broker.queues.acquire("orders", "emails", "bob", max_events=5):
        got += [each.event.value for each in found]
        done = [Settlement(0, each.event.offset) for each in found]
        broker.queues.settle("orders", "emails", "bob", done)
    assert got == [b"2", b"3"]
    assert broker.queues.show("orders", "emails").windows[0].start == 3


def test_all_or_nothing_is_settled_in_a_partition() -> None:
    broker = with_orders()
    broker.alter_topic("orders", partitions=2)
    beat(broker)
    publish(broker, "orders", b"1", b"2", partition=0)
    publish(broker, "orders", b"3", b"4", partition=1)
    lent(broker)

    settled = broker.queues.settle_by_partition(
        "orders",
        "emails",
        "ann",
        {
            0: [Settlement(0, 0), Settlement(0, 7)],
            1: [Settlement(1, 0), Settlement(1, 1, Outcome.NACK)],
            9: [Settlement(9, 0)],
        },
    )

    assert sorted(settled.refused) == [0, 9]
    windows = broker.queues.show("orders", "emails").windows
    assert [(each.start, each.out, each.waiting) for each in windows] == [(0, 2, 0), (1, 0, 1)]

"""Delayed events are published exactly once when due, in slices, and hold up no others."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.broker.brokers import Clock, FullLog, LateLog, new_broker, publish, read_all, values
from tests.long_runs import LONG

from mainstem.broker.broker import Broker
from mainstem.broker.delays import delays
from mainstem.broker.delays.delays import LOOK_MS, MAX_AT_ONCE, DelayedEvent
from mainstem.broker.journal import DELAYED, IDS, SETTINGS_OF
from mainstem.broker.publishing.atomic import PublishedAll
from mainstem.broker.queues.dead_letters import RoutedEvent
from mainstem.core.errors import EventTooLarge, InvalidEvent, StorageFull, UnknownTopic
from mainstem.core.event import Event
from mainstem.core.topic_settings import TopicSettings
from mainstem.log.memory import MemoryLog
from mainstem.log.port import Appended, PartitionId, Slice

AT = PartitionId(IDS[DELAYED], 0)
HOUR_MS = 3_600_000
MANY = 1_000_000 if LONG else 20_000


class CountedLog(MemoryLog):
    """Counts reads of the delayed events, and the batches of each append."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0
        self.appends: list[int] = []

    def read(self, partition: PartitionId, offset: int, max_bytes: int) -> Slice:
        """Read, and count."""
        self.reads += partition == AT
        return super().read(partition, offset, max_bytes)

    def append(
        self,
        batches: Sequence[tuple[PartitionId, bytearray | memoryview]],
        *,
        together: bool = True,
        lazy: bool = False,
    ) -> Appended:
        """Append, and count."""
        self.appends.append(len(batches))
        return super().append(batches, together=together, lazy=lazy)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def broker(clock: Clock) -> Broker:
    broker = new_broker(clock=clock)
    broker.create_topic("t")
    return broker


def delay(broker: Broker, clock: Clock, delay_ms: int, *given: bytes, topic: str = "t") -> None:
    """Publish one event per value later."""
    found = broker.publish_all(
        (),
        delayed=[DelayedEvent(Event(each), clock() + delay_ms, topic) for each in given],
    )
    assert isinstance(found, PublishedAll)


def run(broker: Broker) -> int:
    """Tick until nothing is due now; return how often that was."""
    count = 0
    while broker.wait_ms() == 0:
        broker.tick()
        count += 1
    return count


def test_events_are_published_when_they_are_due_the_earliest_first(
    broker: Broker, clock: Clock
) -> None:
    delay(broker, clock, HOUR_MS, b"c", b"d")
    delay(broker, clock, 10, b"a")
    delay(broker, clock, 20, b"b")

    assert broker.wait_ms() == 10
    assert run(broker) == 0
    clock.now_ms += 10
    run(broker)
    assert values(read_all(broker, "t")) == [b"a"]
    assert broker.delays.waiting()[:2] == (3, clock() + 10)
    clock.now_ms += HOUR_MS
    run(broker)

    assert values(read_all(broker, "t")) == [b"a", b"b", b"c", b"d"]
    assert broker.delays.waiting() == (0, None, 0, 0)


def test_the_clock_is_looked_at_every_minute(broker: Broker, clock: Clock) -> None:
    delay(broker, clock, HOUR_MS, b"x")
    assert broker.wait_ms() == LOOK_MS
    broker.tick()
    clock.now_ms += HOUR_MS - 5
    assert broker.wait_ms() == 5


def test_an_event_stays_as_it_is(broker: Broker, clock: Clock) -> None:
    broker.create_topic("wide", TopicSettings(partitions=4))
    event = Event(b"\xff", b"\xfe", (("h", b"1"), ("h", None)), timestamp_ms=7)
    timeless = Event(None, b"k")
    later = [DelayedEvent(each, clock() + 5, "wide", 3) for each in (event, timeless)]
    broker.publish_all((), delayed=later)

    clock.now_ms += 5
    run(broker)

    found, second = read_all(broker, "wide", 3)
    assert (found.value, found.key, found.headers, found.timestamp_ms) == (
        event.value,
        event.key,
        event.headers,
        7,
    )
    assert (second.value, second.key, second.timestamp_ms) == (None, b"k", clock())


def test_an_event_that_its_topic_does_not_take_is_refused_at_once(
    broker: Broker, clock: Clock
) -> None:
    broker.create_topic("small", TopicSettings(max_batch_bytes=1_024))
    broker.create_topic("compacted", TopicSettings(compact=True))

    with pytest.raises(EventTooLarge):
        delay(broker, clock, 1, b"x" * 1_024, topic="small")
    with pytest.raises(InvalidEvent):
        delay(broker, clock, 1, b"x", topic="compacted")
    with pytest.raises(UnknownTopic):
        delay(broker, clock, 1, b"x", topic="none")
    with pytest.raises(UnknownTopic):
        delay(broker, clock, 1, b"x", topic=DELAYED)

    assert broker.delays.waiting().events == 0


def counted_broker(clock: Clock) -> tuple[Broker, CountedLog]:
    log = CountedLog()
    broker = new_broker(log, clock)
    broker.create_topic("t")
    return broker, log


@pytest.mark.timeout(0 if LONG else 300)
def test_many_delayed_events_are_in_nobodys_way(clock: Clock) -> None:
    broker, log = counted_broker(clock)
    for first in range(0, MANY, 1_000):
        delay(broker, clock, HOUR_MS + first, *[b"late"] * 1_000)
    log.reads = 0
    log.appends.clear()

    publish(broker, "t", b"now")
    delay(broker, clock, 5, b"soon")
    clock.now_ms += 5
    run(broker)

    assert values(read_all(broker, "t")) == [b"now", b"soon"]
    assert broker.delays.waiting().events == MANY
    # The one that was due, and its batches: itself and the mark.
    assert (log.reads, log.appends) == (1, [1, 1, 2])


@pytest.mark.timeout(0 if LONG else 300)
def test_many_that_are_due_at_once_come_in_slices(clock: Clock) -> None:
    broker, log = counted_broker(clock)
    for first in range(0, MANY, 1_000):
        delay(broker, clock, 5, *[b"%d" % at for at in range(first, first + 1_000)])
    clock.now_ms += 5
    log.appends.clear()

    broker.tick()
    assert broker.bounds("t", 0).tail == MAX_AT_ONCE
    publish(broker, "t", b"in between")
    run(broker)

    found = values(read_all(broker, "t"))
    assert found.pop(MAX_AT_ONCE) == b"in between"
    assert found == [b"%d" % at for at in range(MANY)]
    # One batch of events and one mark each.
    assert log.appends.count(2) == MANY // MAX_AT_ONCE


def test_slices_are_bounded_in_bytes_too(
    broker: Broker, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delays, "MAX_BYTES", 2_000)
    delay(broker, clock, 5, *[b"x" * 1_500] * 5)
    clock.now_ms += 5

    broker.tick()

    assert broker.bounds("t", 0).tail == 2
    assert run(broker) >= 2
    assert broker.bounds("t", 0).tail == 5


def test_the_next_slice_waits_until_the_one_before_is_durable(clock: Clock) -> None:
    log = LateLog()
    broker = new_broker(log, clock)
    broker.create_topic("t")
    delay(broker, clock, 5, *[b"x"] * (MAX_AT_ONCE + 1))
    log.late = True
    clock.now_ms += 5

    broker.tick()
    assert broker.wait_ms() is None
    broker.tick()
    assert log.appends == 3
    woken: list[bool] = []
    broker.when_due_earlier(lambda: woken.append(True))
    log.settle()

    assert woken
    assert broker.wait_ms() == 0
    broker.tick()
    assert broker.bounds("t", 0).end == MAX_AT_ONCE + 1


def test_a_full_disk_loses_nothing_and_the_rest_goes_on_later(clock: Clock) -> None:
    log = FullLog()
    broker = new_broker(log, clock)
    broker.create_topic("t")
    delay(broker, clock, 5, b"a", b"b")
    log.is_full = True
    with pytest.raises(StorageFull):
        delay(broker, clock, 5, b"refused")
    clock.now_ms += 5

    broker.tick()
    assert (broker.wait_ms(), broker.delays.waiting().events) == (1_000, 2)
    log.is_full = False
    clock.now_ms += 1_000
    run(broker)

    assert values(read_all(broker, "t")) == [b"a", b"b"]


def test_events_of_a_deleted_topic_are_dropped_even_if_there_is_another_of_its_name(
    broker: Broker, clock: Clock
) -> None:
    broker.create_topic("gone")
    broker.create_topic("again")
    delay(broker, clock, 5, b"x", topic="gone")
    delay(broker, clock, 5, b"x", topic="again")
    delay(broker, clock, 5, b"kept")
    for name in ("gone", "again"):
        broker.delete_topic(name)
    run(broker)
    broker.create_topic("again")

    clock.now_ms += 5
    run(broker)

    assert values(read_all(broker, "t")) == [b"kept"]
    assert broker.bounds("again", 0).end == 0
    assert broker.delays.waiting() == (0, None, 2, 0)


def test_an_event_that_its_topic_no_longer_takes_is_dropped_alone(
    broker: Broker, clock: Clock
) -> None:
    delay(broker, clock, 5, b"a", b"x" * 5_000, b"b")
    broker.alter_topic("t", max_batch_bytes=1_024)

    clock.now_ms += 5
    run(broker)

    assert values(read_all(broker, "t")) == [b"a", b"b"]
    assert broker.delays.waiting() == (0, None, 1, 0)


def test_routes_are_found_when_events_are_due_and_wait_for_their_head(
    broker: Broker, clock: Clock
) -> None:
    def router(route: str, event: Event) -> list[RoutedEvent]:
        return [RoutedEvent(name, 0, event) for name in route.split()]

    broker.create_topic("u")
    later = [
        DelayedEvent(Event(route.encode()), clock() + 5, head=head, route=route)
        for head, route in (("amqp", "t u"), ("other", "t"), ("amqp", ""), ("amqp", "u none"))
    ]
    broker.publish_all((), delayed=later)
    delay(broker, clock, 6, b"not held up")
    clock.now_ms += 6

    run(broker)
    assert values(read_all(broker, "t")) == [b"not held up"]
    broker.delays.route_delayed("amqp", router)
    run(broker)

    assert values(read_all(broker, "t")) == [b"not held up", b"t u"]
    assert values(read_all(broker, "u")) == [b"t u", b"u none"]
    assert broker.delays.waiting().events == 1


def test_an_event_whose_record_is_gone_holds_up_no_other(broker: Broker, clock: Clock) -> None:
    delay(broker, clock, 5, b"a", b"b", b"c")
    # As after a repair of a damaged disk.
    broker.delays._log.cut(AT, start=1)

    clock.now_ms += 5
    run(broker)

    assert values(read_all(broker, "t")) == [b"b", b"c"]
    assert broker.delays.waiting() == (0, None, 1, 0)


def test_what_was_moved_frees_disk_and_what_waits_long_is_written_anew(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = SETTINGS_OF[DELAYED].altered(segment_bytes=1_024)
    monkeypatch.setitem(SETTINGS_OF, DELAYED, small)
    log = MemoryLog()
    broker = new_broker(log, clock)
    broker.create_topic("t")
    delay(broker, clock, HOUR_MS, b"far")
    for first in range(100):
        delay(broker, clock, first, *[b"%d" % at for at in range(20)])

    for _ in range(200):
        clock.now_ms += 1_000
        run(broker)

    assert log.bounds(AT).size_bytes < 5_000
    assert broker.bounds("t", 0).end == 2_000
    assert new_broker(log, clock).delays.index.entries() == broker.delays.index.entries()
    clock.now_ms += HOUR_MS
    run(broker)
    clock.now_ms += 1_000
    run(broker)
    assert values(read_all(broker, "t"))[2_000:] == [b"far"]
    bounds = log.bounds(AT)
    assert bounds.start == bounds.tail
    assert broker.wait_ms() is None


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("delay"), st.integers(0, 30), st.integers(1, 5)),
        st.tuples(st.just("pass"), st.integers(1, 20), st.just(0)),
        st.tuples(st.just("tick"), st.just(0), st.just(0)),
        st.tuples(st.just("full"), st.integers(0, 1), st.just(0)),
        st.tuples(st.just("reopen"), st.just(0), st.just(0)),
    ),
    max_size=40,
)


@given(STEPS)
def test_replay_gives_what_live_gave_and_each_event_comes_once(
    steps: list[tuple[str, int, int]],
) -> None:
    log, clock = FullLog(), Clock()
    broker = new_broker(log, clock)
    broker.create_topic("t")
    stored: list[tuple[int, int]] = []
    number = 0

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delays, "MAX_AT_ONCE", 3)
        patch.setattr(delays, "TIDY_MS", 5)
        patch.setitem(SETTINGS_OF, DELAYED, SETTINGS_OF[DELAYED].altered(segment_bytes=1_024))
        for what, first, second in steps:
            if what == "delay" and not log.is_full:
                for _ in range(second):
                    delay(broker, clock, first, b"%d" % number)
                    stored.append((clock() + first, number))
                    number += 1
            elif what == "pass":
                clock.now_ms += first
            elif what == "tick":
                broker.tick()
            elif what == "full":
                log.is_full = bool(first)
            elif what == "reopen":
                log.is_full = False
                broker = new_broker(log, clock)
            kept = new_broker(log, clock).delays.index if not log.is_full else None
            assert kept is None or kept.entries() == broker.delays.index.entries()
        log.is_full = False
        clock.now_ms += 2_000
        run(broker)

    found = [int(event.value or b"") for event in read_all(broker, "t")] if number else []
    assert sorted(found) == sorted(each for _, each in stored)

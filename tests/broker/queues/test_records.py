"""Records of a large queue state: mostly changes only; replay gives the same state."""

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.broker.queues.queue_consumers import LOCK_MS, Desk

from mainstem.broker.journal import IDS, QUEUES
from mainstem.broker.queues.records import (
    ChangeKey,
    QueueChange,
    QueueKey,
    QueueSet,
    RunKey,
    RunSet,
    WindowChange,
    WindowKey,
    WindowSet,
)
from mainstem.broker.queues.replay import MAX_CHANGES, QueueFold
from mainstem.core.batch import batches
from mainstem.core.event import Event
from mainstem.core.records import events
from mainstem.log.port import PartitionId

EVENTS = 400
JOURNAL = PartitionId(IDS[QUEUES], 0)
KEYS = msgspec.json.Decoder(QueueKey | WindowKey | ChangeKey | RunKey)
VALUES = msgspec.json.Decoder(QueueSet | WindowSet | WindowChange | RunSet)

deeds = st.tuples(
    st.sampled_from(["acquire", "ack", "nack", "expire", "leave"]),
    st.integers(0, 99),
    st.integers(1, 40),
)


def desk_of_many() -> Desk:
    desk = Desk(max_deliveries=3)
    desk.publish(*[b"x"] * EVENTS)
    return desk


def written(desk: Desk) -> list[Event]:
    """Return every record that was written of queues."""
    start, tail = desk.log.bounds(JOURNAL)[:2]
    read = desk.log.read(JOURNAL, start, 100_000_000) if start < tail else None
    found = [] if read is None else batches(read.tobytes())
    return [event for batch in found for event in events(batch)]


def folded(records: list[Event]) -> QueueFold:
    fold = QueueFold()
    for each in records:
        value = None if each.value is None else VALUES.decode(each.value)
        fold.apply([QueueChange(KEYS.decode(each.key or b""), value)])
    return fold


def latest(records: list[Event]) -> list[Event]:
    """Return what compaction would keep: the latest record of each key, in order."""
    last = {each.key: place for place, each in enumerate(records)}
    return [records[place] for place in sorted(last.values())]


@given(st.lists(deeds, min_size=1, max_size=60))
@settings(max_examples=40)
def test_replay_gives_the_windows_that_live_had_also_after_compaction(
    given_deeds: list[tuple[str, int, int]],
) -> None:
    desk = desk_of_many()
    out = desk.acquire(100)

    for deed, at, count in given_deeds:
        chosen = out[at % 7 :: 7][:count]
        match deed:
            case "acquire":
                out += desk.acquire(count)
            case "ack" | "nack":
                getattr(desk, deed)(*chosen)
                out = [each for each in out if each not in chosen]
            case "expire":
                desk.clock.now_ms += LOCK_MS
                out = []
            case _:
                desk.queues.leave("orders", "emails", "ann")
                out = []

    records = written(desk)
    assert folded(records) == desk.queues.fold
    assert folded(latest(records)) == desk.queues.fold
    assert folded(latest(records[: len(records) // 2]) + records[len(records) // 2 :]) == (
        desk.queues.fold
    )


def test_one_ack_among_many_writes_little_and_now_and_then_all() -> None:
    desk = desk_of_many()
    deliveries = desk.acquire(EVENTS)
    before = len(written(desk))

    for each in deliveries[:200:2]:
        desk.ack(each)

    records = written(desk)[before:]
    kinds = [type(KEYS.decode(each.key or b"")) for each in records]
    assert len(records) == 100
    assert kinds[:MAX_CHANGES] == [ChangeKey] * MAX_CHANGES
    assert kinds[MAX_CHANGES] is WindowKey
    small = [len(each.value or b"") for each in records if len(each.value or b"") < 100]
    assert len(small) >= 97


def test_a_restart_among_many_changes_forgets_no_ack() -> None:
    desk = desk_of_many()
    for each in desk.acquire(EVENTS)[1::3]:
        desk.ack(each)

    offsets = [each.event.offset for each in desk.restarted().acquire(EVENTS)]

    assert offsets == [at for at in range(EVENTS) if at % 3 != 1]


def test_a_forgotten_queue_leaves_nothing_behind() -> None:
    desk = desk_of_many()
    for each in desk.acquire(EVENTS)[::2]:
        desk.ack(each)

    desk.queues.delete("orders", "emails")

    left = {each.key for each in latest(written(desk)) if each.value is not None}
    assert left == {msgspec.json.encode(RunKey())}
    assert list(desk.restarted().queues.fold) == []


def test_how_often_events_were_delivered_is_written_with_the_next_change() -> None:
    desk = desk_of_many()
    deliveries = desk.acquire(100)
    desk.nack(deliveries[5])
    desk.acquire(1)

    desk.ack(deliveries[50])

    again = {each.event.offset: each.count for each in desk.restarted().acquire(100)}
    assert (again[5], again[6]) == (3, 2)

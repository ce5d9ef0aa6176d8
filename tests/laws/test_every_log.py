"""Laws that every log implementation obeys."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.laws.log_implementations import (
    DURABLE,
    FACTORIES,
    FIRST,
    SECOND,
    UNKNOWN,
    Calls,
    OpenLog,
    all_events,
    append,
    batch_of,
    events_in,
    open_partitions,
)

from mainstem.core.errors import Closed, OffsetOutOfRange, UnknownPartition
from mainstem.core.topic_settings import TopicSettings
from mainstem.log.port import PartitionId


@pytest.fixture(params=FACTORIES)
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenLog]:
    opened = FACTORIES[request.param](tmp_path)
    open_partitions(opened)
    yield opened
    opened.close()


def test_a_new_partition_is_empty(log: OpenLog) -> None:
    bounds = log.bounds(FIRST)

    assert bounds[:4] == (0, 0, 0, 0)
    assert log.read(FIRST, 0, 1_000_000).length == 0


def test_offsets_are_given_without_gaps_from_zero(log: OpenLog) -> None:
    given = [append(log, FIRST, *[b"x"] * count) for count in (1, 3, 2, 1)]

    assert given == [0, 1, 4, 6]
    assert log.bounds(FIRST)[:3] == (0, 7, 7)


def test_partitions_count_apart(log: OpenLog) -> None:
    append(log, FIRST, b"a", b"b")

    assert append(log, SECOND, b"c") == 0
    assert log.bounds(FIRST).tail == 2
    assert log.bounds(SECOND).tail == 1


def test_the_place_is_written_into_the_given_buffer(log: OpenLog) -> None:
    append(log, FIRST, b"a", b"b")
    batch = batch_of(b"c")

    log.append([(FIRST, batch)]).durable.wait(30)

    assert bytes(log.read(FIRST, 2, 1_000).tobytes()) == bytes(batch)


def test_a_batch_may_be_given_as_a_view_and_its_buffer_used_again(log: OpenLog) -> None:
    batch = batch_of(b"first")
    buffer = bytearray(b"....") + batch

    with memoryview(buffer) as view:
        log.append([(FIRST, view[4:])]).durable.wait(30)
    buffer[:] = bytes(len(buffer))

    assert all_events(log, FIRST) == [(0, b"first")]


@pytest.mark.parametrize(("offset", "base"), [(0, 0), (1, 0), (2, 0), (3, 3), (4, 4), (5, 4)])
def test_a_read_begins_with_the_batch_that_holds_the_offset(
    log: OpenLog, offset: int, base: int
) -> None:
    append(log, FIRST, b"a", b"b", b"c")
    append(log, FIRST, b"d")
    append(log, FIRST, b"e", b"f")

    read = log.read(FIRST, offset, 1_000_000)

    assert events_in(read) == list(enumerate([b"a", b"b", b"c", b"d", b"e", b"f"]))[base:]


def test_a_read_takes_whole_batches_up_to_its_limit(log: OpenLog) -> None:
    for value in (b"a", b"b", b"c"):
        append(log, FIRST, value)
    size = log.read(FIRST, 0, 1).length

    assert log.read(FIRST, 0, size * 2).length == size * 2
    assert log.read(FIRST, 0, size * 2 + size - 1).length == size * 2
    assert log.read(FIRST, 0, size * 3).length == size * 3


def test_a_read_returns_at_least_one_batch_however_small_its_limit(log: OpenLog) -> None:
    append(log, FIRST, b"a" * 5_000)
    append(log, FIRST, b"b")

    assert events_in(log.read(FIRST, 0, 0)) == [(0, b"a" * 5_000)]


def test_a_read_at_the_tail_is_empty_and_beyond_it_is_refused(log: OpenLog) -> None:
    append(log, FIRST, b"a")

    assert log.read(FIRST, 1, 1_000).length == 0
    with pytest.raises(OffsetOutOfRange) as refused:
        log.read(FIRST, 2, 1_000)
    assert (refused.value.offset, refused.value.start, refused.value.tail) == (2, 0, 1)
    with pytest.raises(OffsetOutOfRange):
        log.read(FIRST, -1, 1_000)


def test_size_grows_with_what_is_appended(log: OpenLog) -> None:
    batch = batch_of(b"a" * 100)

    log.append([(FIRST, batch)]).durable.wait(30)

    assert log.bounds(FIRST).size_bytes == len(batch)


def test_an_unknown_partition_is_refused_by_everything(log: OpenLog) -> None:
    calls: list[Callable[[], object]] = [
        lambda: log.bounds(UNKNOWN),
        lambda: log.read(UNKNOWN, 0, 1),
        lambda: log.append([(UNKNOWN, batch_of(b"a"))]),
        lambda: log.offset_at(UNKNOWN, 0),
        lambda: log.watch(UNKNOWN, 0, print),
        lambda: log.cut(UNKNOWN, start=0),
    ]

    for call in calls:
        with pytest.raises(UnknownPartition):
            call()


def test_batches_that_stand_for_themselves_get_offsets_in_a_row(log: OpenLog) -> None:
    append(log, FIRST, b"a")
    given = [batch_of(b"b", b"c"), batch_of(b"d"), batch_of(b"e", b"f")]

    appended = log.append([(FIRST, each) for each in given], together=False)
    appended.durable.wait(30)

    assert appended.offsets == [1, 3, 4]
    assert all_events(log, FIRST) == list(enumerate([b"a", b"b", b"c", b"d", b"e", b"f"]))


def test_batches_for_several_partitions_stand_for_themselves(log: OpenLog) -> None:
    append(log, SECOND, b"a")
    left = [(FIRST, batch_of(b"b")), (FIRST, batch_of(b"c")), (SECOND, batch_of(b"d", b"e"))]
    offsets = []

    while left:
        appended = log.append(left, together=False)
        appended.durable.wait(30)
        assert len(appended.starts) == len(appended.offsets)
        offsets += appended.offsets
        left = left[len(appended.offsets) :]

    assert offsets == [0, 1, 1]
    assert all_events(log, FIRST) == [(0, b"b"), (1, b"c")]
    assert all_events(log, SECOND) == [(0, b"a"), (1, b"d"), (2, b"e")]


def test_what_is_refused_of_such_batches_keeps_nobody_else_from_being_appended(
    log: OpenLog,
) -> None:
    given = [(FIRST, batch_of(b"a")), (UNKNOWN, batch_of(b"b")), (SECOND, batch_of(b"c"))]

    appended = log.append(given, together=False)
    appended.durable.wait(30)
    with pytest.raises(UnknownPartition):
        log.append(given[len(appended.offsets) :], together=False)

    assert appended.offsets == [0]
    assert all_events(log, FIRST) == [(0, b"a")]


def test_what_follows_such_batches_is_found_by_offset_and_by_time(log: OpenLog) -> None:
    given = [batch_of(b"a", timestamps_ms=[5]), batch_of(b"b", timestamps_ms=[9])]
    log.append([(FIRST, each) for each in given], together=False).durable.wait(30)

    append(log, FIRST, b"c")

    assert events_in(log.read(FIRST, 1, 1)) == [(1, b"b")]
    assert log.offset_at(FIRST, 6) == (1, 9)


def test_batches_beyond_the_end_of_a_segment_are_given_again(log: OpenLog) -> None:
    small = TopicSettings(partitions=2, segment_bytes=1024)
    open_partitions(log, settings=small)
    left = [batch_of(bytes([number]) * 150) for number in range(20)]
    offsets = []

    while left:
        appended = log.append([(FIRST, each) for each in left], together=False)
        appended.durable.wait(30)
        offsets += appended.offsets
        left = left[len(appended.offsets) :]

    assert offsets == list(range(20))
    assert [value[:1] for _, value in all_events(log, FIRST)] == [bytes([n]) for n in range(20)]


def test_an_append_to_several_partitions_is_all_or_nothing(log: OpenLog) -> None:
    appended = log.append(
        [(FIRST, batch_of(b"a")), (SECOND, batch_of(b"b", b"c")), (FIRST, batch_of(b"d"))]
    )
    appended.durable.wait(30)
    with pytest.raises(UnknownPartition):
        log.append([(FIRST, batch_of(b"lost")), (UNKNOWN, batch_of(b"lost"))])

    assert appended.offsets == [0, 0, 1]
    assert all_events(log, FIRST) == [(0, b"a"), (1, b"d")]
    assert all_events(log, SECOND) == [(0, b"b"), (1, b"c")]


def test_an_append_of_nothing_changes_nothing(log: OpenLog) -> None:
    appended = log.append([])

    assert appended.offsets == []
    assert appended.durable.wait(30)


def test_new_settings_leave_what_is_there(log: OpenLog) -> None:
    append(log, FIRST, b"a")

    log.ensure(FIRST, "orders", TopicSettings(partitions=2, max_batch_bytes=2_048))

    assert all_events(log, FIRST) == [(0, b"a")]


def test_deleting_removes_everything_and_unknown_ones_are_passed_over(log: OpenLog) -> None:
    append(log, FIRST, b"a")

    log.delete([FIRST, UNKNOWN])

    with pytest.raises(UnknownPartition):
        log.bounds(FIRST)
    assert log.bounds(SECOND).tail == 0


def test_a_partition_made_after_a_deletion_begins_anew_under_another_id(log: OpenLog) -> None:
    append(log, FIRST, b"old")
    again = PartitionId("9" * 32, 0)

    log.delete([FIRST])
    open_partitions(log, again)

    assert append(log, again, b"new") == 0
    assert all_events(log, again) == [(0, b"new")]


def test_cutting_the_start_moves_it_to_the_very_offset(log: OpenLog) -> None:
    append(log, FIRST, b"a", b"b", b"c")
    append(log, FIRST, b"d")

    bounds = log.cut(FIRST, start=1)

    assert bounds[:3] == (1, 4, 4)
    assert all_events(log, FIRST) == [(1, b"b"), (2, b"c"), (3, b"d")]
    with pytest.raises(OffsetOutOfRange):
        log.read(FIRST, 0, 1_000)


def test_the_start_never_moves_back_and_never_past_the_tail(log: OpenLog) -> None:
    append(log, FIRST, b"a", b"b")
    log.cut(FIRST, start=2)

    assert log.cut(FIRST, start=1)[:3] == (2, 2, 2)
    with pytest.raises(OffsetOutOfRange):
        log.cut(FIRST, start=3)
    assert append(log, FIRST, b"c") == 2


@pytest.mark.parametrize("end", [0, 1, 2, 3, 4])
def test_cutting_the_end_keeps_exactly_what_is_before_it(log: OpenLog, end: int) -> None:
    values = [b"a", b"b", b"c", b"d"]
    append(log, FIRST, *values[:1])
    append(log, FIRST, *values[1:])

    bounds = log.cut(FIRST, end=end)

    assert bounds[:3] == (0, end, end)
    assert all_events(log, FIRST) == list(enumerate(values))[:end]


def test_after_cutting_the_end_a_new_epoch_writes_on_from_there(log: OpenLog) -> None:
    append(log, FIRST, b"a", b"b", b"c")
    before = log.bounds(FIRST).epoch

    log.cut(FIRST, end=1)

    assert log.bounds(FIRST).epoch > before
    assert append(log, FIRST, b"B") == 1
    assert all_events(log, FIRST) == [(0, b"a"), (1, b"B")]


def test_an_end_outside_the_log_is_refused(log: OpenLog) -> None:
    append(log, FIRST, b"a", b"b")
    log.cut(FIRST, start=1)

    for end in (0, 3):
        with pytest.raises(OffsetOutOfRange):
            log.cut(FIRST, end=end)
    assert log.bounds(FIRST)[:3] == (1, 2, 2)


def test_a_time_is_found_at_the_first_event_at_or_after_it(log: OpenLog) -> None:
    log.append([(FIRST, batch_of(b"a", b"b", timestamps_ms=[100, 300]))])
    log.append([(FIRST, batch_of(b"c", timestamps_ms=[200]))])
    log.append([(FIRST, batch_of(b"d", b"e", timestamps_ms=[250, 400]))]).durable.wait(30)

    found = {time: log.offset_at(FIRST, time) for time in (0, 100, 101, 300, 301, 400, 401)}

    assert {time: at and at[:] for time, at in found.items()} == {
        0: (0, 100),
        100: (0, 100),
        101: (1, 300),
        300: (1, 300),
        301: (4, 400),
        400: (4, 400),
        401: None,
    }


def test_a_time_is_not_found_before_the_start(log: OpenLog) -> None:
    log.append([(FIRST, batch_of(b"a", b"b", timestamps_ms=[500, 100]))])
    log.append([(FIRST, batch_of(b"c", timestamps_ms=[200]))]).durable.wait(30)

    log.cut(FIRST, start=1)

    assert log.offset_at(FIRST, 100) == (1, 100)
    assert log.offset_at(FIRST, 150) == (2, 200)
    assert log.offset_at(FIRST, 300) is None


def test_a_watch_at_the_tail_is_called_once_by_the_append(log: OpenLog) -> None:
    wake = Calls()
    log.watch(FIRST, 0, wake)
    assert wake.count == 0

    append(log, FIRST, b"a")
    append(log, FIRST, b"b")

    assert wake.woken.wait(30)
    assert wake.count == 1


def test_a_watch_of_what_is_there_is_called_at_once_and_once(log: OpenLog) -> None:
    append(log, FIRST, b"a", b"b")
    wake = Calls()

    log.watch(FIRST, 1, wake)
    append(log, FIRST, b"c")

    assert wake.count == 1


def test_a_watch_further_on_waits_for_its_offset(log: OpenLog) -> None:
    wake = Calls()
    log.watch(FIRST, 2, wake)

    append(log, FIRST, b"a", b"b")
    assert wake.count == 0

    append(log, FIRST, b"c")
    assert wake.woken.wait(30)


def test_a_woken_reader_sees_the_event_when_it_is_called(log: OpenLog) -> None:
    seen: list[list[tuple[int, bytes]]] = []
    woken = threading.Event()

    def wake() -> None:
        seen.append(events_in(log.read(FIRST, 0, 1_000)))
        woken.set()

    log.watch(FIRST, 0, wake)
    append(log, FIRST, b"a")

    assert woken.wait(30)
    assert seen == [[(0, b"a")]]


def test_a_watch_taken_back_is_not_called(log: OpenLog) -> None:
    wake = Calls()
    take_back = log.watch(FIRST, 0, wake)

    take_back()
    take_back()
    append(log, FIRST, b"a")

    assert wake.count == 0


def test_watches_are_called_once_when_the_partition_is_deleted(log: OpenLog) -> None:
    gone, other = Calls(), Calls()
    log.watch(FIRST, 0, gone)
    log.watch(SECOND, 0, other)

    log.delete([FIRST])

    assert (gone.count, other.count) == (1, 0)


def test_watches_are_called_once_when_the_log_is_closed(log: OpenLog) -> None:
    wake = Calls()
    log.watch(FIRST, 0, wake)

    log.close()
    log.close()

    assert wake.count == 1
    with pytest.raises(Closed):
        log.append([(FIRST, batch_of(b"a"))])
    with pytest.raises(Closed):
        log.read(FIRST, 0, 1)


def test_then_calls_back_without_an_error_once_it_is_durable(log: OpenLog) -> None:
    told: list[object] = []
    called = threading.Event()

    appended = log.append([(FIRST, batch_of(b"a"))])
    appended.durable.then(told.append)
    appended.durable.then(lambda _: called.set())

    assert called.wait(30)
    assert told == [None]
    assert appended.durable.done
    assert log.bounds(FIRST).tail == 1


def test_threads_that_append_at_once_get_one_order_without_gaps(log: OpenLog) -> None:
    given: dict[tuple[PartitionId, int], bytes] = {}

    def write(writer: int) -> None:
        for number in range(40):
            value = b"%d/%d" % (writer, number)
            both = [(FIRST, batch_of(value, value)), (SECOND, batch_of(value))]
            offsets = log.append(both).offsets
            given[FIRST, offsets[0]] = given[FIRST, offsets[0] + 1] = value
            given[SECOND, offsets[1]] = value

    together([lambda writer=writer: write(writer) for writer in range(4)])  # type: ignore[misc]
    append(log, FIRST, b"last")
    given[FIRST, 320] = b"last"

    for partition, count in ((FIRST, 321), (SECOND, 160)):
        expected = [(offset, given[partition, offset]) for offset in range(count)]
        assert all_events(log, partition) == expected


def test_a_writer_keeps_its_own_order_beside_others(log: OpenLog) -> None:
    def write(writer: int) -> None:
        for number in range(50):
            log.append([(FIRST, batch_of(b"%d %d" % (writer, number)))])

    together([lambda writer=writer: write(writer) for writer in range(3)])  # type: ignore[misc]
    append(log, FIRST, b"9 0")

    written = [tuple(map(int, value.split())) for _, value in all_events(log, FIRST)]
    for writer in range(3):
        assert [number for by, number in written if by == writer] == list(range(50))


def test_a_reader_that_follows_writers_sees_everything_once_and_in_order(log: OpenLog) -> None:
    seen: list[int] = []

    def follow() -> None:
        offset = 0
        while offset < 200:
            woken = threading.Event()
            log.watch(FIRST, offset, woken.set)
            assert woken.wait(30)
            offsets = [at for at, _ in events_in(log.read(FIRST, offset, 500)) if at >= offset]
            seen.extend(offsets)
            offset = seen[-1] + 1

    def write() -> None:
        for _ in range(100):
            log.append([(FIRST, batch_of(b"x"))])

    together([follow, write, write])

    assert seen == list(range(200))


def together(calls: list[Callable[[], None]]) -> None:
    """Run the calls in threads at once, and raise what any of them raised."""
    failures: list[BaseException] = []

    def run(call: Callable[[], None]) -> None:
        try:
            call()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


@pytest.mark.parametrize("name", sorted(DURABLE))
def test_what_was_appended_and_cut_is_there_when_a_durable_log_is_opened_again(
    name: str, tmp_path: Path
) -> None:
    log = FACTORIES[name](tmp_path)
    open_partitions(log)
    append(log, FIRST, b"a", b"b", b"c")
    append(log, FIRST, b"d", b"e")
    append(log, SECOND, b"f")
    log.cut(FIRST, start=1)
    log.cut(FIRST, end=4)
    log.close()

    again = FACTORIES[name](tmp_path)
    open_partitions(again)

    assert all_events(again, FIRST) == [(1, b"b"), (2, b"c"), (3, b"d")]
    assert all_events(again, SECOND) == [(0, b"f")]
    assert append(again, FIRST, b"g") == 4
    again.close()

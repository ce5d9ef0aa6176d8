"""Where micro-batches end, and how they are shared out among tasks."""

from bisect import bisect_left

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainstem.pipelines.format.planning import Admission, evenly, rows_between, split
from mainstem.remote.admin import Place
from mainstem.remote.arrow.range import Range

NOW_MS = 1_700_000_000_000
Backlog = dict[Place, list[int]]
"""The timestamps of the events of partitions."""

moments = st.integers(NOW_MS - 1_000_000, NOW_MS)
backlogs = st.dictionaries(
    st.tuples(st.just("orders"), st.integers(0, 5)),
    st.lists(moments, max_size=60),
    min_size=1,
    max_size=4,
)


def at_time_in(backlog: Backlog, asked: list[int] | None = None):  # type: ignore[no-untyped-def]
    """Answer as a server does: the first offset at or after a time."""

    def at_time(moment_ms: int) -> dict[Place, int]:
        if asked is not None:
            asked.append(moment_ms)
        found = {}
        for place, stamps in backlog.items():
            first = next((n for n, stamp in enumerate(stamps) if stamp >= moment_ms), None)
            if first is not None:
                found[place] = first
        return found

    return at_time


def replay(backlog: Backlog, max_rows: int) -> list[dict[Place, tuple[int, int]]]:
    """Return the batches in which a backlog is admitted."""
    admission = Admission()
    start = dict.fromkeys(backlog, 0)
    tails = {place: len(stamps) for place, stamps in backlog.items()}
    found = []
    while start != tails:
        ends = admission.by_time(start, tails, max_rows, at_time_in(backlog), NOW_MS)
        found.append({place: (start[place], ends[place]) for place in backlog})
        assert rows_between(start, ends) > 0
        start = ends
    return found


@given(backlogs, st.integers(1, 50))
@settings(max_examples=150)
def test_every_event_is_admitted_once_and_no_batch_is_too_large(
    backlog: Backlog, max_rows: int
) -> None:
    batches = replay(backlog, max_rows)

    for place, stamps in backlog.items():
        offsets = [n for batch in batches for n in range(*batch[place])]
        assert offsets == list(range(len(stamps)))
    for batch in batches:
        assert sum(end - start for start, end in batch.values()) <= max_rows


@given(backlogs.filter(lambda found: len(found) > 1), st.integers(5, 50))
@settings(max_examples=150)
def test_no_partition_runs_ahead_of_what_others_have_yet_to_say(
    backlog: Backlog, max_rows: int
) -> None:
    ordered = {place: sorted(stamps) for place, stamps in backlog.items()}

    batches = replay(ordered, max_rows)

    latest = 0
    for batch in batches:
        admitted = [ordered[place][n] for place, span in batch.items() for n in range(*span)]
        # Whoever comes later in the replay may not have come before in time.
        assert min(admitted) >= latest
        latest = max(latest, *admitted)


def test_read_at_their_own_speed_partitions_would_run_ahead() -> None:
    backlog = {("orders", 0): [NOW_MS - 500 + n for n in range(10)], ("orders", 1): [NOW_MS] * 90}
    start, tails = dict.fromkeys(backlog, 0), {("orders", 0): 10, ("orders", 1): 90}

    by_share = evenly(start, tails, 20)
    by_time = Admission().by_time(start, tails, 20, at_time_in(backlog), NOW_MS)

    assert by_share[("orders", 1)] > 0
    assert by_time == {("orders", 0): 10, ("orders", 1): 0}


def test_an_event_ahead_of_its_time_does_not_let_its_partition_run_ahead() -> None:
    backlog = {
        ("orders", 0): [NOW_MS - 900, NOW_MS - 100, NOW_MS - 800, NOW_MS - 700],
        ("orders", 1): [NOW_MS - 900 + 100 * n for n in range(9)],
    }
    start, tails = dict.fromkeys(backlog, 0), {("orders", 0): 4, ("orders", 1): 9}

    ends = Admission().by_time(start, tails, 6, at_time_in(backlog), NOW_MS)

    assert ends[("orders", 0)] == 1


def test_more_events_in_a_millisecond_than_fit_are_shared_out() -> None:
    backlog = {("orders", n): [NOW_MS - 5] * 100 for n in range(3)}

    batches = replay(backlog, 50)

    assert 6 <= len(batches) <= 7


def test_events_of_times_to_come_are_read_in_the_end() -> None:
    backlog = {
        ("orders", 0): [NOW_MS + 10**9] * 30,
        ("orders", 1): [NOW_MS - 50 + n for n in range(30)],
    }

    batches = replay(backlog, 20)

    assert sum(end - start for batch in batches for start, end in batch.values()) == 60
    assert batches[0][("orders", 0)] == (0, 0)


def test_the_search_is_short_once_it_is_under_way() -> None:
    backlog = {
        ("orders", n): [NOW_MS - 10_000_000 + 1000 * i for i in range(10_000)] for n in (0, 1)
    }
    asked: list[int] = []
    admission, start = Admission(), dict.fromkeys(backlog, 0)
    tails = dict.fromkeys(backlog, 10_000)

    def at_time(moment_ms: int) -> dict[Place, int]:
        asked.append(moment_ms)
        return {place: bisect_left(stamps, moment_ms) for place, stamps in backlog.items()}

    counts = []
    for _ in range(4):
        asked.clear()
        start = admission.by_time(start, tails, 2000, at_time, NOW_MS)
        counts.append(len(asked))

    assert counts[0] <= 25
    assert counts[2:] == [1, 1]


@given(backlogs, st.integers(1, 100))
def test_shares_are_never_more_than_allowed_nor_nothing(backlog: Backlog, max_rows: int) -> None:
    start = dict.fromkeys(backlog, 0)
    tails = {place: len(stamps) for place, stamps in backlog.items()}

    ends = evenly(start, tails, max_rows)

    assert rows_between(start, ends) <= max_rows
    assert rows_between(start, tails) == 0 or rows_between(start, ends) > 0
    assert all(start[place] <= ends[place] <= tails[place] for place in tails)


@given(
    st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 500)), max_size=5),
    st.integers(1, 20),
    st.none() | st.integers(1, 100),
)
def test_ranges_are_cut_without_a_gap(
    spans: list[tuple[int, int]], min_partitions: int, max_rows: int | None
) -> None:
    ranges = [Range("orders", n, start, start + rows) for n, (start, rows) in enumerate(spans)]

    pieces = split(ranges, min_partitions=min_partitions, max_rows=max_rows)

    for whole in ranges:
        own = [each for each in pieces if each.partition == whole.partition]
        offsets = [n for each in own for n in range(each.start, each.end)]
        assert offsets == list(range(whole.start, whole.end))
    assert all(each.end > each.start for each in pieces)
    total = sum(rows for _, rows in spans)
    assert len(pieces) >= min(min_partitions, total)
    assert max_rows is None or all(each.end - each.start <= max_rows for each in pieces)


@pytest.mark.parametrize(("tasks", "expected"), [(1, 1), (5, 5), (1000, 10)])
def test_a_partition_is_split_into_as_many_tasks_as_asked_for(tasks: int, expected: int) -> None:
    assert len(split([Range("orders", 0, 0, 10)], min_partitions=tasks)) == expected

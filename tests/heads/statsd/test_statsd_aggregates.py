"""What an interval of StatsD sums up to."""

import random
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.heads.statsd import aggregates
from mainstem.heads.statsd.aggregates import Aggregate, Aggregates, Limits
from mainstem.heads.statsd.codec import Metric, parse_line

SHARES = (50, 90, 99)


def limits(most: int = 1000, max_bytes: int = 1 << 30, idle_ms: int = 3_600_000) -> Limits:
    return Limits(most, max_bytes, idle_ms)


def summed(*lines: str, most: int = 1000) -> Aggregates:
    found = Aggregates(0, SHARES, limits(most), random.Random(1))
    for line in lines:
        for metric in parse_line(line):
            found.add(metric)
    return found


def only(found: Iterable[Aggregate]) -> Aggregate:
    (one,) = found
    return one


def test_a_counter_counts_what_was_not_sent_too_and_begins_anew() -> None:
    counted = summed("jobs:1|c", "jobs:2|c|@0.1", "jobs:-1|c")

    first, second = list(counted.flush(2000)), list(counted.flush(4000))

    assert (only(first).count, only(first).rate) == (20.0, 10.0)
    assert second == []


def test_a_gauge_keeps_its_value_and_signs_change_it() -> None:
    gauges = summed("heat:10|g", "heat:-3|g", "heat:+1|g", "cold:-5|g")

    values = [{each.name: each.value for each in gauges.flush(at)} for at in (1000, 2000)]

    assert values == [{"heat": 8, "cold": -5}] * 2


def test_a_set_counts_what_is_different() -> None:
    assert only(summed("u:a|s", "u:b|s", "u:a|s").flush(1000)).count == 2


def test_a_timer_has_count_rate_mean_extremes_and_percentiles() -> None:
    timers = summed(*(f"t:{value}|ms|@0.5" for value in range(1, 101)))

    found = only(timers.flush(10_000))

    assert (found.count, found.rate, found.sum, found.mean) == (200, 20, 5050, 50.5)
    assert (found.min, found.max) == (1, 100)
    assert found.percentiles == {"p50": 50, "p90": 90, "p99": 99}


def test_tags_and_types_make_series_of_their_own() -> None:
    found = summed("a:1|c|#x", "a:1|c|#y", "a:1|c", "a:1|ms").flush(1000)

    assert len(list(found)) == 4


def test_more_series_than_allowed_are_counted_and_not_kept() -> None:
    many = summed("a:1|c", "b:1|c", "c:1|c", "a:1|c", "g:1|g", most=2)

    assert {each.name: each.count for each in many.flush(1000)} == {"a": 2, "b": 1}
    assert many.left_out == {"max_series": 2}


def test_of_very_many_values_some_are_kept_and_the_rest_is_exact(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(aggregates, "MAX_VALUES", 100)
    timers = Aggregates(0, SHARES, limits(10), random.Random(7))

    for value in range(10_000):
        timers.add(Metric("t", "timer", value))
    found = only(timers.flush(1000))

    assert (found.count, found.sum, found.min, found.max) == (10_000, 49_995_000, 0, 9999)
    assert found.percentiles is not None
    assert 3000 < found.percentiles["p50"] < 7000


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=200))
def test_so_many_percent_of_the_values_are_not_above_a_percentile(values: list[float]) -> None:
    timers = Aggregates(0, SHARES, limits(10), random.Random(1))
    for value in values:
        timers.add(Metric("t", "histogram", value))

    found = only(timers.flush(1000)).percentiles

    assert found is not None
    for share in SHARES:
        at = found[f"p{share}"]
        assert sum(value <= at for value in values) >= len(values) * share / 100
        assert sum(value < at for value in values) <= len(values) * share / 100


def test_memory_is_limited_and_free_again_when_an_interval_is_handed_out() -> None:
    series = Aggregates(0, SHARES, limits(10_000, max_bytes=100_000), random.Random(1))
    for kind in ("c", "ms", "s"):
        for number in range(400):
            for metric in parse_line(f"{kind}.{number}:{number}|{kind}|#{'t' * 100}"):
                series.add(metric)

    assert series.estimated_bytes <= 100_000
    assert series.left_out["max_bytes"] > 500
    assert len(list(series.flush(1_000))) == 1_200 - series.left_out["max_bytes"]
    assert series.estimated_bytes == 0


def test_until_an_interval_is_handed_out_its_memory_is_taken() -> None:
    series = Aggregates(0, SHARES, limits(max_bytes=1_000), random.Random(1))
    for line in ("a:1|c", "b:1|c", "c:1|c"):
        series.add(parse_line(line)[0])

    ended = series.flush(1_000)
    series.add(parse_line("d:1|c")[0])
    assert series.left_out == {"max_bytes": 1}
    assert [each.name for each in ended] == ["a", "b", "c"]
    series.add(parse_line("d:1|c")[0])
    assert [each.name for each in series.flush(2_000)] == ["d"]


def test_without_memory_a_timer_keeps_fewer_values_and_the_rest_is_exact() -> None:
    timers = Aggregates(0, SHARES, limits(max_bytes=1_000), random.Random(7))
    for value in range(10_000):
        timers.add(Metric("t", "timer", value))

    assert timers.estimated_bytes <= 1_000
    found = only(timers.flush(1_000))
    assert (found.count, found.sum, found.min, found.max) == (10_000, 49_995_000, 0, 9_999)
    assert found.percentiles is not None
    assert 2_500 < found.percentiles["p50"] < 7_500
    assert not timers.left_out


def test_gauges_leave_room_for_others_and_go_when_they_are_idle() -> None:
    series = Aggregates(0, SHARES, limits(max_bytes=2_000, idle_ms=2_500), random.Random(1))
    for number in range(10):
        series.add(parse_line(f"g.{number}:1|g")[0])
    series.add(parse_line("c:1|c")[0])
    names = ["c", "g.0", "g.1", "g.2"]

    assert [each.name for each in series.flush(1_000)] == names
    series.add(parse_line("g.1:+1|g")[0])
    assert [each.name for each in series.flush(2_000)] == names[1:]
    assert [(each.name, each.value) for each in series.flush(3_000)] == [("g.1", 2)]
    assert list(series.flush(4_000)) == []
    assert series.estimated_bytes == 0

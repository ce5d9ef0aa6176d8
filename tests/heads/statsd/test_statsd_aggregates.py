"""What an interval of StatsD sums up to."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.heads.statsd import aggregates
from mainstem.heads.statsd.aggregates import Aggregate, Aggregates
from mainstem.heads.statsd.codec import Metric, parse_line

SHARES = (50, 90, 99)


def summed(*lines: str, most: int = 1000) -> Aggregates:
    found = Aggregates(0, SHARES, most, random.Random(1))
    for line in lines:
        for metric in parse_line(line):
            found.add(metric)
    return found


def only(found: list[Aggregate]) -> Aggregate:
    (one,) = found
    return one


def test_a_counter_counts_what_was_not_sent_too_and_begins_anew() -> None:
    counted = summed("jobs:1|c", "jobs:2|c|@0.1", "jobs:-1|c")

    first, second = counted.flush(2000), counted.flush(4000)

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

    assert len(found) == 4


def test_more_series_than_allowed_are_counted_and_not_kept() -> None:
    many = summed("a:1|c", "b:1|c", "c:1|c", "a:1|c", "g:1|g", most=2)

    assert {each.name: each.count for each in many.flush(1000)} == {"a": 2, "b": 1}
    assert many.left_out == 2


def test_of_very_many_values_some_are_kept_and_the_rest_is_exact(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(aggregates, "MAX_VALUES", 100)
    timers = Aggregates(0, SHARES, 10, random.Random(7))

    for value in range(10_000):
        timers.add(Metric("t", "timer", value))
    found = only(timers.flush(1000))

    assert (found.count, found.sum, found.min, found.max) == (10_000, 49_995_000, 0, 9999)
    assert found.percentiles is not None
    assert 3000 < found.percentiles["p50"] < 7000


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=200))
def test_so_many_percent_of_the_values_are_not_above_a_percentile(values: list[float]) -> None:
    timers = Aggregates(0, SHARES, 10, random.Random(1))
    for value in values:
        timers.add(Metric("t", "histogram", value))

    found = only(timers.flush(1000)).percentiles

    assert found is not None
    for share in SHARES:
        at = found[f"p{share}"]
        assert sum(value <= at for value in values) >= len(values) * share / 100
        assert sum(value < at for value in values) <= len(values) * share / 100

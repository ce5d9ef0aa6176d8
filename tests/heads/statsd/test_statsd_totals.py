"""The aggregates as Prometheus reads them."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from mainstem.heads.admin.codec import encode
from mainstem.heads.metric import Metric, Sample
from mainstem.heads.statsd.aggregates import Aggregates, Limits
from mainstem.heads.statsd.codec import BadLine, parse_line
from mainstem.heads.statsd.totals import Totals


class Interval:
    """Aggregates whose intervals are added to totals."""

    def __init__(self, most: int = 1000) -> None:
        self.totals = Totals(most)
        self._aggregates = Aggregates(
            0, (50, 99), Limits(1000, 1 << 30, 3_600_000), random.Random(1)
        )
        self._ends_ms = 0

    def has(self, *lines: str) -> None:
        for line in lines:
            for metric in parse_line(line):
                self._aggregates.add(metric)
        self._ends_ms += 1000
        self.totals.begin()
        self.totals.add(self._aggregates.flush(self._ends_ms))
        self.totals.end()

    def text(self) -> str:
        found: dict[Metric, list[Sample]] = {}
        for metric, sample in self.totals.samples():
            found.setdefault(metric, []).append(sample)
        return "".join(encode(metric, samples) for metric, samples in found.items())

    def scraped(self) -> dict[str, float]:
        """Return the samples as Prometheus writes them, with their values."""
        return {
            f"{sample.name}{dict(sample.labels) or ''}": sample.value
            for family in text_string_to_metric_families(self.text())
            for sample in family.samples
        }

    def scraped_labels(self) -> list[tuple[dict[str, str], float]]:
        """Return labels and values of all samples; an empty label is none."""
        found = [
            ({name: text for name, text in sample.labels.items() if text}, sample.value)
            for family in text_string_to_metric_families(self.text())
            for sample in family.samples
        ]
        return sorted(found, key=lambda each: sorted(each[0].items()))


def test_a_counter_grows_from_interval_to_interval() -> None:
    shop = Interval()

    shop.has("shop.orders:3|c", "shop.orders:1|c|@0.5")
    shop.has("shop.orders:1|c")
    shop.has()

    assert shop.scraped() == {"statsd_shop_orders_total": 6}


def test_a_gauge_has_its_last_value_and_a_set_the_members_of_the_last_interval() -> None:
    shop = Interval()

    shop.has("heat:3|g", "users:ann|s", "users:bob|s")
    assert shop.scraped() == {"statsd_heat": 3, "statsd_users_distinct": 2}

    shop.has("heat:-1|g")
    assert shop.scraped() == {"statsd_heat": 2}


def test_a_timer_has_count_sum_and_the_quantiles_of_the_last_interval() -> None:
    shop = Interval()

    shop.has("page:100|ms|@0.5", "page:300|ms|@0.5")
    assert shop.scraped() == {
        "statsd_page_count_total": 4,
        "statsd_page_sum_total": 800,
        "statsd_page_quantile{'quantile': '0.5'}": 100,
        "statsd_page_quantile{'quantile': '0.99'}": 300,
    }

    shop.has()
    assert shop.scraped() == {"statsd_page_count_total": 4, "statsd_page_sum_total": 800}


def test_tags_are_labels_and_names_are_made_valid() -> None:
    shop = Interval()

    shop.has("a-b.c:1|c|#env:prod,fast,1st:x,quantile:y", 'a-b.c:1|c|#env:"q\\z"', "a-b.c:5|c")

    assert shop.scraped_labels() == [
        ({}, 5),
        ({"env": '"q\\z"'}, 1),
        ({"env": "prod", "fast": "true", "tag_1st": "x", "tag_quantile": "y"}, 1),
    ]


def test_series_that_become_the_same_are_added_up_and_another_kind_is_left_out() -> None:
    shop = Interval()

    shop.has("a.b:1|c", "a_b:2|c")
    shop.has("a.b.total:7|g")

    assert shop.scraped() == {"statsd_a_b_total": 3}
    assert shop.totals.left_out == 1


@pytest.mark.parametrize("most", [0, 2])
def test_more_series_than_allowed_are_counted_instead(most: int) -> None:
    shop = Interval(most)

    shop.has("a:1|c|#x", "a:1|c|#y", "a:1|c|#z", "b:1|c")
    shop.has("a:1|c|#x")

    assert len(shop.scraped()) == most
    assert shop.totals.left_out == 4 - most + (most == 0)


def test_values_of_passed_intervals_make_room() -> None:
    shop = Interval(1)

    shop.has("a:x|s")
    shop.has("a:x|s")

    assert shop.totals.left_out == 0


LINES = st.builds(
    "{}:{}|{}|#{}".format,
    st.text(min_size=1, max_size=8),
    st.integers(0, 9),
    st.sampled_from(["c", "g", "ms", "s", "h", "d"]),
    st.text(max_size=8),
)


@given(st.lists(LINES, max_size=20))
def test_whatever_is_sent_prometheus_can_read_it(lines: list[str]) -> None:
    shop = Interval()
    good = []
    for line in lines:
        try:
            parse_line(line)
        except BadLine:
            continue
        good.append(line)

    shop.has(*good)

    assert len(shop.scraped()) >= (1 if good else 0)

"""The aggregates as metrics for Prometheus: totals since the start, and the last interval's values.

| StatsD | Prometheus |
|---|---|
| counter ``shop.orders`` | counter ``statsd_shop_orders_total`` |
| gauge ``shop.basket`` | gauge ``statsd_shop_basket`` |
| timer ``shop.page`` | counters ``statsd_shop_page_count_total`` and ``…_sum_total``, |
| | gauge ``statsd_shop_page_quantile`` |
| set ``shop.visitors`` | gauge ``statsd_shop_visitors_distinct`` |

Tags are labels: ``env:prod`` is ``env="prod"``, and ``fast`` is ``fast="true"``. Characters that
names of Prometheus cannot contain become ``_``. Series of different StatsD metrics that become the
same are added up (counters), or the last one is shown.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Literal

from mainstem.heads.metric import Metric, Sample
from mainstem.heads.statsd.aggregates import Aggregate

PREFIX = "statsd_"
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_]")
_QUANTILE = "quantile"

Labels = tuple[tuple[str, str], ...]
Kind = Literal["counter", "gauge"]


class _Family:
    """All series of one metric."""

    def __init__(self, kind: Kind, sentence: str) -> None:
        self.kind, self.sentence = kind, sentence
        self.series: dict[Labels, float] = {}


class Totals:
    """The metrics of all series, up to a limit; added to in the event loop, read anywhere."""

    def __init__(self, max_series: int) -> None:
        self._max_series = max_series
        self._families: dict[str, _Family] = {}
        self._passing: list[dict[Labels, float]] = []
        """The series that only show the last interval."""
        self._count = 0
        self.left_out = 0
        """Number of aggregates that are not shown, because of the limit, or of another kind."""

    def add(self, interval: Iterable[Aggregate]) -> None:
        """Add the aggregates of an interval."""
        for each in self._passing:
            self._count -= len(each)
            each.clear()
        for found in interval:
            self._add(found)

    def samples(self) -> Iterator[tuple[Metric, Sample]]:
        """Yield the metrics with their values; may be called from any thread."""
        for name, family in list(self._families.items()):
            series = list(family.series.items())
            labels = tuple(sorted({label for each, _ in series for label, _ in each}))
            metric = Metric(name, family.kind, family.sentence, labels)
            for each, value in series:
                values = dict(each)
                # In Prometheus, an empty label is one that is not there.
                yield metric, (tuple(values.get(label, "") for label in labels), value)

    def _add(self, found: Aggregate) -> None:
        name, labels = PREFIX + _NOT_IN_NAMES.sub("_", found.name), _labels(found.tags)
        match found.type:
            case "counter":
                self._put(f"{name}_total", "counter", found, labels, found.count)
            case "gauge":
                self._put(name, "gauge", found, labels, found.value)
            case "set":
                self._put(f"{name}_distinct", "gauge", found, labels, found.count, passes=True)
            case _:
                self._put(f"{name}_count_total", "counter", found, labels, found.count)
                # As ``count`` is, corrected for sample rates.
                total = (found.mean or 0.0) * (found.count or 0.0)
                self._put(f"{name}_sum_total", "counter", found, labels, total)
                for percentile, value in (found.percentiles or {}).items():
                    share = f"{float(percentile[1:]) / 100:g}"
                    quantile = (*labels, (_QUANTILE, share))
                    self._put(f"{name}_quantile", "gauge", found, quantile, value, passes=True)

    def _put(
        self,
        name: str,
        kind: Kind,
        found: Aggregate,
        labels: Labels,
        value: float | None,
        *,
        passes: bool = False,
    ) -> None:
        """Set a series, or add to a counter; ``passes``: it shows the last interval only."""
        family = self._families.get(name)
        if family is None:
            if self._count >= self._max_series:
                self.left_out += 1
                return
            family = self._families[name] = _Family(kind, _sentence(found))
            if passes:
                self._passing.append(family.series)
        known = labels in family.series
        if family.kind != kind or (not known and self._count >= self._max_series):
            self.left_out += 1
            return
        self._count += not known
        before = family.series.get(labels, 0.0) if kind == "counter" else 0.0
        family.series[labels] = before + (value or 0.0)


def _sentence(found: Aggregate) -> str:
    # In the format of Prometheus, a backslash escapes.
    return f"StatsD {found.type} {found.name}.".replace("\\", "\\\\")


def _labels(tags: Iterable[str]) -> Labels:
    found: dict[str, str] = {}
    for tag in tags:
        name, has_value, value = tag.partition(":")
        label = _NOT_IN_NAMES.sub("_", name).lstrip("_") or "tag"
        # Names that begin with a digit are not allowed, and this one is ours.
        if label[0].isdigit() or label == _QUANTILE:
            label = f"tag_{label}"
        text = value if has_value else "true"
        found[label] = f"{found[label]},{text}" if label in found else text
    return tuple(sorted(found.items()))

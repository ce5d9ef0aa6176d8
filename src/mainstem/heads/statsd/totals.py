"""Shows aggregates as Prometheus metrics: totals since the start, and values of the last interval.

| StatsD | Prometheus |
|---|---|
| counter ``shop.orders`` | counter ``statsd_shop_orders_total`` |
| gauge ``shop.basket`` | gauge ``statsd_shop_basket`` |
| timer ``shop.page`` | counters ``statsd_shop_page_count_total`` and ``…_sum_total``, |
| | gauge ``statsd_shop_page_quantile`` |
| set ``shop.visitors`` | gauge ``statsd_shop_visitors_distinct`` |

Tags are labels: ``env:prod`` is ``env="prod"``, and ``fast`` is ``fast="true"``. Characters that
Prometheus does not allow in names become ``_``. If series of different StatsD metrics get the same
name and labels, counters are added up, and of gauges the last one is shown.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Literal

from mainstem.heads.metric import Metric, Sample
from mainstem.heads.statsd.aggregates import Aggregate

PREFIX = "statsd_"
MAX_CHARACTERS = 2 * 1024 * 1024
"""Maximum length of all labels together."""
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_]")
_QUANTILE = "quantile"

Labels = tuple[tuple[str, str], ...]
Kind = Literal["counter", "gauge"]


class _Family:
    """All series of one Prometheus metric."""

    def __init__(self, kind: Kind, sentence: str) -> None:
        self.kind, self.sentence = kind, sentence
        self.series: dict[Labels, float] = {}
        self.before: dict[Labels, float] = {}
        """The series of the interval before, which are shown until this one is complete."""


class Totals:
    """The Prometheus metrics of all series, up to a limit.

    The event loop adds to them; any thread may read them.
    """

    def __init__(self, max_series: int) -> None:
        self._max_series = max_series
        self._families: dict[str, _Family] = {}
        self._passing: list[_Family] = []
        """The metrics whose series show only the last interval."""
        self._count = self._characters = 0
        self.left_out = 0
        """Number of aggregates that are not shown, because of the limit, or because a metric of
        another kind has their name.
        """

    def begin(self) -> None:
        """Begin to add the aggregates of an interval that has ended."""
        for each in self._passing:
            each.before, each.series = each.series, {}

    def add(self, some: Iterable[Aggregate]) -> None:
        """Add some aggregates of this interval."""
        for found in some:
            self._add(found)

    def end(self) -> None:
        """Remove gauges that were not in this interval, after all its aggregates were added."""
        for family in self._passing:
            gone, family.before = family.before, {}
            self._count -= len(gone)
            self._characters -= sum(map(_characters, gone))

    def samples(self) -> Iterator[tuple[Metric, Sample]]:
        """Yield the metrics with their values; may be called from any thread."""
        for name, family in list(self._families.items()):
            series = [*family.series.items(), *family.before.items()]
            labels = tuple(sorted({label for each, _ in series for label, _ in each}))
            metric = Metric(name, family.kind, family.sentence, labels)
            for each, value in series:
                values = dict(each)
                # For Prometheus, a label with an empty value is the same as no label.
                yield metric, (tuple(values.get(label, "") for label in labels), value)

    def _add(self, found: Aggregate) -> None:
        name, labels = PREFIX + _NOT_IN_NAMES.sub("_", found.name), _labels(found.tags)
        match found.type:
            case "counter":
                self._put(f"{name}_total", "counter", found, labels, found.count)
            case "gauge":
                self._put(name, "gauge", found, labels, found.value, passes=True)
            case "set":
                self._put(f"{name}_distinct", "gauge", found, labels, found.count, passes=True)
            case _:
                self._put(f"{name}_count_total", "counter", found, labels, found.count)
                # Corrected for sample rates, as ``count`` is.
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
        """Set a gauge or add to a counter; ``passes``: it shows the last interval only."""
        family = self._families.get(name)
        if family is None:
            if not self._has_room(labels):
                self.left_out += 1
                return
            family = self._families[name] = _Family(kind, _sentence(found))
            if passes:
                self._passing.append(family)
        is_new = labels not in family.series and family.before.pop(labels, None) is None
        if family.kind != kind or (is_new and not self._has_room(labels)):
            self.left_out += 1
            return
        if is_new:
            self._count += 1
            self._characters += _characters(labels)
        before = family.series.get(labels, 0.0) if kind == "counter" else 0.0
        family.series[labels] = before + (value or 0.0)

    def _has_room(self, labels: Labels) -> bool:
        room = MAX_CHARACTERS - self._characters
        return self._count < self._max_series and _characters(labels) <= room


def _characters(labels: Labels) -> int:
    return sum(len(name) + len(value) for name, value in labels)


def _sentence(found: Aggregate) -> str:
    # In Prometheus' text format, a backslash begins an escape.
    return f"StatsD {found.type} {found.name}.".replace("\\", "\\\\")


def _labels(tags: Iterable[str]) -> Labels:
    found: dict[str, str] = {}
    for tag in tags:
        name, has_value, value = tag.partition(":")
        label = _NOT_IN_NAMES.sub("_", name).lstrip("_") or "tag"
        # Labels must not begin with a digit, and ``quantile`` is used for percentiles.
        if label[0].isdigit() or label == _QUANTILE:
            label = f"tag_{label}"
        text = value if has_value else "true"
        found[label] = f"{found[label]},{text}" if label in found else text
    return tuple(sorted(found.items()))

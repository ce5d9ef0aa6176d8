"""Metrics in the text format of Prometheus (version 0.0.4)."""

from collections.abc import Iterable, Iterator

from mainstem.core.histogram import Histogram
from mainstem.heads.metric import Metric, Sample

_ESCAPED = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def encode(metric: Metric, samples: Iterable[Sample]) -> str:
    """Encode a metric with its samples; "" if there are none."""
    return _encode(metric, (_line(metric.name, metric.labels, *each) for each in samples))


def encode_histogram(metric: Metric, histogram: Histogram) -> str:
    """Encode a histogram with its buckets, sum and count."""
    return _encode(metric, _buckets(metric.name, histogram))


def _buckets(name: str, histogram: Histogram) -> Iterator[str]:
    counts = list(histogram.counts)
    so_far = 0
    for bound, count in zip((*histogram.bounds, float("inf")), counts, strict=True):
        so_far += count
        yield _line(f"{name}_bucket", ("le",), (_number(bound),), so_far)
    yield _line(f"{name}_sum", (), (), histogram.total)
    yield _line(f"{name}_count", (), (), so_far)


def _encode(metric: Metric, lines: Iterable[str]) -> str:
    text = "".join(lines)
    head = f"# HELP {metric.name} {metric.sentence}\n# TYPE {metric.name} {metric.kind}\n"
    return head + text if text else ""


def _line(name: str, labels: tuple[str, ...], values: tuple[str, ...], value: float) -> str:
    if not labels:
        return f"{name} {_number(value)}\n"
    pairs = ",".join(
        f'{label}="{each.translate(_ESCAPED)}"' for label, each in zip(labels, values, strict=True)
    )
    return f"{name}{{{pairs}}} {_number(value)}\n"


def _number(value: float) -> str:
    return "+Inf" if value == float("inf") else repr(value)

"""The declaration of a metric, and its samples, which the admin head encodes for Prometheus."""

from typing import Literal

import msgspec

Sample = tuple[tuple[str, ...], float]
"""A sample of a metric: the values of its labels, and the measured value."""


class Metric(msgspec.Struct, frozen=True):
    """A metric: its name, kind, description and labels."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    sentence: str
    labels: tuple[str, ...] = ()


def counter(name: str, sentence: str, *labels: str) -> Metric:
    """Declare a counter, a value that only grows."""
    return Metric(name, "counter", sentence, labels)


def gauge(name: str, sentence: str, *labels: str) -> Metric:
    """Declare a gauge, a value that goes up and down."""
    return Metric(name, "gauge", sentence, labels)


def histogram(name: str, sentence: str, *labels: str) -> Metric:
    """Declare a histogram, a distribution of values."""
    return Metric(name, "histogram", sentence, labels)

"""The declaration of a metric, and its samples; the admin head encodes them."""

from typing import Literal

import msgspec

Sample = tuple[tuple[str, ...], float]
"""The values of a metric's labels, and the measured value."""


class Metric(msgspec.Struct, frozen=True):
    """A metric: its name, kind, description and labels."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    sentence: str
    labels: tuple[str, ...] = ()

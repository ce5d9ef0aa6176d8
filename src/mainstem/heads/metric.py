"""A metric as it is declared and measured; how it is written is the admin head's affair."""

from typing import Literal

import msgspec

Sample = tuple[tuple[str, ...], float]
"""The values of a metric's labels, and what was measured."""


class Metric(msgspec.Struct, frozen=True):
    """What is measured, and how it is called."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    sentence: str
    labels: tuple[str, ...] = ()

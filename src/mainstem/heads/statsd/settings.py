"""Settings of the StatsD head: the section ``statsd`` of a node's settings."""

from typing import Annotated

from msgspec import Meta

from mainstem.core.errors import InvalidSetting
from mainstem.core.setting_types import MIB, IntervalMs, NonNegativeInt, PositiveInt
from mainstem.heads.head import UdpSettings


class StatsdSettings(UdpSettings, frozen=True):
    """Settings of the StatsD head."""

    samples_topic: Annotated[str, "Topic of the values as sent; empty: they are not stored."] = (
        "statsd.samples"
    )
    aggregates_topic: Annotated[str, "Topic of the aggregates of each interval."] = (
        "statsd.aggregates"
    )
    flush_ms: Annotated[IntervalMs, "Length of an interval in milliseconds."] = 10_000
    percentiles: Annotated[str, "Percentiles of timers, separated by commas."] = "50,90,95,99"
    max_series: Annotated[
        PositiveInt,
        "Series (metric with tags) that are aggregated in an interval; values of "
        "more series are only counted.",
    ] = 100_000
    max_bytes: Annotated[
        int,
        Meta(ge=65_536),
        "Bytes of memory for series and their values, estimated. Values of series "
        "that have no room are only counted; percentiles of timers become estimates.",
    ] = 32 * MIB
    gauge_idle_ms: Annotated[
        PositiveInt, "Milliseconds without values after which a gauge is no longer published."
    ] = 3_600_000
    max_scraped_series: Annotated[
        NonNegativeInt, "Series that /metrics shows for Prometheus, as statsd_...; 0: none."
    ] = 10_000

    def percentile_numbers(self) -> tuple[float, ...]:
        """Parse the setting ``percentiles`` to numbers; raises InvalidSetting."""
        try:
            found = tuple(float(each) for each in self.percentiles.split(",") if each.strip())
        except ValueError:
            found = (-1.0,)
        if not all(0 < each <= 100 for each in found):
            raise InvalidSetting(
                f"statsd.percentiles = {self.percentiles!r:.100}: write numbers above 0, up to "
                "100, such as 50,90,99.9"
            )
        return found

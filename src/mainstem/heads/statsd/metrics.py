"""The metrics of the StatsD head."""

from mainstem.heads.metric import counter, gauge

PACKETS = counter("mainstem_statsd_packets_total", "UDP packets received.")
SAMPLES = counter(
    "mainstem_statsd_samples_total", "Values in the received packets, without bad lines."
)
BAD_LINES = counter(
    "mainstem_statsd_bad_lines_total", "Lines that are not a metric, by reason.", "reason"
)
KERNEL_DROPS = counter(
    "mainstem_statsd_kernel_drops_total",
    "UDP packets that the kernel dropped because the server was too slow; a larger "
    "statsd.receive_buffer_bytes helps against bursts.",
)
LOST = counter(
    "mainstem_statsd_lost_events_total",
    "Samples and aggregates that could not be appended: the disk or the topic is full.",
    "topic",
)
LEFT_OUT = counter(
    "mainstem_statsd_left_out_total",
    "Values that were not aggregated, by the limit that they exceed: max_series, max_bytes "
    "(both settings), or max_members (10,000 members of a set).",
    "reason",
)
NOT_SHOWN = counter(
    "mainstem_statsd_not_shown_total",
    "Aggregates that /metrics does not show as statsd_..., because of statsd.max_scraped_series, "
    "or because another metric has their name.",
)
SERIES = gauge("mainstem_statsd_series", "Series in the current interval.")
BYTES = gauge("mainstem_statsd_aggregates_bytes", "Estimated memory of series and their values.")
INTERVALS = counter("mainstem_statsd_intervals_total", "Intervals that have been aggregated.")

METRICS = (
    PACKETS,
    SAMPLES,
    BAD_LINES,
    KERNEL_DROPS,
    LOST,
    LEFT_OUT,
    NOT_SHOWN,
    SERIES,
    BYTES,
    INTERVALS,
)

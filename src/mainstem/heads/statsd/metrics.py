"""The metrics of the StatsD head."""

from mainstem.heads.metric import Metric

PACKETS = Metric("mainstem_statsd_packets_total", "counter", "UDP packets received.")
SAMPLES = Metric("mainstem_statsd_samples_total", "counter", "Values in them, bad lines left out.")
BAD_LINES = Metric(
    "mainstem_statsd_bad_lines_total",
    "counter",
    "Lines that are not a metric, by reason.",
    ("reason",),
)
KERNEL_DROPS = Metric(
    "mainstem_statsd_kernel_drops_total",
    "counter",
    "UDP packets that the kernel dropped because we were too slow; a larger "
    "statsd.receive_buffer_bytes helps against bursts.",
)
LOST = Metric(
    "mainstem_statsd_lost_events_total",
    "counter",
    "Samples and aggregates that could not be appended: the disk or the topic is full.",
    ("topic",),
)
LEFT_OUT = Metric(
    "mainstem_statsd_left_out_total",
    "counter",
    "Values that were not aggregated, because of statsd.max_series.",
)
SERIES = Metric("mainstem_statsd_series", "gauge", "Series in the current interval.")

METRICS = (PACKETS, SAMPLES, BAD_LINES, KERNEL_DROPS, LOST, LEFT_OUT, SERIES)

"""The metrics of pipelines in Prometheus' text format, read from the status of their tables."""

from collections.abc import Callable, Iterator

from mainstem.heads.admin.codec import encode
from mainstem.heads.metric import Metric, Sample, counter, gauge
from mainstem.pipelines.state.table_state import TableStatus

Tables = list[tuple[str, str, TableStatus]]
"""Pipeline, table and status of each table."""
Value = Callable[[TableStatus], float | None]

_LABELS = ("pipeline", "table")
_FIGURES: tuple[tuple[Metric, Value], ...] = (
    (
        gauge("mainstem_pipeline_table_running", "1 while the table is being run.", *_LABELS),
        lambda each: each.state == "running",
    ),
    (
        gauge("mainstem_pipeline_table_failed", "1 after the table failed.", *_LABELS),
        lambda each: each.state in ("failed", "damaged"),
    ),
    (
        gauge(
            "mainstem_pipeline_table_waiting",
            "1 while the table waits for its sink's store, or for the broker, to answer again.",
            *_LABELS,
        ),
        lambda each: each.waiting is not None and each.state == "running",
    ),
    (
        counter(
            "mainstem_pipeline_retries_total",
            "Batches tried again because a store or the broker did not answer.",
            *_LABELS,
        ),
        lambda each: each.retries,
    ),
    (
        counter("mainstem_pipeline_events_total", "Events that the table has read.", *_LABELS),
        lambda each: each.events,
    ),
    (
        counter("mainstem_pipeline_bad_events_total", "Events that were bad.", *_LABELS),
        lambda each: each.bad,
    ),
    (
        counter("mainstem_pipeline_late_events_total", "Events that were late.", *_LABELS),
        lambda each: each.late,
    ),
    (
        gauge(
            "mainstem_pipeline_updated_timestamp_seconds",
            "When the status of the table last changed, in seconds since 1970.",
            *_LABELS,
        ),
        lambda each: each.updated_ms / 1000 or None,
    ),
    (
        gauge(
            "mainstem_pipeline_freshness_last_seconds",
            "Longest time from a database commit to the sink's commit, in the last batch.",
            *_LABELS,
        ),
        lambda each: each.freshness.last_ms / 1000 if each.freshness else None,
    ),
)
_FRESHNESS = gauge(
    "mainstem_pipeline_freshness_seconds",
    "Time from a database commit to the sink's commit, over the changes of the last 100 batches.",
    *_LABELS,
    "quantile",
)


def metrics_page(tables: Tables) -> str:
    """Return all metrics of the tables, in Prometheus' text format."""
    pages = [encode(metric, _samples(tables, value)) for metric, value in _FIGURES]
    return "".join([*pages, encode(_FRESHNESS, _percentiles(tables))])


def _samples(tables: Tables, value: Value) -> Iterator[Sample]:
    for pipeline, table, status in tables:
        found = value(status)
        if found is not None:
            yield (pipeline, table), +found


def _percentiles(tables: Tables) -> Iterator[Sample]:
    for pipeline, table, status in tables:
        if (fresh := status.freshness) is not None:
            yield (pipeline, table, "0.5"), fresh.p50_ms / 1000
            yield (pipeline, table, "0.99"), fresh.p99_ms / 1000

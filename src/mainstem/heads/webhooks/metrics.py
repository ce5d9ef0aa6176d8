"""The metrics of the webhooks head."""

from collections import Counter
from collections.abc import Iterator

from mainstem.heads.metric import Metric, Sample, counter, gauge

ATTEMPTS = counter(
    "mainstem_webhooks_attempts_total",
    "Events in requests to endpoints, by result: delivered, retry (tried again later), dead "
    "(dead letter), gone (the endpoint is disabled).",
    "verdict",
)
FILTERED = counter("mainstem_webhooks_filtered_total", "Events that an endpoint's filter left out.")
IN_FLIGHT = gauge("mainstem_webhooks_requests_in_flight", "Requests to endpoints under way.")
ENDPOINTS = gauge("mainstem_webhooks_endpoints", "Endpoints, by status.", "status")
FAILING = gauge(
    "mainstem_webhooks_failing_endpoints", "Active endpoints whose last attempt has failed."
)
STOPPED = counter(
    "mainstem_webhooks_stopped_total",
    "Endpoints that were paused because they kept failing, or disabled because they answered "
    "410 Gone.",
    "status",
)
UNLOGGED = counter(
    "mainstem_webhooks_unlogged_attempts_total",
    "Attempts that could not be appended to the attempt log.",
)
RECEIVED = counter(
    "mainstem_webhooks_received_total",
    "Webhooks received, by result: appended, duplicate, or the reason of a refusal.",
    "result",
)

# The words of their enums, which are not imported here: settings and metrics are read without a
# server, and must be quick to import.
_VERDICTS = ("delivered", "retry", "dead", "gone")
_STATUSES = ("active", "paused", "disabled")

METRICS = (ATTEMPTS, FILTERED, IN_FLIGHT, ENDPOINTS, FAILING, STOPPED, UNLOGGED, RECEIVED)


class Counts:
    """Counters since the head started."""

    def __init__(self) -> None:
        # All start at zero, so that Prometheus can compute rates from the first increment on.
        self.attempts: Counter[str] = Counter(dict.fromkeys(_VERDICTS, 0))
        self.stopped: Counter[str] = Counter(dict.fromkeys(_STATUSES[1:], 0))
        self.received: Counter[str] = Counter({"appended": 0, "duplicate": 0})
        self.statuses: Counter[str] = Counter(dict.fromkeys(_STATUSES, 0))
        """How many endpoints there are now, by status."""
        self.filtered = self.in_flight = self.failing = self.unlogged = 0

    def samples(self) -> Iterator[tuple[Metric, Sample]]:
        """Yield the metrics with their values; may be called from any thread."""
        for metric, counts in (
            (ATTEMPTS, self.attempts),
            (STOPPED, self.stopped),
            (RECEIVED, self.received),
            (ENDPOINTS, self.statuses),
        ):
            for label, count in list(counts.items()):
                yield metric, ((str(label),), count)
        yield FILTERED, ((), self.filtered)
        yield IN_FLIGHT, ((), self.in_flight)
        yield FAILING, ((), self.failing)
        yield UNLOGGED, ((), self.unlogged)

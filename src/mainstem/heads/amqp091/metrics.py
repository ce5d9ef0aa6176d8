"""The metrics of the AMQP head."""

from collections import Counter
from collections.abc import Iterator

from mainstem.heads.metric import Metric, Sample

PUBLISHED = Metric(
    "mainstem_amqp_published_messages_total", "counter", "Messages that AMQP clients published."
)
UNROUTABLE = Metric(
    "mainstem_amqp_unroutable_messages_total",
    "counter",
    "Published messages without a route to a queue: returned or dropped.",
)
REFUSED = Metric(
    "mainstem_amqp_refused_messages_total",
    "counter",
    "Published messages that were refused because a queue was full (x-overflow).",
)
DELIVERED = Metric(
    "mainstem_amqp_delivered_messages_total", "counter", "Messages sent to AMQP clients."
)
STALE = Metric(
    "mainstem_amqp_stale_acks_total",
    "counter",
    "Acknowledgements without effect: the queue was deleted or purged, or its position was set.",
)
ERRORS = Metric(
    "mainstem_amqp_errors_total",
    "counter",
    "Channels and connections closed with an error, by reply code.",
    ("code",),
)
CHANNELS = Metric("mainstem_amqp_channels", "gauge", "Channels open now.")
CONSUMERS = Metric("mainstem_amqp_consumers", "gauge", "Consumers of AMQP clients.")

METRICS = (PUBLISHED, UNROUTABLE, REFUSED, DELIVERED, STALE, ERRORS, CHANNELS, CONSUMERS)


class Counts:
    """Counters since the AMQP head started."""

    def __init__(self) -> None:
        # All label values exist from the beginning, as a rate needs an initial zero.
        self.errors: Counter[str] = Counter({"PRECONDITION_FAILED": 0})
        self.published = self.unroutable = self.refused = self.delivered = self.stale = 0
        self.channels = self.consumers = 0

    def samples(self) -> Iterator[tuple[Metric, Sample]]:
        """Yield the metrics with their values; may be called from any thread."""
        for code, count in list(self.errors.items()):
            yield ERRORS, ((code,), count)
        yield PUBLISHED, ((), self.published)
        yield UNROUTABLE, ((), self.unroutable)
        yield REFUSED, ((), self.refused)
        yield DELIVERED, ((), self.delivered)
        yield STALE, ((), self.stale)
        yield CHANNELS, ((), self.channels)
        yield CONSUMERS, ((), self.consumers)

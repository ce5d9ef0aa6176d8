"""The metrics of the HTTP head."""

from collections.abc import Iterator

from mainstem.heads.metric import Metric, Sample, counter, gauge

PUBLISHED = counter("mainstem_http_published_events_total", "Events published by HTTP clients.")
READ = counter("mainstem_http_read_events_total", "Events sent to HTTP clients.")
STREAMS = gauge("mainstem_http_streams", "Streams (Server-Sent Events, WebSockets) open now.")
SLOW = counter(
    "mainstem_http_slow_clients_total", "Streams ended because their client did not read."
)

METRICS = (PUBLISHED, READ, STREAMS, SLOW)


class Counts:
    """Counters since the head started."""

    def __init__(self) -> None:
        self.published = self.read = self.streams = self.slow = 0

    def samples(self) -> Iterator[tuple[Metric, Sample]]:
        """Yield the metrics with their values; may be called from any thread."""
        yield PUBLISHED, ((), self.published)
        yield READ, ((), self.read)
        yield STREAMS, ((), self.streams)
        yield SLOW, ((), self.slow)

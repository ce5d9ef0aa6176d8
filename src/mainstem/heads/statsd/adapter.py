"""Maps StatsD to the broker.

| StatsD | the broker |
|---|---|
| a value | an event in the samples topic, keyed by the metric's name |
| a flush | one event for each series in the aggregates topic, keyed by the metric's name |
| a flush, too | totals in ``/metrics``, for Prometheus (``totals.py``) |
| a lost packet | a counter: in ``/metrics``, and with every flush as an event of its own |

How this works: the values of a few milliseconds are appended together. UDP has no responses, so
events that cannot be appended are lost and counted; a message is logged when that begins and when
it ends.
"""

import logging
import random
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING

import msgspec

from mainstem.broker.door import Door, HeldPublish
from mainstem.core.errors import MainstemError, TopicExists
from mainstem.core.event import NO_TIMESTAMP, Event
from mainstem.core.topic_settings import Durability
from mainstem.heads.context import HeadContext
from mainstem.heads.metric import Metric as Measured
from mainstem.heads.metric import Sample
from mainstem.heads.statsd import metrics
from mainstem.heads.statsd.aggregates import OWN, REASONS, Aggregate, Aggregates, Limits
from mainstem.heads.statsd.codec import Metric, parse_packet
from mainstem.heads.statsd.settings import StatsdSettings
from mainstem.heads.statsd.totals import Totals
from mainstem.heads.transport.datagrams import Datagrams, Sender
from mainstem.heads.transport.traffic import ConnectionInfo

if TYPE_CHECKING:
    import asyncio
    import socket

_logger = logging.getLogger("mainstem.heads.statsd")

LINGER_MS = 5
"""How long received values are collected before they are appended."""
MOST_AT_ONCE = 5_000
MOST_CHARACTERS = 1024 * 1024
"""Maximum length of all names and tags of the values that are appended together."""
PORTION = 500
"""Number of aggregates that are appended in one iteration of the event loop."""
SAMPLES_KEPT_MS = 7 * 86_400_000
"""The retention of the samples topic if this head creates it."""


class StatsdHead:
    """The StatsD head while it runs."""

    def __init__(
        self, context: HeadContext, settings: StatsdSettings, listener: "socket.socket"
    ) -> None:
        self._context = context
        self._settings = settings
        self._datagrams = Datagrams(listener, self._received)
        self.address = self._datagrams.address
        self.traffic = self._datagrams.traffic
        self._aggregates = Aggregates(
            context.now_ms(),
            settings.percentile_numbers(),
            Limits(settings.max_series, settings.max_bytes, settings.gauge_idle_ms),
            random.Random(),
        )
        self._totals = Totals(settings.max_scraped_series)
        self._pending: list[Metric] = []
        self._pending_characters = 0
        self._ended: Iterator[Aggregate] | None = None
        """The aggregates of the last interval that are not appended yet."""
        self._intervals = 0
        # UDP senders are anonymous, so all of them are one peer.
        door = context.door(context.auth.peer(str(self.address)))
        self._samples = _Topic(context, door, settings.samples_topic)
        self._sums = _Topic(context, door, settings.aggregates_topic)
        self._received_samples = 0
        self._began_ms = context.now_ms()
        self._bad_lines: dict[str, int] = {}
        self._told: dict[str, int] = {}
        """The head's own counters, as they were at the last flush."""
        self._publish_timer: asyncio.TimerHandle | None = None
        self._flush_timer: asyncio.TimerHandle | None = None

    async def start(self) -> None:
        """Create the topics if necessary, and start receiving."""
        if self._samples.name:
            self._samples.create(durability=Durability.DISK, retention_ms=SAMPLES_KEPT_MS)
        self._sums.create()
        self._flush_timer = self._context.after(self._settings.flush_ms, self._flush)
        await self._datagrams.start()

    # Receiving

    def _received(self, data: bytes, _: Sender) -> None:
        found, wrong = parse_packet(data)
        for reason in wrong:
            self._bad_lines[reason] = self._bad_lines.get(reason, 0) + 1
        self._received_samples += len(found)
        for each in found:
            self._aggregates.add(each)
        if not self._samples.name:
            return
        for each in found:
            self._pending.append(each)
            self._pending_characters += len(each.name) + sum(map(len, each.tags))
            if self._pending_characters >= MOST_CHARACTERS:
                self._publish()
        if len(self._pending) >= MOST_AT_ONCE:
            self._publish()
        elif self._pending and self._publish_timer is None:
            self._publish_timer = self._context.after(LINGER_MS, self._publish)

    def _publish(self) -> None:
        if self._publish_timer is not None:
            self._publish_timer.cancel()
            self._publish_timer = None
        pending, self._pending = self._pending, []
        self._pending_characters = 0
        self._samples.append([_sample_event(each) for each in pending])

    # Aggregates

    def _flush(self) -> None:
        self._flush_timer = self._context.after(self._settings.flush_ms, self._flush)
        self._append_all()
        self._end_interval()
        self._append_some()

    def _end_interval(self) -> None:
        now_ms = self._context.now_ms()
        self._totals.begin()
        own = self._own_counts(self._began_ms, now_ms)
        self._ended = chain(self._aggregates.flush(now_ms), own)
        self._began_ms = now_ms

    def _append_some(self) -> None:
        """Append a portion of aggregates; the event loop does other work before the next one."""
        if self._append_portion():
            self._context.after(0, self._append_some)

    def _append_all(self) -> None:
        while self._append_portion():
            pass

    def _append_portion(self) -> bool:
        """Append some aggregates of the last interval; return whether there are more."""
        if self._ended is None:
            return False
        some = list(islice(self._ended, PORTION))
        self._totals.add(each for each in some if not each.name.startswith(OWN))
        self._sums.append([_sum_event(each) for each in some])
        if len(some) == PORTION:
            return True
        self._ended = None
        self._totals.end()
        self._intervals += 1
        return False

    def _own_counts(self, start_ms: int, end_ms: int) -> Iterator[Aggregate]:
        """Yield how much the head has received and lost since the last flush, as aggregates."""
        counts = {
            "packets": self._datagrams.packets,
            "samples": self._received_samples,
            "bad_lines": sum(self._bad_lines.values()),
            "kernel_drops": self._datagrams.kernel_drops,
            "lost_events": self._samples.lost + self._sums.lost,
            "left_out": self._aggregates.left_out.total(),
        }
        seconds = max(1, end_ms - start_ms) / 1000
        for name, total in counts.items():
            count = total - self._told.get(name, 0)
            yield Aggregate(
                OWN + name, "counter", start_ms, end_ms, count=count, rate=count / seconds
            )
        self._told = counts

    # Called by the node

    def connections(self) -> Sequence[ConnectionInfo]:
        """Return nothing: UDP has no connections."""
        return ()

    def samples(self) -> Iterator[tuple[Measured, Sample]]:
        """Yield the head's metrics with their values."""
        yield metrics.PACKETS, ((), self._datagrams.packets)
        yield metrics.SAMPLES, ((), self._received_samples)
        for reason, count in list(self._bad_lines.items()):
            yield metrics.BAD_LINES, ((reason,), count)
        yield metrics.KERNEL_DROPS, ((), self._datagrams.kernel_drops)
        for topic in (self._samples, self._sums):
            if topic.name:
                yield metrics.LOST, ((topic.name,), topic.lost)
        for reason in REASONS:
            yield metrics.LEFT_OUT, ((reason,), self._aggregates.left_out[reason])
        yield metrics.NOT_SHOWN, ((), self._totals.left_out)
        yield metrics.SERIES, ((), len(self._aggregates))
        yield metrics.BYTES, ((), self._aggregates.estimated_bytes)
        yield metrics.INTERVALS, ((), self._intervals)
        yield from self._totals.samples()

    async def drain(self, within_s: float, hurry: "asyncio.Event") -> None:
        """Stop receiving, and append all received values and their aggregates."""
        self._datagrams.close()
        for timer in (self._publish_timer, self._flush_timer):
            if timer is not None:
                timer.cancel()
        self._publish()
        self._append_all()
        self._end_interval()
        self._append_all()

    async def close(self) -> None:
        """Stop receiving packets."""
        self._datagrams.close()


class _Topic:
    """A topic to which this head appends, and how many events could not be appended."""

    def __init__(self, context: HeadContext, door: Door, name: str) -> None:
        self._context = context
        self._door = door
        self.name = name
        self.lost = 0
        self._refused = ""
        """The error of the last append; empty if it succeeded."""

    def create(self, **settings: object) -> None:
        """Create the topic with these settings, unless it exists."""
        wanted = self._context.defaults.altered(**settings)
        try:
            self._context.broker.create_topic(self.name, wanted)
        except TopicExists:
            return

    def append(self, events: Sequence[Event]) -> None:
        """Append events; count them as lost if the broker refuses them."""
        if not events:
            return
        try:
            found = self._door.try_publish(self.name, events)
        except MainstemError as error:
            self._lose(len(events), str(error))
            return
        if isinstance(found, HeldPublish):
            self._lose(len(events), "the topic is full (max_backlog)")
            return

        def decided(error: MainstemError | None) -> None:
            if error is not None:
                self._context.on_loop(lambda: self._lose(len(events), str(error)))

        found.durable.then(decided)
        if self._refused:
            _logger.warning(
                "topic %s accepts events again; %d events were lost", self.name, self.lost
            )
            self._refused = ""

    def _lose(self, count: int, why: str) -> None:
        self.lost += count
        if not self._refused:
            _logger.error("metrics are being lost: topic %s refuses events: %s", self.name, why)
        self._refused = why


_encode = msgspec.json.Encoder().encode


def _sample_event(metric: Metric) -> Event:
    at_ms = NO_TIMESTAMP if metric.timestamp_s is None else metric.timestamp_s * 1000
    return Event(_encode(metric), metric.name.encode(), timestamp_ms=at_ms)


def _sum_event(found: Aggregate) -> Event:
    return Event(_encode(found), found.name.encode(), timestamp_ms=found.end_ms)

"""Collects the metrics of ``/metrics``, in a thread of its own, without long locks.

How this works: counts are kept where events occur, as plain numbers that the event loop changes; a
scrape only reads them. Values that the log and the cursors have, such as sizes and lag, are read
topic by topic and group by group, so that the broker's lock is held only briefly. A server with
very many topics or groups shows only some of them, and how many it left out.
"""

import os
import platform
import resource
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from mainstem.broker.broker import Broker
from mainstem.core.errors import MainstemError
from mainstem.heads.admin.codec import encode, encode_histogram
from mainstem.heads.head import RunningHead
from mainstem.heads.metric import Metric, Sample
from mainstem.node import metrics
from mainstem.node.connector_operations import NodeConnectors
from mainstem.node.node import Node

MAX_PARTITIONS = 10_000
"""Maximum number of topic partitions, and of committed offsets, in the output."""

_Samples = dict[Metric, list[Sample]]
_Moment = tuple[str, int, int]
"""A position: a topic's id, a partition and an offset."""


class _Sizes(NamedTuple):
    """A metric, the counter of a topic that it shows, and the factor to multiply that with."""

    metric: Metric
    counter: str
    scale: float = 1.0


_COUNTERS = (
    _Sizes(metrics.DROPPED, "dropped"),
    _Sizes(metrics.TURNED_AWAY, "refused"),
    _Sizes(metrics.HELD, "held"),
    _Sizes(metrics.HELD_SECONDS, "held_ms", 0.001),
)


class Scrape:
    """Collects the metrics of a server; ``heads`` and ``node`` are set when they have started."""

    def __init__(
        self,
        not_ready: Callable[[], str | None],
        version: str,
        *,
        max_partitions: int = MAX_PARTITIONS,
    ) -> None:
        self._not_ready, self._version = not_ready, version
        self._max_partitions = max_partitions
        self._times: dict[_Moment, int | None] = {}
        """Timestamps of the events at the groups' committed offsets, cached until these move."""
        self.heads: dict[str, RunningHead] = {}
        self.node: Node | None = None
        self.connectors: NodeConnectors | None = None

    def text(self) -> str:
        """Return all metrics in Prometheus' text format; only one thread at a time may call it."""
        found: _Samples = {metric: [] for metric in metrics.METRICS}
        found[metrics.BUILD].append(((self._version,), 1))
        found[metrics.READY].append(((), int(self._not_ready() is None)))
        self._add_heads(found)
        node = self.node
        if node is not None:
            found[metrics.STOPPED].append(((), int(node.stopped is not None)))
            found[metrics.FULL].append(((), int(node.full is not None)))
            self._add_topics(found, node.broker)
            self._add_groups(found, node)
            self._add_queues(found, node.broker)
            _add_delayed(found, node.broker)
            for name, count in node.broker.timers.failures.items():
                found[metrics.TIMER_FAILURES].append(((name,), count))
        if self.connectors is not None:
            for metric, sample in self.connectors.samples():
                found[metric].append(sample)
        _add_process(found)
        parts = [encode(metric, samples) for metric, samples in found.items()]
        if node is not None and node.commits is not None:
            seconds, sizes = node.commits
            parts.append(encode_histogram(metrics.SYNC_SECONDS, seconds))
            parts.append(encode_histogram(metrics.GROUP_SIZES, sizes))
        return "".join(parts)

    def queues(self) -> bytes:
        """Return the state of every queue and share group, as JSON."""
        found = [] if self.node is None else self.node.broker.queues.every()
        return msgspec.json.encode(found)

    def _add_heads(self, found: _Samples) -> None:
        for name, head in list(self.heads.items()):
            traffic, labels = head.traffic, (name,)
            found[metrics.CONNECTIONS].append((labels, traffic.open))
            found[metrics.ACCEPTED].append((labels, traffic.accepted))
            found[metrics.REFUSED].append((labels, traffic.refused))
            found[metrics.CUT_OFF].append((labels, traffic.cut_off))
            found[metrics.RECEIVED].append((labels, traffic.bytes_in))
            found[metrics.SENT].append((labels, traffic.bytes_out))
            for metric, sample in head.samples():
                # Some metrics of a head exist only at times, so it does not declare them all.
                found.setdefault(metric, []).append(sample)

    def _add_topics(self, found: _Samples, broker: Broker) -> None:
        room = self._max_partitions
        left_out = 0
        for topic in broker.topics():
            room -= len(topic.partitions)
            if room < 0:
                left_out += 1
                continue
            try:
                _add_topic(found, broker, topic.name, len(topic.partitions))
            except MainstemError:
                # The topic was deleted in the meantime.
                continue
        found[metrics.LEFT_OUT].append((("topic",), left_out))

    def _add_groups(self, found: _Samples, node: Node) -> None:
        room = self._max_partitions
        left_out = 0
        known, self._times = self._times, {}
        for name in node.broker.group_names():
            if room <= 0:
                left_out += 1
                continue
            try:
                room -= self._add_group(found, node, name, known)
            except MainstemError:
                continue
        found[metrics.LEFT_OUT].append((("group",), left_out))

    def _add_group(
        self, found: _Samples, node: Node, name: str, known: dict[_Moment, int | None]
    ) -> int:
        group = node.broker.group(name)
        members = len(group.members) or len(node.broker.classic.describe(name).members)
        found[metrics.MEMBERS].append(((name,), members))
        oldest_ms: int | None = None
        for each in group.lags:
            labels = (name, each.topic, str(each.partition))
            if each.cursor is not None:
                found[metrics.CURSOR].append((labels, each.cursor))
            found[metrics.LAG].append((labels, each.lag))
            if each.lag:
                place = (each.topic, each.partition, max(each.cursor or 0, each.start))
                since_ms = self._time_at(node.broker, *place, known)
                if since_ms is not None:
                    oldest_ms = since_ms if oldest_ms is None else min(oldest_ms, since_ms)
        lag_ms = 0 if oldest_ms is None else max(0, node.now_ms() - oldest_ms)
        found[metrics.LAG_SECONDS].append(((name,), lag_ms / 1000))
        return max(1, len(group.lags))

    def _add_queues(self, found: _Samples, broker: Broker) -> None:
        room = self._max_partitions
        left_out = 0
        for each in broker.queues.every():
            room -= len(each.windows)
            if room < 0:
                left_out += 1
                continue
            labels = (each.topic, each.name)
            backlog = sum(window.unsettled for window in each.windows)
            found[metrics.QUEUE_BACKLOG].append((labels, backlog))
            found[metrics.QUEUE_OUT].append((labels, sum(each.owners.values())))
            found[metrics.QUEUE_AGAIN].append((labels, each.redelivered))
            found[metrics.QUEUE_DEAD].append((labels, each.dead))
        found[metrics.LEFT_OUT].append((("queue",), left_out))

    def _time_at(
        self,
        broker: Broker,
        topic: str,
        partition: int,
        offset: int,
        known: dict[_Moment, int | None],
    ) -> int | None:
        moment = (broker.topic(topic).id, partition, offset)
        when = known.get(moment)
        if when is None:
            when = broker.time_at(topic, partition, offset)
        self._times[moment] = when
        return when


def _add_topic(found: _Samples, broker: Broker, name: str, partitions: int) -> None:
    size_bytes = 0
    for number in range(partitions):
        bounds = broker.bounds(name, number)
        size_bytes += bounds.size_bytes
        found[metrics.TAIL].append(((name, str(number)), bounds.tail))
        found[metrics.START].append(((name, str(number)), bounds.start))
    found[metrics.PARTITIONS].append(((name,), partitions))
    found[metrics.TOPIC_BYTES].append(((name,), size_bytes))
    counters = broker.counters(name)
    for metric, counter, scale in _COUNTERS:
        found[metric].append(((name,), counters[counter] * scale))


def _add_delayed(found: _Samples, broker: Broker) -> None:
    waiting = broker.delays.waiting()
    found[metrics.DELAYED].append(((), waiting.events))
    found[metrics.DELAYED_NEXT].append(((), (waiting.next_due_ms or 0) / 1000))
    found[metrics.DELAYED_DROPPED].append(((), waiting.dropped))
    found[metrics.DELAYED_FAILED].append(((), waiting.failed))


def _add_process(found: _Samples) -> None:
    used = resource.getrusage(resource.RUSAGE_SELF)
    found[metrics.CPU].append(((), used.ru_utime + used.ru_stime))
    found[metrics.MAX_FILES].append(((), resource.getrlimit(resource.RLIMIT_NOFILE)[0]))
    if platform.system() == "Linux":
        for metric, value in _from_proc():
            found[metric].append(((), value))


def _from_proc() -> Iterator[tuple[Metric, float]]:
    proc = Path("/proc/self")
    virtual, resident = (proc / "statm").read_text().split()[:2]
    page = resource.getpagesize()
    yield metrics.VIRTUAL, int(virtual) * page
    yield metrics.RESIDENT, int(resident) * page
    yield metrics.OPEN_FILES, len(list((proc / "fd").iterdir()))
    # The program's name in parentheses may contain spaces, so split after it.
    fields = (proc / "stat").read_text().rpartition(")")[2].split()
    since_boot = int(fields[19]) / os.sysconf("SC_CLK_TCK")
    yield metrics.STARTED, time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + since_boot

"""``spark.readStream``: plans the micro-batches of a query.

How this works: Spark keeps this object in a Python process for the life of the query and calls
``initialOffset`` (once, for a new checkpoint), then for each batch ``latestOffset``, ``partitions``
and ``commit``. Tasks get pickled copies of it, on which Spark only calls ``read``. After a restart
Spark calls ``partitions`` for the unfinished batch, with the same start and end as before.

With the option ``markEnd``, the last batch of a bounded query has one more row, which marks the end
of the input. The query's offsets say whether that row was read, so it is returned once, and nothing
after it.
"""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from mainstem.core.errors import MainstemError
from mainstem.pipelines.format.data_loss import Losses
from mainstem.pipelines.format.offsets import Json, Offsets, from_json
from mainstem.pipelines.format.options import SourceOptions
from mainstem.pipelines.format.planning import Admission, Positions, evenly, split
from mainstem.pipelines.format.tasks import End, Task, read_task
from mainstem.pipelines.format.topic_metadata import TOPICS_KEPT_S, TopicMetadata
from mainstem.remote.admin import Bounds, Described, Place
from mainstem.remote.arrow.range import Range
from mainstem.remote.consumer_groups import ConsumerGroups

_log = logging.getLogger("mainstem.spark")


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans the micro-batches of one query."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._kept_metadata: TopicMetadata | None = None
        self._admission = Admission()
        self._losses = Losses(fail=options.fail_on_data_loss)
        self._target: Positions | None = None

    @property
    def _metadata(self) -> TopicMetadata:
        # Created on first use: copies of this object in tasks need no connection.
        if self._kept_metadata is None:
            self._kept_metadata = TopicMetadata(self._options)
        return self._kept_metadata

    def initialOffset(self) -> Json:  # noqa: N802
        """Return the offsets at which a query that has no checkpoint begins."""
        topics = self._metadata.required()
        bounds = self._metadata.bounds(fresh=True)
        places = self._metadata.edge(self._options.starting, bounds, unnamed="earliest")
        return Offsets(places, {name: each.id for name, each in topics.items()}).json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the maximum number of rows per batch."""
        return ReadMaxRows(self._options.max_rows)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix the end offsets of the query: events that arrive later are not read."""
        self._metadata.required()
        self._target = self._ends(fresh=True)

    def latestOffset(self, start: Json, limit: ReadLimit) -> Json:  # noqa: N802
        """Return the end offsets of the next batch."""
        kept = from_json(start)
        if kept.ended:
            return start
        metadata = self._metadata
        topics, bounds = metadata.topics(), metadata.bounds()
        begin = self._resumed(kept, topics, bounds)
        ends = {
            place: max(begin[place], end) for place, end in self._ends().items() if place in begin
        }
        last = ends
        if not isinstance(limit, ReadAllAvailable):
            ends = self._admitted(begin, ends, limit)
        ids = kept.ids | {topic: topics[topic].id for topic, _ in ends}
        ended = self._options.mark_end and self._target is not None and ends == last
        return Offsets(_others(kept, topics) | ends, ids, ended).json()

    def reportLatestOffset(self) -> Json:  # noqa: N802
        """Return the partitions' end offsets, which Spark shows in the query's progress report."""
        ids = {name: each.id for name, each in self._metadata.topics().items()}
        bounds = self._metadata.bounds(kept_s=TOPICS_KEPT_S)
        places = {place: each.tail for place, each in bounds.items()}
        return Offsets(places, ids).json()

    def partitions(self, start: Json, end: Json) -> Sequence[InputPartition]:
        """Return the tasks that read from offsets ``start`` to ``end``."""
        first, last = from_json(start), from_json(end)
        metadata = self._metadata
        # The end offsets are recent; tasks detect whether events were deleted since.
        topics, bounds = metadata.topics(), metadata.bounds(kept_s=TOPICS_KEPT_S)
        if any(place not in bounds for place in last.places):
            topics, bounds = metadata.topics(fresh=True), metadata.bounds(fresh=True)
        begin = self._resumed(first, topics, bounds)
        ranges = [
            Range(*place, begin[place], min(offset, bounds[place].tail))
            for place, offset in sorted(last.places.items())
            if metadata.wants(place[0]) and self._is_there(place, last, topics, bounds)
        ]
        pieces = split(
            ranges,
            min_partitions=self._options.min_partitions,
            max_rows=self._options.max_rows_per_partition,
        )
        end_mark = [End()] if last.ended and not first.ended else []
        return [*(Task(piece) for piece in pieces), *end_mark]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """In a task: yield its events as Arrow batches."""
        return read_task(self._options, partition)

    def commit(self, end: Json) -> None:
        """Commit the batch's offsets to the consumer group, so that its lag can be monitored."""
        group = self._options.group
        if group is None:
            return
        cluster = self._options.server.cluster()
        try:
            ConsumerGroups(self._metadata.administration).move(group, from_json(end).places)
        except MainstemError as error:
            # Not fatal: the checkpoint decides where the query continues.
            _log.warning("the cursors of group %r at %s: %s", group, cluster.address, error)

    def stop(self) -> None:
        """Close the connections, as the query has ended."""
        if self._kept_metadata is not None:
            self._kept_metadata.close()
            self._kept_metadata = None

    def _ends(self, *, fresh: bool = False) -> Positions:
        if self._target is not None:
            return self._target
        bounds = self._metadata.bounds(fresh=fresh)
        said = self._metadata.edge(self._options.ending, bounds, unnamed="latest")
        return {place: min(said[place], each.tail) for place, each in bounds.items()}

    def _admitted(
        self, begin: Positions, ends: dict[Place, int], limit: ReadLimit
    ) -> dict[Place, int]:
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else self._options.max_rows
        most = min(most, self._metadata.rows_in(self._options.max_bytes, begin, ends))
        if not self._options.by_timestamp or len(ends) == 1:
            return evenly(begin, ends, most)
        now_ms = time.time_ns() // 1_000_000
        metadata = self._metadata
        return self._admission.by_time(
            begin, ends, most, lambda moment_ms: metadata.at_time(ends, moment_ms), now_ms
        )

    def _resumed(
        self, kept: Offsets, topics: Mapping[str, Described], bounds: Mapping[Place, Bounds]
    ) -> Positions:
        # A topic that is no longer subscribed is not data loss.
        asked = kept.of(topic for topic in kept.ids if self._metadata.wants(topic))
        return self._losses.resumed(asked, topics, bounds)

    def _is_there(
        self,
        place: Place,
        end: Offsets,
        topics: Mapping[str, Described],
        bounds: Mapping[Place, Bounds],
    ) -> bool:
        """Return whether a partition of a planned batch still exists; reports data loss."""
        topic, where = place[0], f"partition {place[1]} of topic {place[0]!r}"
        if place not in bounds:
            self._losses.tell(f"{where} is gone")
            return False
        if topics[topic].id != end.ids.get(topic):
            self._losses.tell(f"{where} was deleted and made again after it was to be read")
            return False
        if bounds[place].tail < end.places[place]:
            self._losses.tell(
                f"{where} was to be read up to offset {end.places[place]}, and ends at "
                f"{bounds[place].tail}: its end was lost"
            )
        return True


def _others(kept: Offsets, topics: Mapping[str, Described]) -> dict[Place, int]:
    """Return the offsets of the checkpoint, except those of topics that were recreated.

    Partitions that the next batch does not read keep their offsets: without one, a partition would
    be read from its start again.
    """
    return {
        place: offset
        for place, offset in kept.places.items()
        if place[0] not in topics or topics[place[0]].id == kept.ids.get(place[0])
    }

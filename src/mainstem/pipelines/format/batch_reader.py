"""``spark.read``: reads a bounded range, narrowed by the filters that Spark pushes down."""

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from mainstem.pipelines.format.data_loss import Losses
from mainstem.pipelines.format.filters import PushedFilters
from mainstem.pipelines.format.offsets import Offsets
from mainstem.pipelines.format.options import SourceOptions
from mainstem.pipelines.format.planning import split
from mainstem.pipelines.format.tasks import Task, read_task
from mainstem.pipelines.format.topic_metadata import TopicMetadata
from mainstem.remote.arrow.range import Range


class BatchReader(DataSourceReader):
    """Plans one ``spark.read``."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._wanted = PushedFilters()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        """Narrow the range by the filters where possible; return those that Spark must apply."""
        return [each for each in filters if not self._wanted.take(each)]

    def partitions(self) -> Sequence[InputPartition]:
        """Return the tasks of the read: an offset range for each, in Spark an input partition."""
        options, wanted = self._options, self._wanted
        metadata = TopicMetadata(options)
        topics = metadata.required()
        bounds = metadata.bounds(fresh=True)
        said = metadata.edge(options.starting, bounds, unnamed="earliest")
        ids = {name: each.id for name, each in topics.items()}
        losses = Losses(fail=options.fail_on_data_loss)
        starts = losses.resumed(Offsets(said, ids), topics, bounds)
        ends = metadata.edge(options.ending, bounds, unnamed="latest")
        if wanted.since_ms is not None:
            since = metadata.at_time(bounds, wanted.since_ms)
            starts = {
                place: max(start, since.get(place, bounds[place].tail))
                for place, start in starts.items()
            }
        ranges = [
            wanted.narrowed(Range(*place, starts[place], min(ends[place], limits.tail)))
            for place, limits in sorted(bounds.items())
            if wanted.partition(place[1])
        ]
        pieces = split(
            ranges, min_partitions=options.min_partitions, max_rows=options.max_rows_per_partition
        )
        return [Task(piece) for piece in pieces]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """In a task: yield its events as Arrow batches."""
        return read_task(self._options, partition)

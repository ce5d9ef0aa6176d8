"""The tasks of the source, which are Spark's input partitions, and the code that they run."""

import gc
import logging
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from mainstem.core.errors import OffsetOutOfRange
from mainstem.pipelines.format.data_loss import DataLoss
from mainstem.pipelines.format.options import SourceOptions
from mainstem.remote.admin import Admin
from mainstem.remote.arrow.range import Range
from mainstem.remote.arrow.ranges import read_range
from mainstem.remote.arrow.schema import ARROW

_log = logging.getLogger("mainstem.spark")


class Task(InputPartition):
    """A Spark input partition: an offset range of one topic partition."""

    def __init__(self, wanted: Range) -> None:
        super().__init__(wanted)


class End(InputPartition):
    """The task that returns one row, which marks the end of the input.

    The row is in no partition, and its time is after all others.
    """

    def __init__(self) -> None:
        super().__init__(None)


END_PARTITION = -1
"""The partition number of the row that marks the end of the input."""
LAST_TIME = datetime(9999, 12, 31, tzinfo=UTC)


def read_task(options: SourceOptions, task: InputPartition) -> Iterator[pa.RecordBatch]:
    """Read the events of a task; raises DataLoss, or warns, if retention deleted some."""
    yield from _read(options, task)
    # After the first rows, because Spark imports its last modules only with them.
    _keep_what_is_loaded()


def _read(options: SourceOptions, task: InputPartition) -> Iterator[pa.RecordBatch]:
    if isinstance(task, End):
        row = {"partition": END_PARTITION, "timestamp": LAST_TIME}
        yield pa.RecordBatch.from_pylist([row], ARROW)
        return
    wanted = task.value
    if wanted is None:
        # Spark creates one task if none was planned: for an empty topic, or an empty range.
        return
    assert isinstance(wanted, Range)
    cluster = options.server.cluster()
    try:
        yield from read_range(cluster, wanted, options.batch_rows)
    except OffsetOutOfRange:
        place = (wanted.topic, wanted.partition)
        first = Admin(cluster).bounds([place])[place].start
        what = (
            f"offsets {wanted.start} to {wanted.end} of partition {wanted.partition} of topic "
            f"{wanted.topic!r} were to be read, and the first one kept is {first}"
        )
        if options.fail_on_data_loss:
            raise DataLoss(what) from None
        _log.warning("%s; the query continues with the events that are left", what)
        if wanted.start < first < wanted.end:
            rest = Range(wanted.topic, wanted.partition, first, wanted.end)
            yield from read_range(cluster, rest, options.batch_rows)


def _keep_what_is_loaded() -> None:
    """Exclude loaded objects from the garbage collection that Spark runs after every task.

    Collecting them took several times as long as reading a few events.
    """
    if os.environ.get("SPARK_PYTHON_RUNTIME") == "PYTHON_WORKER":
        _freeze_once()


@cache
def _freeze_once() -> None:
    # gc.get_freeze_count() would tell whether that was done, but takes 7 ms: it visits every frozen
    # object.
    gc.freeze()

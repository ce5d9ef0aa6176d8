"""Writes rows to topics exactly once, from a stream or a batch.

How this works: tasks stage their rows for the driver (``staging.py``). When all tasks are done, the
driver writes the rows in one transaction, together with a mark that names run and batch. If Spark
runs a batch again after a crash, the driver finds its mark and does not write it again. Consumers
that read committed events see all of a batch or nothing.

In parallel mode every task writes its own transaction with its own mark. That is faster for large
batches, but a batch becomes visible task by task. A task that Spark repeats finds its mark and
writes nothing. It compares its rows with a digest in the mark: they are the same if the query is
deterministic. If they differ, the query fails rather than lose or duplicate rows.
"""

import uuid
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from mainstem.pipelines.format.committed_batch import Mark, OtherRows, is_written, mark_of
from mainstem.pipelines.format.event_rows import Digest, events
from mainstem.pipelines.format.options import SinkOptions
from mainstem.pipelines.format.staging import Staged, default_location, stage
from mainstem.remote.transactions import Outgoing, TransactionalProducer

_NAMES_BEGIN = "mainstem-sink-"
_QUERY_ID, _BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"
"""The local properties in which Spark passes the ids of query and batch to tasks."""

Messages = Sequence[WriterCommitMessage | None]


class Sink:
    """Writes rows to topics, each batch of a pipeline once."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def put_aside(self, batches: Iterable[pa.RecordBatch], run: str) -> Staged:
        """In a task: stage its rows, which the driver will write."""
        return stage(batches, self._options.staging or default_location(), run)

    def publish(self, messages: Messages, pipeline: str, batch: int | None, run: str) -> None:
        """In the driver: write the rows that all tasks staged, unless written before."""
        staged = [each for each in messages if isinstance(each, Staged)]
        if any(each.rows for each in staged):
            found = events(
                (rows for each in staged for rows in each.batches()), self._options.topic
            )
            self._once(found, pipeline, batch, run)
        for each in staged:
            each.drop()

    def _once(self, found: Iterator[Outgoing], pipeline: str, batch: int | None, run: str) -> None:
        writer = self._writer(pipeline)
        try:
            last = mark_of(writer.take_over())
            if batch is None:
                writer.write(found, None)
            elif not is_written(last, batch, run):
                writer.write(found, Mark(batch, run).text)
        finally:
            writer.close()

    def write_part(
        self, batches: Iterable[pa.RecordBatch], pipeline: str, batch: int, run: str
    ) -> None:
        """In a task, in parallel mode: write its rows, unless they were written before."""
        task = TaskContext.get()
        writer = self._writer(f"{pipeline}.{task.partitionId() if task else 0}")
        found, digest = events(batches, self._options.topic), Digest()
        try:
            last = mark_of(writer.take_over())
            if last is not None and is_written(last, batch, run):
                for _ in digest.over(found):
                    pass
                _compare(last, Mark(batch, run, digest.rows, digest.number), pipeline)
                return
            writer.write(
                digest.over(found), lambda: Mark(batch, run, digest.rows, digest.number).text()
            )
        finally:
            writer.close()

    def _writer(self, name: str) -> TransactionalProducer:
        options = self._options
        return TransactionalProducer(
            options.server.cluster(),
            _NAMES_BEGIN + name,
            timeout_ms=options.timeout_ms,
            compression=options.compression,
            marks_topic=options.marks_topic,
        )


class StreamSink(DataSourceStreamArrowWriter):
    """The writer behind ``df.writeStream.format("mainstem")``."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._sink = Sink(options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """In a task: write its rows (in parallel mode), or stage them for the driver."""
        run = self._options.run or _told(_QUERY_ID)
        if self._options.parallel:
            self._sink.write_part(iterator, self._pipeline(run), int(_told(_BATCH_ID) or 0), run)
            return Staged(0, b"", None, run)
        return self._sink.put_aside(iterator, run)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """In the driver: write a batch after all its tasks have finished."""
        run = next((each.run for each in messages if isinstance(each, Staged)), "")
        self._sink.publish(messages, self._pipeline(run), batchId, run)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """In the driver: delete the staged rows of a batch after a task failed."""
        _drop(messages)

    def _pipeline(self, run: str) -> str:
        # Without a name, the query's id, which Spark stores in the checkpoint, is the name.
        return self._options.pipeline or run


class BatchSink(DataSourceArrowWriter):
    """The writer behind ``df.write.format("mainstem")``.

    Used in foreachBatch with the options ``pipeline`` and ``batch``, it writes a batch once;
    without them, every write is a new one.
    """

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._sink = Sink(options)
        # The same in all tasks of this write, so that a repeated task finds its mark.
        self._alone = uuid.uuid4().hex

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """In a task: write its rows (in parallel mode), or stage them for the driver."""
        options = self._options
        if options.parallel:
            pipeline, batch = options.pipeline or self._alone, options.batch or 0
            self._sink.write_part(iterator, pipeline, batch, self._run())
            return Staged(0, b"", None)
        return self._sink.put_aside(iterator, "")

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """In the driver: write the rows after all tasks have finished."""
        options = self._options
        pipeline = options.pipeline if options.batch is not None else None
        self._sink.publish(messages, pipeline or self._alone, options.batch, options.run)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """In the driver: delete the staged rows after a task failed."""
        _drop(messages)

    def _run(self) -> str:
        return self._options.run if self._options.batch is not None else self._alone


def _compare(written: Mark, again: Mark, pipeline: str) -> None:
    same = (written.batch, written.rows, written.digest) == (again.batch, again.rows, again.digest)
    # The mark describes only the last batch, so earlier ones cannot be compared.
    if written.batch == again.batch and not same:
        raise OtherRows(
            f"a task of batch {again.batch} of pipeline {pipeline!r} wrote {written.rows} rows, "
            f"and when it was done again had {again.rows} others: the query is not deterministic "
            "(rand, current_timestamp, a changed definition or number of partitions); write "
            "without parallel, or start with a new checkpoint and a new topic"
        )


def _told(name: str) -> str:
    task = TaskContext.get()
    return (task.getLocalProperty(name) or "") if task else ""


def _drop(messages: Messages) -> None:
    for each in messages:
        if isinstance(each, Staged):
            each.drop()

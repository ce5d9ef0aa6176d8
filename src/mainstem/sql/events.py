"""Reads the events of topics as Arrow batches, with the columns that queries use."""

import queue
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress

import pyarrow as pa

from mainstem.remote.admin import Admin
from mainstem.remote.arrow.range import Range
from mainstem.remote.arrow.ranges import read_columns
from mainstem.remote.arrow.schema import HEADERS
from mainstem.remote.cluster import Cluster
from mainstem.sql.worker_messages import Span

KEY, VALUE = "_key", "_value"
METADATA = {
    KEY: "key",
    VALUE: "value",
    "_headers": "headers",
    "_partition": "partition",
    "_offset": "offset",
    "_timestamp": "timestamp",
}
"""The columns of every topic, and what they are called where events are decoded."""
_AHEAD = 2
_LOOK_S = 0.5


class NotText(Exception):
    """Raised if a key or value is not UTF-8 though its column was inferred to be text."""

    def __init__(self, column: str) -> None:
        super().__init__(column)
        self.column = column


def schema(texts: frozenset[str]) -> pa.Schema:
    """Return the columns of a topic; key and value are text if in ``texts``, else bytes."""
    return pa.schema(
        [
            # The column that is cheapest to read comes first, as DuckDB scans it to count rows.
            ("_offset", pa.int64()),
            ("_partition", pa.int32()),
            ("_timestamp", pa.timestamp("us", tz="UTC")),
            (KEY, pa.string() if KEY in texts else pa.binary()),
            (VALUE, pa.string() if VALUE in texts else pa.binary()),
            ("_headers", HEADERS),
        ]
    )


def read(
    cluster: Cluster, topic: str, spans: Sequence[Span], wanted: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Yield the events in ranges of offsets, with the columns ``wanted``; raises NotText."""
    names = [METADATA[name] for name in wanted.names]
    for span in spans:
        there = Range(topic, span.partition, span.start, span.end)
        for found in read_columns(cluster, there, frozenset(names)):
            yield pa.RecordBatch.from_arrays(
                [
                    _typed(found.column(name), field)
                    for name, field in zip(names, wanted, strict=True)
                ],
                schema=wanted,
            )


def _typed(column: pa.Array, field: pa.Field) -> pa.Array:
    if field.type != pa.string():
        return column
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:
        raise NotText(field.name) from None


def since(admin: Admin, topic: str, spans: Sequence[Span], from_ms: int) -> list[Span]:
    """Return the ranges, starting at each partition's first event at or after a time."""
    first = admin.at_time([(topic, span.partition) for span in spans], from_ms)
    return [
        Span(span.partition, max(span.start, min(span.end, offset)), span.end)
        for span in spans
        if (offset := first.get((topic, span.partition))) is not None
    ]


class Prefetched:
    """Batches of a scan, which a thread reads two batches ahead."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._ready: queue.Queue[pa.RecordBatch | Exception | None] = queue.Queue(_AHEAD)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._read, name="mainstem-sql-scan", daemon=True)
        self._thread.start()

    def next(self) -> pa.RecordBatch | None:
        """Return the next batch, None at the end; raises the errors of reading."""
        found = self._ready.get()
        if isinstance(found, Exception):
            raise found
        return found

    def close(self) -> None:
        """Stop the thread."""
        self._closed.set()
        # The thread may wait until there is room for its next batch.
        with suppress(queue.Empty):
            while True:
                self._ready.get_nowait()
        self._thread.join()

    def _read(self) -> None:
        try:
            for each in self._batches:
                if not self._put(each):
                    return
            self._put(None)
        except Exception as error:
            self._put(error)

    def _put(self, item: "pa.RecordBatch | Exception | None") -> bool:
        while not self._closed.is_set():
            try:
                self._ready.put(item, timeout=_LOOK_S)
            except queue.Full:
                continue
            return True
        return False

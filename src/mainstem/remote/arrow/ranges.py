"""Reads the committed events of an offset range of one partition, as Arrow record batches.

Reading ends when the fetch position is at or past the end, and does not wait for an event at the
last offset before it: there may be none, as transaction markers take offsets, aborted events are
skipped, and compaction removes events.
"""

from collections.abc import Iterator

import pyarrow as pa

from mainstem.core.batch import read_header
from mainstem.core.transaction_markers import is_commit
from mainstem.remote.arrow.decoding import record_batches
from mainstem.remote.arrow.librdkafka import consume
from mainstem.remote.arrow.range import Range
from mainstem.remote.arrow.schema import ARROW
from mainstem.remote.cluster import Cluster
from mainstem.remote.fetch import Fetched, fetch

_LIBRDKAFKA_ROWS = 10_000


def read_range(cluster: Cluster, wanted: Range, batch_rows: int) -> Iterator[pa.RecordBatch]:
    """Read the events of an offset range; raises OffsetOutOfRange if its start was deleted."""
    return (fetch_range if cluster.is_plain else consume)(cluster, wanted, batch_rows)


def fetch_range(cluster: Cluster, wanted: Range, batch_rows: int) -> Iterator[pa.RecordBatch]:
    """Read an offset range as stored batches, many events at a time."""
    topic, partition = wanted.topic, wanted.partition
    for fetched in fetch(cluster, (topic, partition), wanted.start, wanted.end):
        batches = committed(fetched)
        for found in record_batches(batches, topic, partition, wanted.start, wanted.end):
            for first in range(0, found.num_rows, batch_rows):
                yield found.slice(first, batch_rows)


def read_columns(
    cluster: Cluster, wanted: Range, columns: frozenset[str]
) -> Iterator[pa.RecordBatch]:
    """Read some columns of an offset range, in batches of any size."""
    if not cluster.is_plain:
        names = [name for name in ARROW.names if name in columns]
        for found in consume(cluster, wanted, _LIBRDKAFKA_ROWS):
            yield found.select(names)
        return
    topic, partition, start, end = wanted.topic, wanted.partition, wanted.start, wanted.end
    for fetched in fetch(cluster, (topic, partition), start, end):
        yield from record_batches(committed(fetched), topic, partition, start, end, columns)


def committed(fetched: Fetched) -> Iterator[memoryview]:
    """Yield the batches that hold events, without those of aborted transactions."""
    ahead = sorted(fetched.aborted, key=lambda each: each.first_offset, reverse=True)
    aborting = set[int]()
    for batch in fetched.batches:
        header = read_header(batch)
        while ahead and ahead[-1].first_offset <= header.last_offset:
            aborting.add(ahead.pop().producer_id)
        if header.is_control:
            if header.producer_id in aborting and not is_commit(batch):
                aborting.remove(header.producer_id)
        elif not header.is_transactional or header.producer_id not in aborting:
            yield batch

"""Writes a new segment from batches of others: for compaction, truncation and repair.

The new segment is durable before anything refers to it; segments are never changed in place.
"""

from collections.abc import Iterable

from mainstem.core.batch import read_header, set_last_offset
from mainstem.core.records import retain
from mainstem.log.disk_partition import DiskPartition
from mainstem.log.files.files import Files
from mainstem.log.segments.segment import Segment


def write_segment(
    files: Files,
    partition: DiskPartition,
    segment: Segment,
    batches: Iterable[bytes | bytearray],
    *,
    next_offset: int,
) -> None:
    """Write batches into a new segment that ends before ``next_offset``; durable on return."""
    for batch in batches:
        segment.write(batch)
        segment.accept(batch, read_header(batch).base_offset)
    segment.next_offset = next_offset
    if segment.created:
        segment.save_index()
        segment.sync(segment.size)
        files.sync_dir(partition.directory)


def batches_before(segment: Segment, end: int) -> Iterable[bytes | bytearray]:
    """Yield the batches before an offset; a batch that spans it is cut."""
    for _, batch in segment.batches():
        header = read_header(batch)
        if header.base_offset >= end:
            return
        if header.last_offset >= end:
            part = retain(batch, lambda offset, _key, _has_value: offset < end)
            if part is not None:
                shorter = bytearray(part)
                set_last_offset(shorter, end - 1)
                yield shorter
            return
        yield batch

"""What the truncation of a database table deletes from its mirror.

How this works: a change ``truncate`` is in every partition of its topic. The first batch that reads
one replaces all rows of the mirror by its own rows. Later batches may still bring changes from
before it, which are late or in other partitions; their rows are deleted. The position of the newest
truncation is stored before the batch is written, with the batch's number, because Spark may repeat
the batch after a crash.
"""

from pathlib import Path
from typing import NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from mainstem.pipelines.sinks.port import CHANGED_AT, DELETED, TRUNCATED
from mainstem.pipelines.state.table_state import read_state, write_state


class Truncation(msgspec.Struct, frozen=True):
    """The newest truncation: its position among the changes, and the first batch that read it."""

    position: str
    batch: int


class MirrorRows(NamedTuple):
    """The rows of a batch, and whether they replace all rows that the sink has."""

    rows: pa.Table
    replace: bool


def without_truncated(rows: pa.Table, file: Path, batch: int) -> MirrorRows:
    """Return the rows of a batch, those from before the newest truncation marked as deleted.

    ``file`` stores the newest truncation; it is updated if the batch has a newer one.
    """
    known = read_state(file, Truncation) if file.exists() else None
    newest = pc.max(rows.column(TRUNCATED)).as_py()
    if newest is not None and (known is None or newest > known.position):
        known = Truncation(newest, batch)
        write_state(file, msgspec.json.encode(known))
    left = rows.filter(pc.is_null(rows.column(TRUNCATED)))
    if known is not None:
        is_before = pc.less_equal(left.column(CHANGED_AT), known.position)
        gone = pc.or_(left.column(DELETED), is_before)
        left = left.set_column(left.column_names.index(DELETED), DELETED, gone)
    replace = known is not None and known.batch == batch
    return MirrorRows(left.drop_columns([TRUNCATED, CHANGED_AT]), replace)

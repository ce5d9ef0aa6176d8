"""The interface of sinks: each writes a batch once, however often ``write`` is called with it.

A batch is identified by its ``Mark``. Spark runs a batch again after a crash, with the same number
and the same input; a sink that finds the mark committed does nothing. Batch numbers begin again
with every checkpoint, so a mark also names the checkpoint.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


DELETED = "__deleted"
"""Column of rows that ``apply_changes`` makes: whether the row of this key is to be deleted. It is
not stored; sinks with a key know it.
"""

TRUNCATED, CHANGED_AT = "__truncated", "__changed_at"
"""More columns of such rows, which no sink gets: where the table was truncated (in a row without
key), and the position of the change that made the row.
"""
INTERNAL = frozenset((DELETED, TRUNCATED, CHANGED_AT))


class Mark(msgspec.Struct, frozen=True):
    """Identifies a batch: a sink stores it with the rows and skips batches whose mark it has."""

    pipeline: str
    """The pipeline, the table and its checkpoint."""
    batch: int
    """The batch's number in the checkpoint."""
    replace: bool = False
    """Whether the batch replaces all rows, as the database table was truncated."""


class Sink(Protocol):
    """Where the rows of one table are written to."""

    @property
    def key(self) -> tuple[str, ...]:
        """The key columns: rows with equal keys replace one another; empty if append-only."""

    @property
    def place(self) -> str:
        """The location of the rows, for messages."""

    def check(self, columns: "StructType") -> None:
        """Raise InvalidDefinition if the sink cannot store rows with these columns.

        ``columns`` does not include the internal column ``DELETED``.
        """

    def write(self, rows: "DataFrame", mark: Mark) -> bool:
        """Commit the rows and the mark together, or nothing.

        Returns False without reading the rows if the mark was committed before. Otherwise reads all
        rows, because Spark creates the state for the next batch while they are read. A row whose
        column ``DELETED`` is true deletes the stored row with its key.

        Sinks with a key must read the rows by ``collecting.collected``, because for a mirrored
        table they are not a DataFrame but ``CollectedRows``.
        """

    def read(self) -> "pa.Table | None":
        """Return all rows; None if nothing was ever written, or if rows cannot be read back."""

    def beside(self, name: str) -> "Sink":
        """Return a sink of the same kind for a copy of the table; ``name`` is part of its place."""

    def swap(self, name: str) -> None:
        """Replace the table by its copy called ``name``; may be repeated after a crash."""


def columns_of(given: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return column names as a tuple: one name, several, or none."""
    if given is None:
        return ()
    return (given,) if isinstance(given, str) else tuple(given)

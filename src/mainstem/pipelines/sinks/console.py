"""Prints rows to the terminal, for debugging only: a batch may be printed twice.

The sink stores nothing, so after a restart it does not know which batches it has printed.
"""

import sys
from typing import TYPE_CHECKING

import msgspec

from mainstem.pipelines.sinks.port import Mark, Sink

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


class ConsoleSink(msgspec.Struct, frozen=True):
    """A sink that prints the first rows of every batch as JSON lines."""

    rows: int = 20

    @property
    def key(self) -> tuple[str, ...]:
        """Empty: rows are never replaced."""
        return ()

    @property
    def place(self) -> str:
        """The name of this sink in messages."""
        return "console"

    def check(self, columns: "StructType") -> None:
        """Accept any columns."""

    def write(self, rows: "DataFrame", mark: Mark) -> bool:
        """Print the first rows of a batch."""
        from pyspark.sql import functions as F  # noqa: N812, PLC0415 - Spark's own custom

        lines = rows.select(F.to_json(F.struct("*")), F.monotonically_increasing_id().alias("nr"))
        # ``limit`` alone would not run all tasks, so these would create no state; sorting reads all
        # rows.
        first = lines.orderBy("nr").limit(self.rows).collect()
        sys.stdout.write("".join(f"{line[0]}\n" for line in first))
        sys.stdout.flush()
        return True

    def read(self) -> "pa.Table | None":
        """Return None, because printed rows cannot be read back."""
        return None

    def beside(self, name: str) -> Sink:
        """Return the sink itself: there is only one console."""
        return self

    def swap(self, name: str) -> None:
        """Do nothing, as printed rows cannot be replaced."""

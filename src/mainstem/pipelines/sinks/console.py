"""Prints rows to the terminal, for debugging; nothing is committed, so a batch may come twice."""

import sys
from typing import TYPE_CHECKING

import msgspec

from mainstem.pipelines.sinks.port import Mark, Sink

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


class ConsoleSink(msgspec.Struct, frozen=True):
    """Prints the first rows of every batch as JSON lines."""

    rows: int = 20

    @property
    def key(self) -> tuple[str, ...]:
        """Rows are never replaced."""
        return ()

    @property
    def place(self) -> str:
        """Return the table's location for display."""
        return "console"

    def check(self, columns: "StructType") -> None:
        """Everything can be printed."""

    def write(self, rows: "DataFrame", mark: Mark) -> bool:
        """Print the first rows of a batch."""
        from pyspark.sql import functions as F  # noqa: N812, PLC0415 - Spark's own custom

        lines = rows.select(F.to_json(F.struct("*")), F.monotonically_increasing_id().alias("nr"))
        # Sorted because a bare limit would skip tasks, and with them their state.
        first = lines.orderBy("nr").limit(self.rows).collect()
        sys.stdout.write("".join(f"{line[0]}\n" for line in first))
        sys.stdout.flush()
        return True

    def read(self) -> "pa.Table | None":
        """Return None: printed rows cannot be read."""
        return None

    def beside(self, name: str) -> Sink:
        """Return the console: there is only one."""
        return self

    def swap(self, name: str) -> None:
        """Do nothing."""

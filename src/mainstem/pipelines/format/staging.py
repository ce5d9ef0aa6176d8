"""Passes rows from tasks to the driver: in the commit message, or in a file if they are many.

A transaction has one producer. So for all rows of a batch to become visible at once, the driver
writes the rows of all tasks.
"""

import tempfile
import uuid
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

from mainstem.core.errors import MainstemError

INLINE_BYTES = 4 << 20
"""Maximum size in bytes of the rows in a task's commit message: Spark's driver holds the messages
of all tasks.
"""


class LostRows(MainstemError):
    """Raised when the driver cannot read the rows that a task staged."""


class Staged(WriterCommitMessage):
    """A task's commit message: its rows, or the path of the file that has them, and the run id."""

    def __init__(self, rows: int, data: bytes, path: str | None, run: str = "") -> None:
        self.rows, self.data, self.path, self.run = rows, data, path, run

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the staged rows; raises LostRows if their file cannot be read here."""
        if self.path is None:
            if self.rows:
                yield from pa.ipc.open_stream(self.data)
            return
        try:
            source = pa.memory_map(self.path)
        except OSError as error:
            raise LostRows(
                f"a task put {self.rows} rows into {self.path}, and the driver cannot read that "
                f"({error}): set stagingLocation to a directory that all machines share, or "
                "parallel to true"
            ) from None
        with source:
            yield from pa.ipc.open_stream(source)

    def drop(self) -> None:
        """Delete the file of the staged rows, if there is one."""
        if self.path is not None:
            with suppress(OSError):
                Path(self.path).unlink()


def default_location() -> str:
    """Return the default staging directory."""
    return str(Path(tempfile.gettempdir()) / "mainstem-staging")


def stage(
    batches: Iterable[pa.RecordBatch],
    location: str,
    run: str = "",
    inline_bytes: int = INLINE_BYTES,
) -> Staged:
    """Stage the rows of a task: in memory up to ``inline_bytes``, else in a file."""
    rows, size, parts, path = 0, 0, list[pa.Buffer](), None
    file = None
    try:
        for batch in batches:
            if not rows:
                parts.append(batch.schema.serialize())
            rows += batch.num_rows
            parts.append(batch.serialize())
            size += parts[-1].size
            if path is None and size > inline_bytes:
                path = _new_path(location)
                file = path.open("xb")
            if file is not None:
                file.writelines(parts)
                parts.clear()
    finally:
        if file is not None:
            file.close()
    return Staged(rows, b"".join(parts), str(path) if path else None, run)


def _new_path(location: str) -> Path:
    folder = Path(location.removeprefix("file://"))
    # Readable only by this user.
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder / f"{uuid.uuid4().hex}.arrow"

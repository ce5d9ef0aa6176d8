"""Rows in Parquet files, and a manifest for each batch that says which files belong to it.

How this works: Spark writes the files of a batch into a hidden directory. The sink moves them
beside the others, under names made of the mark, then writes the manifest and renames it into
``_manifest``. That rename is the commit: readers take only files that manifests name. If a crash
leaves files without a manifest, they are deleted when the batch is written again. ``_manifest`` and
hidden directories are ignored by everything that reads directories of Parquet.
"""

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from mainstem.pipelines.errors import InvalidDefinition
from mainstem.pipelines.sinks.directories import adopt, is_local
from mainstem.pipelines.sinks.port import Mark, Sink

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

MANIFESTS = "_manifest"
SCHEMA = "schema"
"""Name of a Parquet file without rows, beside the manifests, that stores the columns."""


class Manifest(msgspec.Struct, frozen=True):
    """The list of the files of one batch."""

    pipeline: str
    batch: int
    sequence: int
    """Position of the batch among all batches of the directory, so that they can be streamed."""
    files: list[str]
    rows: int


class ParquetSink(msgspec.Struct, frozen=True):
    """An append-only directory of Parquet files."""

    path: str

    @property
    def key(self) -> tuple[str, ...]:
        """Empty: rows are never replaced."""
        return ()

    @property
    def place(self) -> str:
        """The kind and path of the directory, for messages."""
        return f"Parquet directory {self.path}"

    def check(self, columns: "StructType") -> None:
        """Create the directory if needed; raise InvalidDefinition if its columns differ."""
        import pyarrow.parquet as pq  # noqa: PLC0415 - slow to load

        from mainstem.pipelines.sinks.collecting import arrow_columns, described  # noqa: PLC0415

        if not is_local(self.path):
            raise InvalidDefinition(f"{self.place}: only directories of a file system can be used")
        wanted = arrow_columns(columns)
        schema = Path(self.path, MANIFESTS, SCHEMA)
        if not schema.exists():
            schema.parent.mkdir(parents=True, exist_ok=True)
            draft = schema.with_name(f".{SCHEMA}")
            pq.write_table(wanted.empty_table(), draft)
            draft.rename(schema)
        found = pq.read_schema(schema)
        if not found.equals(wanted):
            raise InvalidDefinition(
                f"{self.place} has the columns {described(found)}, but the definition gives "
                f"{described(wanted)}; replay into a new directory (--replay --into NAME) and swap"
            )

    def write(self, rows: "DataFrame", mark: Mark) -> bool:
        """Write the files of a batch, then the manifest that commits them."""
        # Absolute, as Spark's JVM may have another working directory.
        root = Path(self.path).resolve()
        stem = f"{mark.pipeline}-{mark.batch:010}"
        manifest = root / MANIFESTS / f"{stem}.json"
        if manifest.exists():
            return False
        for left in (*root.glob(f"{stem}-*.parquet"), root / f".{stem}"):
            shutil.rmtree(left) if left.is_dir() else left.unlink(missing_ok=True)
        rows.write.parquet(str(root / f".{stem}"))
        files, count = self._moved(root / f".{stem}", stem)
        if not count:
            return True
        sequence = 1 + sum(1 for _ in (root / MANIFESTS).glob("*.json"))
        document = Manifest(mark.pipeline, mark.batch, sequence, files, count)
        _commit(manifest, msgspec.json.encode(document))
        return True

    def _moved(self, staging: Path, stem: str) -> tuple[list[str], int]:
        import pyarrow.parquet as pq  # noqa: PLC0415 - slow to load

        files, count = [], 0
        for number, part in enumerate(sorted(staging.glob("part-*.parquet"))):
            rows = pq.read_metadata(part).num_rows
            if rows:
                name = f"{stem}-{number:04}.parquet"
                _sync(part)
                part.rename(staging.parent / name)
                files.append(name)
                count += rows
        shutil.rmtree(staging)
        return files, count

    def read(self) -> "pa.Table | None":
        """Return the rows of all batches that have a manifest."""
        import pyarrow as pa  # noqa: PLC0415 - slow to load
        import pyarrow.parquet as pq  # noqa: PLC0415

        root = Path(self.path)
        schema = root / MANIFESTS / SCHEMA
        if not schema.exists():
            return None
        columns = pq.read_schema(schema)
        files = [root / name for each in manifests(root) for name in each.files]
        tables = (
            # For files that earlier versions wrote with timestamps as INT96.
            pq.read_table(file, coerce_int96_timestamp_unit="us").cast(columns)
            for file in files
        )
        return pa.concat_tables([columns.empty_table(), *tables])

    def beside(self, name: str) -> Sink:
        """Return the sink of a copy, a directory next to this one."""
        return msgspec.structs.replace(self, path=f"{self.path}.{name}")

    def swap(self, name: str) -> None:
        """Replace this directory by the copy; the old one is kept as ``.before-NAME``."""
        adopt(Path(self.path), name)


def manifests(root: Path) -> list[Manifest]:
    """Return the committed batches in the order in which they were committed."""
    found = [
        msgspec.json.decode(file.read_bytes(), type=Manifest)
        for file in (root / MANIFESTS).glob("*.json")
    ]
    return sorted(found, key=lambda each: each.sequence)


def _commit(file: Path, data: bytes) -> None:
    draft = file.with_suffix(".draft")
    with draft.open("wb") as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())
    draft.rename(file)
    _sync(file.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

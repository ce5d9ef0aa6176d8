"""Rows in a Delta table, written by the package deltalake; the mark is part of Delta's commit."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from mainstem.pipelines.errors import InvalidDefinition
from mainstem.pipelines.sinks.directories import adopt, is_local, linked_copy
from mainstem.pipelines.sinks.port import DELETED, Mark, Sink

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import CommitProperties, DeltaTable, Schema, Transaction
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


class _Txn(msgspec.Struct):
    appId: str  # noqa: N815 - Delta's name
    version: int


class _Action(msgspec.Struct):
    """A line of the Delta table's transaction log."""

    txn: _Txn | None = None


class DeltaSink(msgspec.Struct, frozen=True):
    """A Delta table: rows are appended, or replace the rows with the same key."""

    path: str
    key: tuple[str, ...] = ()
    latest: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """The kind and path of the table, for messages."""
        return f"Delta table {self.path}"

    def check(self, columns: "StructType") -> None:
        """Create the table if it does not exist; raise InvalidDefinition if its columns differ."""
        from deltalake import DeltaTable, Schema  # noqa: PLC0415 - slow to load

        from mainstem.pipelines.sinks.collecting import (  # noqa: PLC0415
            arrow_columns,
            check_columns,
        )

        check_columns(columns, self.key, self.latest, self.place)
        wanted = Schema.from_arrow(arrow_columns(columns))
        if not DeltaTable.is_deltatable(self.path):
            DeltaTable.create(self.path, wanted)
            return
        found = DeltaTable(self.path).schema()
        if found != wanted:
            raise InvalidDefinition(
                f"{self.place} has the columns {_fields(found)}, but the definition gives "
                f"{_fields(wanted)}; replay into a new table (--replay --into NAME) and swap"
            )

    def write(self, rows: "DataFrame", mark: Mark) -> bool:
        """Commit the rows and the mark in one version of the table."""
        from deltalake import (  # noqa: PLC0415 - slow to load
            CommitProperties,
            DeltaTable,
            Transaction,
            write_deltalake,
        )

        from mainstem.pipelines.sinks.collecting import collected, split  # noqa: PLC0415

        table = DeltaTable(self.path)
        written = table.transaction_version(mark.pipeline)
        if written is not None and written >= mark.batch:
            return False
        data = collected(rows, self.key, self.latest)
        if not data.num_rows and not mark.replace:
            return True
        commit = CommitProperties(app_transactions=[Transaction(mark.pipeline, mark.batch)])
        if mark.replace:
            rows = split(data).stored
            write_deltalake(table, rows, mode="overwrite", commit_properties=commit)
        elif self.key:
            self._merge(table, data, commit)
        else:
            write_deltalake(table, data, mode="append", commit_properties=commit)
        return True

    def _merge(self, table: "DeltaTable", data: "pa.Table", commit: "CommitProperties") -> None:
        from mainstem.pipelines.sinks.collecting import enumerated  # noqa: PLC0415

        def both(path: str, sign: str) -> str:
            quoted = ".".join(f"`{part}`" for part in path.split("."))
            return f"n.{quoted} {sign} o.{quoted}"

        paths = [path for path, _ in enumerated(data, self.key)]
        newer = [path for path, _ in enumerated(data, self.latest)]
        merging = table.merge(
            source=data,
            predicate=" AND ".join(both(path, "=") for path in paths),
            source_alias="n",
            target_alias="o",
            commit_properties=commit,
        )
        deletes = DELETED in data.column_names
        if deletes:
            merging = merging.when_matched_delete(predicate=f"n.{DELETED}")
        stored = {f"`{name}`": f"n.`{name}`" for name in data.column_names if name != DELETED}
        merging.when_matched_update(
            stored, predicate=_greater(newer, both) if newer else None
        ).when_not_matched_insert(
            stored, predicate=f"NOT n.{DELETED}" if deletes else None
        ).execute()

    def read(self) -> "pa.Table | None":
        """Return all rows of the newest version."""
        from deltalake import DeltaTable  # noqa: PLC0415 - slow to load

        if not DeltaTable.is_deltatable(self.path):
            return None
        return DeltaTable(self.path).to_pyarrow_table()

    def beside(self, name: str) -> Sink:
        """Return the sink of a copy, a Delta table next to this one."""
        return msgspec.structs.replace(self, path=f"{self.path}.{name}")

    def swap(self, name: str) -> None:
        """Replace this table by the copy; the old table is kept as ``.before-NAME``.

        A table with a key gets the rows of the copy as one more version, so readers see either the
        old rows or the new ones. A table without a key may be read by another table of the
        pipeline, version after version, so it must have the copy's versions: the directories are
        exchanged.
        """
        if not is_local(self.path):
            raise InvalidDefinition(f"{self.place} is not on this machine's disk: swap it yourself")
        path, copy = Path(self.path), Path(f"{self.path}.{name}")
        if not self.key or not path.exists():
            adopt(path, name)
        elif copy.exists():
            self._overwrite(path, copy, path.with_name(f"{path.name}.before-{name}"))

    def _overwrite(self, path: Path, copy: Path, kept: Path) -> None:
        """Write a version with the rows and marks of the copy; may be repeated after a crash."""
        import pyarrow as pa  # noqa: PLC0415 - slow to load
        from deltalake import CommitProperties, DeltaTable, write_deltalake  # noqa: PLC0415

        if not kept.exists():
            linked_copy(path, kept)
        rows = DeltaTable(str(copy)).to_pyarrow_dataset()
        write_deltalake(
            str(path),
            pa.RecordBatchReader.from_batches(rows.schema, rows.to_batches()),
            mode="overwrite",
            schema_mode="overwrite",
            commit_properties=CommitProperties(app_transactions=_transactions(copy)),
        )
        gone = copy.with_name(f".{copy.name}")
        shutil.rmtree(gone, ignore_errors=True)
        copy.rename(gone)
        shutil.rmtree(gone)


def _transactions(path: Path) -> "list[Transaction]":
    """Return the newest mark of each checkpoint, from the table's transaction log."""
    import pyarrow.parquet as pq  # noqa: PLC0415 - slow to load
    from deltalake import Transaction  # noqa: PLC0415

    log = path / "_delta_log"
    found: dict[str, int] = {}
    for file in sorted(log.glob("*.checkpoint.parquet")):
        for each in pq.read_table(file, columns=["txn"]).column("txn").to_pylist():
            if each is not None:
                found[each["appId"]] = max(each["version"], found.get(each["appId"], -1))
    for file in sorted(log.glob("*.json")):
        for line in file.read_bytes().splitlines():
            if (each := msgspec.json.decode(line, type=_Action).txn) is not None:
                found[each.appId] = max(each.version, found.get(each.appId, -1))
    return [Transaction(name, version) for name, version in found.items()]


def _fields(schema: "Schema") -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema.fields)


def _greater(paths: list[str], both: Callable[[str, str], str]) -> str:
    """Return an SQL condition that compares columns as tuples are compared, the first one first."""
    choices = []
    for number, path in enumerate(paths):
        same = [both(each, "=") for each in paths[:number]]
        choices.append(f"({' AND '.join([*same, both(path, '>')])})")
    return " OR ".join(choices)

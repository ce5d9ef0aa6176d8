"""Finds a pipeline's table by name and returns its rows, for SQL queries."""

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from mainstem.pipelines.errors import UnreadableTable
from mainstem.pipelines.sinks.stored_tables import sink_at
from mainstem.pipelines.state.table_state import TableStatus, table_statuses

if TYPE_CHECKING:
    import pyarrow as pa


class StoredTable(NamedTuple):
    """A table of a pipeline that has run, by name, with its status."""

    name: str
    """PIPELINE.TABLE."""
    status: TableStatus


def stored_table(state: Path, name: str) -> StoredTable | None:
    """Return the table called TABLE or PIPELINE.TABLE, ignoring case; None if there is none.

    Raises UnreadableTable if several have that name.
    """
    wanted = name.lower()
    found = [
        StoredTable(f"{pipeline}.{table}", status)
        for pipeline, table, status in table_statuses(state)
        if wanted in (table.lower(), f"{pipeline}.{table}".lower())
    ]
    if len(found) > 1:
        names = " or ".join(sorted(each.name for each in found))
        raise UnreadableTable(f"{name} could be {names}: write one of these")
    return found[0] if found else None


def stored_rows(state: Path, name: str) -> "pa.Table | None":
    """Return the rows of a table as they are now; None if there is no such table.

    Raises UnreadableTable if several tables have that name, or the rows are not in a Delta, Parquet
    or SQLite table.
    """
    if (table := stored_table(state, name)) is None:
        return None
    sink = sink_at(table.status.sink)
    rows = None if sink is None else sink.read()
    if rows is None:
        raise UnreadableTable(
            f"{table.name} is kept in {table.status.sink or 'an unknown place'}, and its rows "
            "cannot be read from here: queries read Delta, Parquet and SQLite"
        )
    return rows

"""Collects the rows of a batch on the driver as an Arrow table, one row for each key.

The rows fit into memory because the source's read limits bound the size of a batch.
"""

from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from mainstem.pipelines.errors import InvalidDefinition, PipelineFailed
from mainstem.pipelines.sinks.port import DELETED


class CollectedRows(NamedTuple):
    """Rows of ``apply_changes`` that the batch writer has collected, one for each key."""

    data: pa.Table


def collected(
    rows: "DataFrame | CollectedRows", key: tuple[str, ...] = (), latest: tuple[str, ...] = ()
) -> pa.Table:
    """Return the rows of a batch; raises PipelineFailed if two have the same key.

    With ``latest``, only the row with the greatest values in these columns is kept for each key.
    """
    data = rows.data if isinstance(rows, CollectedRows) else _collected(rows, key, latest)
    data = data.cast(_nullable(data.schema))
    if key and data.num_rows:
        _check_keys(data, key)
    return data


def _collected(rows: DataFrame, key: tuple[str, ...], latest: tuple[str, ...]) -> pa.Table:
    if key and latest:
        from pyspark.sql import functions as F  # noqa: N812, PLC0415 - Spark's own custom

        whole = F.struct(*(F.col(f"`{name}`") for name in rows.columns))
        order = F.struct(*(F.col(f"`{name}`") for name in latest))
        rows = (
            rows.groupBy(*(F.col(f"`{name}`") for name in key))
            .agg(F.max_by(whole, order).alias("__row"))
            .select("__row.*")
        )
    return rows.toArrow()


class KeyedRows(NamedTuple):
    """The rows of a batch for a sink with a key: those to store, and those to delete."""

    stored: pa.Table
    deleted: pa.Table


def split(data: pa.Table) -> KeyedRows:
    """Divide collected rows by the column ``DELETED``, and remove that column."""
    if DELETED not in data.column_names:
        return KeyedRows(data, data.slice(0, 0))
    gone, rows = data.column(DELETED), data.drop_columns([DELETED])
    return KeyedRows(rows.filter(pc.invert(gone)), rows.filter(gone))


def _check_keys(data: pa.Table, key: tuple[str, ...]) -> None:
    for name in key:
        if data.column(name).null_count:
            raise PipelineFailed(
                f"{data.column(name).null_count} rows have no value in the key column {name!r}; "
                "filter them out, or fill the column"
            )
    # Arrow cannot group by struct columns, such as Spark's windows, only by their fields.
    flat = pa.table(dict(enumerated(data, key)))
    distinct = flat.group_by(flat.column_names).aggregate([]).num_rows
    if distinct < data.num_rows:
        raise PipelineFailed(
            f"{data.num_rows - distinct} rows of one batch share their key ({', '.join(key)}), and "
            "it is not known which one counts; aggregate by the key, or name the columns that "
            "order the rows: latest='at'"
        )


def enumerated(data: pa.Table, names: tuple[str, ...]) -> list[tuple[str, pa.ChunkedArray]]:
    """Return the columns ``names``; for a struct its fields, with names as ``minute.start``."""
    found: list[tuple[str, pa.ChunkedArray]] = []
    for name in names:
        found += _leaves(name, data.column(name))
    return found


def _leaves(path: str, column: pa.ChunkedArray) -> list[tuple[str, pa.ChunkedArray]]:
    if not pa.types.is_struct(column.type):
        return [(path, column)]
    found = []
    for number in range(column.type.num_fields):
        field = column.type.field(number).name
        found += _leaves(f"{path}.{field}", pc.struct_field(column, number))
    return found


def arrow_columns(columns: StructType) -> pa.Schema:
    """Return the columns' Arrow schema; all are nullable, as later rows may have nulls."""
    return _nullable(to_arrow_schema(columns, timezone="UTC"))


def described(schema: pa.Schema) -> str:
    """Return a schema's columns as text for a message."""
    return ", ".join(f"{field.name} {field.type}" for field in schema)


def _nullable(schema: pa.Schema) -> pa.Schema:
    return pa.schema([_nullable_field(field) for field in schema])


def _nullable_field(field: pa.Field) -> pa.Field:
    kind = field.type
    if pa.types.is_struct(kind):
        inner = [_nullable_field(kind.field(number)) for number in range(kind.num_fields)]
        kind = pa.struct(inner)
    elif pa.types.is_list(kind):
        kind = pa.list_(_nullable_field(kind.value_field))
    return pa.field(field.name, kind, nullable=True)


def check_columns(
    columns: StructType, key: tuple[str, ...], latest: tuple[str, ...], place: str
) -> None:
    """Raise InvalidDefinition if a ``key`` or ``latest`` column, or ``key`` itself, is missing."""
    names = columns.fieldNames()
    for name in (*key, *latest):
        if name not in names:
            raise InvalidDefinition(
                f"{place} needs a column {name!r}, but the table has {', '.join(names)}"
            )
    if latest and not key:
        raise InvalidDefinition(f"{place}: latest= chooses between rows of one key; say key=, too")

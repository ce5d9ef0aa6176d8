"""SQL statements common to SQLite and PostgreSQL, and values as text."""

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

import msgspec

from mainstem.pipelines.errors import InvalidDefinition

if TYPE_CHECKING:
    import pyarrow as pa

MARKS = (
    "CREATE TABLE IF NOT EXISTS _mainstem_batches "
    "(pipeline TEXT PRIMARY KEY, batch BIGINT NOT NULL)"
)
"""Statement that creates the table of marks: last committed batch of each pipeline."""


def mark_with(placeholder: str) -> str:
    """Return the statement that stores the mark of a batch."""
    return (
        f"INSERT INTO _mainstem_batches VALUES ({placeholder}, {placeholder}) "
        "ON CONFLICT (pipeline) DO UPDATE SET batch = excluded.batch"
    )


def check_types(place: str, found: Mapping[str, str], wanted: Mapping[str, str]) -> None:
    """Raise InvalidDefinition if a table's columns are not those of the definition."""
    if found != wanted:
        raise InvalidDefinition(
            f"{place} has the columns {found}, but the definition gives {wanted}; "
            "replay into a new table (--replay --into NAME) and swap"
        )


def table_of(names: Sequence[str], rows: Sequence[Sequence[object]]) -> "pa.Table":
    """Return rows as an Arrow table."""
    import pyarrow as pa  # noqa: PLC0415 - slow to load

    columns = list(zip(*rows, strict=True)) or [() for _ in names]
    return pa.table({name: pa.array(column) for name, column in zip(names, columns, strict=True)})


class Statements(msgspec.Struct, frozen=True):
    """The SQL statements for one table."""

    table: str
    columns: tuple[str, ...]
    key: tuple[str, ...] = ()
    latest: tuple[str, ...] = ()

    def create(self, types: Mapping[str, str]) -> str:
        """Return the statement that creates the table if it does not exist."""
        lines = [f"{quoted(name)} {kind}" for name, kind in types.items()]
        if self.key:
            lines.append(f"PRIMARY KEY ({_listed(self.key)})")
        return f"CREATE TABLE IF NOT EXISTS {quoted(self.table)} ({', '.join(lines)})"

    def insert(self, placeholder: str) -> str:
        """Return the statement that adds a row, or replaces the row with the same key."""
        values = ", ".join([placeholder] * len(self.columns))
        text = f"INSERT INTO {quoted(self.table)} ({_listed(self.columns)}) VALUES ({values})"
        if not self.key:
            return text
        others = [name for name in self.columns if name not in self.key]
        if not others:
            return f"{text} ON CONFLICT ({_listed(self.key)}) DO NOTHING"
        assigned = ", ".join(f"{quoted(name)} = excluded.{quoted(name)}" for name in others)
        text += f" ON CONFLICT ({_listed(self.key)}) DO UPDATE SET {assigned}"
        if not self.latest:
            return text
        new = ", ".join(f"excluded.{quoted(name)}" for name in self.latest)
        old = ", ".join(f"{quoted(self.table)}.{quoted(name)}" for name in self.latest)
        return f"{text} WHERE ({new}) > ({old})"

    def delete(self, placeholder: str) -> str:
        """Return the statement that deletes the row with a key."""
        wanted = " AND ".join(f"{quoted(name)} = {placeholder}" for name in self.key)
        return f"DELETE FROM {quoted(self.table)} WHERE {wanted}"


def quoted(name: str) -> str:
    """Return an identifier in quotes, with any content escaped."""
    return '"' + name.replace('"', '""') + '"'


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(map(quoted, names))


def text_of(value: object) -> str:
    """Return a value as text that sorts and compares like the value; a nested value as JSON."""
    if isinstance(value, datetime):
        # A fixed width, so that text sorts by time.
        return (value.astimezone(UTC) if value.tzinfo else value).isoformat(
            sep=" ", timespec="microseconds"
        )
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return format(value, "f")
    return msgspec.json.encode(_plain(value)).decode()


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, (datetime, date, Decimal)):
        return text_of(value)
    return value

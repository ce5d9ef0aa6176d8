"""Compares the tables of ``apply_changes`` with the database tables that they follow.

How this works: both sides are read completely, the database in one snapshot, and compared by key.
Sinks keep some values as text, so values are compared by the database's column type. While the
database changes, a table is a moment behind: rows that differ are read again from both sides, until
each of them was found equal once, or the time to wait is over.
"""

import struct
import time
from base64 import b64decode
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import NamedTuple

import msgspec

from mainstem.pipelines.definitions.apply_changes import POSITION
from mainstem.pipelines.definitions.table import Pipeline, Table
from mainstem.pipelines.errors import RunRefused
from mainstem.pipelines.running.source_rows import Row, database_rows
from mainstem.pipelines.sinks.statements import text_of

Key = tuple[object, ...]

_SHOWN = 5
_PAUSE_S = 0.5
_HISTORY = frozenset(("valid_from", "valid_to", POSITION))


class SourceDifference(msgspec.Struct, frozen=True):
    """How a table differs from the database table that it follows."""

    table: str
    rows: int
    """Number of rows in the database."""
    different: int
    """Number of keys whose rows differ."""
    missing: int
    """Number of keys that only the database has."""
    extra: int
    """Number of rows with keys that the database does not have, or that are there twice."""
    examples: list[str]
    """Some rows that only the table has ("-") or only the database ("+")."""

    @property
    def equal(self) -> bool:
        """Whether the table equals that of the database."""
        return not (self.different or self.missing or self.extra)


class _Sides(NamedTuple):
    """The rows of a pipeline's table and of the database, by key; equal values compare as equal."""

    stored: dict[Key, Row]
    twice: Counter[Key]
    database: dict[Key, Row]

    def differing(self, keys: Iterable[Key] | None = None) -> set[Key]:
        known = self.stored.keys() | self.database.keys() if keys is None else keys
        return {
            key
            for key in known
            if self.stored.get(key) != self.database.get(key) or key in self.twice
        }


def compare_with_source(
    pipeline: Pipeline, database: str, into: str | None = None, wait_s: float = 0.0
) -> list[SourceDifference]:
    """Return how each table of ``apply_changes`` (or its copy) differs from the database's.

    ``database`` is the URL of a PostgreSQL, MariaDB, MySQL or SQLite database. Rows that differ are
    compared again for ``wait_s`` seconds, as a change may still be on its way.
    """
    following = [each for each in pipeline.tables if each.scd]
    if not following:
        raise RunRefused(
            f"no table of {pipeline.name!r} is made by apply_changes, so none has a table in a "
            "database to be compared with"
        )
    return [_compared(each, database, into, wait_s) for each in following]


def _compared(table: Table, database: str, into: str | None, wait_s: float) -> SourceDifference:
    until = time.monotonic() + wait_s
    sides = _read(table, database, into)
    differing = sides.differing()
    while differing and time.monotonic() < until:
        time.sleep(_PAUSE_S)
        sides = _read(table, database, into)
        differing = sides.differing(differing)
    stored, there = sides.stored, sides.database
    ordered = sorted(differing, key=text_of)
    examples = [f"- {text_of(stored[key])}" for key in ordered[:_SHOWN] if key in stored]
    examples += [f"+ {text_of(there[key])}" for key in ordered[:_SHOWN] if key in there]
    return SourceDifference(
        table=f"{table.name}.{into}" if into else table.name,
        rows=len(there),
        different=sum(
            stored[key] != there[key] for key in differing & stored.keys() & there.keys()
        ),
        missing=len(differing & there.keys() - stored.keys()),
        extra=len(differing & stored.keys() - there.keys())
        + sum(sides.twice[key] for key in differing),
        examples=examples,
    )


def _read(table: Table, database: str, into: str | None) -> _Sides:
    sink = table.sink.beside(into) if into else table.sink
    # The pipeline's table is read first: a change that it has, the database has, too.
    found = sink.read()
    if found is None:
        raise RunRefused(f"{sink.place} was never written, or cannot be read; run the pipeline")
    rows: list[Row] = found.to_pylist()
    key = table.sink.key if table.scd == 1 else table.sink.key[:-1]
    names = found.column_names or list(key)
    if table.scd == 2:
        rows = [row for row in rows if row["valid_to"] is None]
        names = [each for each in names if each not in _HISTORY]
    types, there = database_rows(table.sources[0].name, names, database)

    def known(row: Row) -> tuple[Key, Row]:
        comparable = {name: _comparable(types[name], row.get(name)) for name in names}
        return tuple(comparable[name] for name in key), comparable

    stored: dict[Key, Row] = {}
    twice: Counter[Key] = Counter()
    for at, row in map(known, rows):
        if at in stored:
            twice[at] += 1
        stored[at] = row
    return _Sides(stored, twice, dict(map(known, there)))


# Values


def _comparable(kind: str, value: object) -> object:
    """Convert a value of the table or the database to a form that is the same for the same values.

    ``kind`` is the database's column type.
    """
    if value is None:
        return None
    read = _READ.get(kind, _text)
    try:
        return read(value)
    except (ValueError, ArithmeticError, TypeError):
        # No valid value of this type, so its text equals no other value.
        return str(value)


def _text(value: object) -> str:
    return value if isinstance(value, str) else text_of(value)


def _number(value: object) -> object:
    found = Decimal(str(value))
    return "NaN" if found.is_nan() else found


def _float(value: object) -> object:
    found = float(str(value))
    return "NaN" if found != found else found  # noqa: PLR0124 - only NaN differs from itself


def _moment(value: object) -> datetime:
    if isinstance(value, int):
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=value)
    found = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)


def _date(value: object) -> date:
    if isinstance(value, int):
        return date(1970, 1, 1) + timedelta(days=value)
    return value if isinstance(value, date) else date.fromisoformat(str(value))


def _integer(value: object) -> object:
    return _number(int(value) if isinstance(value, bool) else value)


def _micros(value: object) -> object:
    return value // timedelta(microseconds=1) if isinstance(value, timedelta) else int(str(value))


def _json(value: object) -> str:
    return text_of(msgspec.json.decode(value) if isinstance(value, str) else value)


def _bytes(value: object) -> bytes:
    return b64decode(value, validate=True) if isinstance(value, str) else bytes(value)  # type: ignore[call-overload]


_READ: dict[str, Callable[[object], object]] = {
    "bool": bool,
    **dict.fromkeys(("int2", "int4", "int8", "oid"), lambda value: int(str(value))),
    "numeric": _number,
    "integer": _integer,
    "micros": _micros,
    "float4": lambda value: _float(struct.unpack("f", struct.pack("f", float(str(value))))[0]),
    "float8": _float,
    **dict.fromkeys(("timestamp", "timestamptz"), _moment),
    "date": _date,
    "bytea": _bytes,
    **dict.fromkeys(("json", "jsonb"), _json),
}

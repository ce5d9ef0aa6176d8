"""The SQL of the triggers that record a table's changes.

How this works: each change is a row of the table changes: its time, which version of which table,
what was done, and the values of the row. The columns for values (``c0, c1, …``) have no type, so
that values stay as they are. They have the row after the change (of a deletion, before it), and
then, for an update, the row before. The triggers run in the programs that write, so they use only
what every version of SQLite has.

A REPLACE deletes rows that conflict with the new one, and SQLite fires no delete triggers for them.
If a deleted row has the new row's key, nothing is needed: to consumers the new row replaces it. In
tables with further unique indexes, a trigger before the change collects the other rows that may
conflict, and one after it records the deletion of those that are gone.
"""

from collections.abc import Mapping, Sequence

from mainstem.connectors.sqlite.connections import name
from mainstem.connectors.sqlite.tables import Definition

NOW = "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"
"""Milliseconds since 1970; it is of one value within a statement."""


class Names:
    """The names of the tables and triggers of one connector."""

    def __init__(self, connector: str) -> None:
        self.changes = f"_mainstem_changes_{connector}"
        self.versions = f"_mainstem_tables_{connector}"
        self.replaced = f"_mainstem_replaced_{connector}"
        self.triggers = f"_mainstem:{connector}:"

    def trigger(self, table: str, kind: str) -> str:
        """Return the name of a table's trigger of one kind."""
        return f"{self.triggers}{table}:{kind}"


def insert_into(names: Names, count: int) -> str:
    """Return the start of an INSERT statement that records a change with ``count`` values."""
    places = "".join(f", c{place}" for place in range(count))
    return f"INSERT INTO {name(names.changes)}(at, version, op{places})"


def recording(names: Names, it: Definition, version: int) -> Mapping[str, str]:
    """Return the triggers that record inserts, updates and deletes: name → SQL."""
    columns = [each.name for each in it.columns]
    new, old = _values("new", columns), _values("old", columns)
    gone = f"DELETE FROM {name(names.replaced)}; " if it.unique else ""
    made = {}
    for op, event, values, more in (
        ("c", "INSERT", new, ""),
        ("u", "UPDATE", [*new, *old], ""),
        ("d", "DELETE", old, gone),
    ):
        start = insert_into(names, len(values))
        listed = ", ".join([NOW, str(version), f"'{op}'", *values])
        made[names.trigger(it.table, op)] = (
            f"{_head(names, it, op, f'AFTER {event}')} BEGIN {more}{start} VALUES ({listed}); END"
        )
    return made


def replacing(names: Names, it: Definition, version: int) -> Mapping[str, str]:
    """Return the triggers that record rows deleted by a REPLACE: name → SQL."""
    if not it.unique:
        return {}
    identity = [*it.key] or [*it.order]
    columns, scratch, table = [each.name for each in it.columns], name(names.replaced), it.table
    kept = ", ".join(f"c{place}" for place in range(len(columns) + len(identity)))
    conflicts = " OR ".join(
        "(" + " AND ".join(f"t.{name(each)} = new.{name(each)}" for each in index) + ")"
        for index in it.unique
    )
    selected = ", ".join(f"t.{name(each)}" for each in [*columns, *identity])
    itself = " AND ".join(f"t.{name(each)} IS old.{name(each)}" for each in identity)
    there = " AND ".join(
        f"t.{name(each)} IS s.c{len(columns) + place}" for place, each in enumerate(identity)
    )
    start = insert_into(names, len(columns))
    values = ", ".join(f"s.c{place}" for place in range(len(columns)))
    made = {}
    for kind, event in (("i", "INSERT"), ("r", "UPDATE")):
        other = f" AND NOT ({itself})" if event == "UPDATE" else ""
        made[names.trigger(table, f"b{kind}")] = (
            f"{_head(names, it, f'b{kind}', f'BEFORE {event}')} BEGIN DELETE FROM {scratch}; "
            f"INSERT INTO {scratch}({kept}) SELECT {selected} FROM {name(table)} t "
            f"WHERE ({conflicts}){other}; END"
        )
        made[names.trigger(table, f"a{kind}")] = (
            f"{_head(names, it, f'a{kind}', f'AFTER {event}')} BEGIN "
            f"{start} SELECT {NOW}, {version}, 'd', {values} FROM {scratch} s "
            f"WHERE NOT EXISTS (SELECT 1 FROM {name(table)} t WHERE {there}); "
            f"DELETE FROM {scratch}; END"
        )
    return made


def _head(names: Names, it: Definition, kind: str, event: str) -> str:
    trigger = name(names.trigger(it.table, kind))
    return f"CREATE TRIGGER {trigger} {event} ON {name(it.table)}"


def _values(row: str, columns: Sequence[str]) -> list[str]:
    return [f"{row}.{name(each)}" for each in columns]

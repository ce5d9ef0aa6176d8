"""Makes an SQLite database record its changes, and adapts that when its tables change.

How this works: a connector creates triggers and three tables in the database. The triggers write
each change into the table of changes. The table of versions has the columns that a captured table
had at one time, which give the values of a change their names. The third one is used by the
triggers only (``triggers.py``). SQLite has one writer at a time, so the numbers of changes follow
the order of commits. When tables were altered, triggers and versions are adapted in one
transaction.

If a column was added, changes since then lack its values; so all rows that have a value in it are
recorded again. If triggers are missing, because the table was created anew or somebody dropped
them, changes may be missing, too: the table is recorded as truncated, and then all its rows.
"""

import secrets
import sqlite3
from collections.abc import Callable, Mapping, Sequence

import msgspec

from mainstem.connectors.errors import SourceRefused
from mainstem.connectors.port import Position
from mainstem.connectors.sqlite.connections import name, transaction
from mainstem.connectors.sqlite.tables import Captured, Definition, StoredColumn
from mainstem.connectors.sqlite.triggers import NOW, Names, insert_into, recording, replacing

_MOST_COLUMNS = 900
"""SQLite's tables have up to 2,000 columns, and an update records two rows."""
AGAIN = "take a new snapshot: mainstem connector restart NAME --snapshot"


class Recording:
    """The tables and triggers with which a database records changes for one connector."""

    def __init__(self, connection: sqlite3.Connection, connector: str, *, fits: bool) -> None:
        self._connection = connection
        self._connector = connector
        self._fits = fits
        self._versions: dict[int, Captured] = {}
        self.names = Names(connector)

    def identity(self) -> str:
        """Return the random id of this recording; empty if there is none."""
        if not self._exists(self.names.versions):
            return ""
        row = self._connection.execute(
            f"SELECT definition FROM {name(self.names.versions)} WHERE version = 0"
        ).fetchone()
        return "" if row is None else str(row[0])

    def last(self) -> Position:
        """Return the position of the last recorded change."""
        row = self._connection.execute(
            f"SELECT seq, at FROM {name(self.names.changes)} ORDER BY seq DESC LIMIT 1"
        ).fetchone()
        return Position((0, 0) if row is None else (row[0], row[1]), self.identity())

    def check(self, position: Position) -> None:
        """Raise SourceRefused if the recording does not have all changes after a position."""
        again = AGAIN.replace("NAME", self._connector)
        if self.identity() != position.of:
            raise SourceRefused(
                "the database does not hold the changes that were recorded for this connector: it "
                f"is another one, or {self.names.changes} was removed; {again}"
            )
        if position.at[0] == 0:
            return
        row = self._connection.execute(
            f"SELECT at FROM {name(self.names.changes)} WHERE seq = ?", (position.at[0],)
        ).fetchone()
        if row is None or row[0] != position.at[1]:
            raise SourceRefused(
                f"the last change that was published (number {position.at[0]}) is not in the "
                "database: it went back in time, by a restored copy, or by a power cut with "
                f"PRAGMA synchronous=NORMAL; {again}"
            )

    def captured(self, version: int) -> Captured:
        """Return the table, with its columns at the time, of changes with this version."""
        found = self._versions.get(version)
        if found is None:
            row = self._connection.execute(
                f"SELECT definition FROM {name(self.names.versions)} WHERE version = ?", (version,)
            ).fetchone()
            if row is None:
                raise SourceRefused(
                    f"{self.names.versions} has no version {version}: somebody has changed it; "
                    f"{AGAIN.replace('NAME', self._connector)}"
                )
            definition = msgspec.json.decode(row[0], type=Definition)
            found = self._versions[version] = Captured(definition, version, fits=self._fits)
        return found

    def current(self) -> dict[str, Captured]:
        """Return the newest version of each recorded table, by the table's name."""
        if not self._exists(self.names.versions):
            return {}
        rows = self._connection.execute(
            f"SELECT max(version) FROM {name(self.names.versions)} WHERE version > 0 GROUP BY name"
        ).fetchall()
        found = [self.captured(int(version)) for (version,) in rows]
        return {each.definition.table: each for each in found}

    def ensure(self, choose: Callable[[], Sequence[Definition]]) -> None:
        """From now on record the changes of exactly the tables that ``choose`` returns."""
        if not self._is_due(choose()):
            return
        with transaction(self._connection, "IMMEDIATE"):
            # Chosen again under the lock, as another program may have altered tables.
            tables = choose()
            self._make(tables)
            known, triggers = self.current(), self._triggers()
            for each in tables:
                self._update(each, known.get(each.table), triggers)
            wanted = {self.names.trigger(each.table, "c").rpartition(":")[0] for each in tables}
            for trigger in triggers:
                if trigger.rpartition(":")[0] not in wanted:
                    self._drop(trigger)

    def trim(self, position: Position, limit: int) -> None:
        """Delete at most ``limit`` changes before a position.

        The change at the position stays, so that ``check`` finds it.
        """
        changes = name(self.names.changes)
        self._connection.execute(
            f"DELETE FROM {changes} WHERE seq < min(?, (SELECT min(seq) FROM {changes}) + ?)",
            (position.at[0], limit),
        )

    def kept_bytes(self, position: Position) -> int:
        """Estimate the bytes of the changes after a position, from the first 100 of them."""
        if not self._exists(self.names.changes):
            return 0
        changes = name(self.names.changes)
        columns = self._connection.execute(f"PRAGMA table_info({changes})").fetchall()
        size = " + ".join(f"ifnull(length({row[1]}), 0)" for row in columns)
        count, average = self._connection.execute(
            f"SELECT (SELECT max(seq) FROM {changes}) - ?, (SELECT avg({size}) FROM "
            f"(SELECT * FROM {changes} WHERE seq > ? ORDER BY seq LIMIT 100))",
            (position.at[0], position.at[0]),
        ).fetchone()
        return max(0, int((count or 0) * (average or 0)))

    def remove(self) -> None:
        """Remove the triggers and tables of the recording from the database."""
        with transaction(self._connection, "IMMEDIATE"):
            for trigger in self._triggers():
                self._drop(trigger)
            for table in (self.names.changes, self.names.versions, self.names.replaced):
                self._connection.execute(f"DROP TABLE IF EXISTS {name(table)}")
        self._versions.clear()

    # One table

    def _is_due(self, tables: Sequence[Definition]) -> bool:
        """Return whether triggers or versions must be adapted, which is seldom."""
        triggers, known = self._triggers(), self.current()
        expected: dict[str, str] = {}
        for each in tables:
            found = known.get(each.table)
            if found is None or found.definition != each:
                return True
            expected |= self._all(each, found.version)
        return triggers != expected or not self.identity()

    def _all(self, it: Definition, version: int) -> Mapping[str, str]:
        return {**recording(self.names, it, version), **replacing(self.names, it, version)}

    def _update(self, it: Definition, known: Captured | None, triggers: Mapping[str, str]) -> None:
        if known is not None and known.definition == it:
            expected = self._all(it, known.version)
            if expected.items() <= triggers.items():
                return
        version = self._add_version(it)
        added = None if known is None else self._added(it, known, triggers)
        prefix = self.names.trigger(it.table, "")
        for trigger in triggers:
            if trigger.startswith(prefix) and ":" not in trigger[len(prefix) :]:
                self._drop(trigger)
        for statement in self._all(it, version).values():
            self._connection.execute(statement)
        if known is None:
            return
        self._mark("s", version)
        if added is None:
            self._mark("t", version)
            self._record_rows(it, version, "")
        elif added:
            differs = " OR ".join(
                f"{name(each.name)} IS NOT ({each.default or 'NULL'})" for each in added
            )
            self._record_rows(it, version, f" WHERE {differs}")

    def _added(
        self, it: Definition, known: Captured, triggers: Mapping[str, str]
    ) -> tuple[StoredColumn, ...] | None:
        """Return the columns that were added at the end; None if changes may be missing.

        A renamed column needs nothing here, as SQLite renames it in the triggers itself.
        """
        count = len(known.definition.columns)
        before = msgspec.structs.replace(
            it, columns=it.columns[:count], unique=known.definition.unique
        )
        expected = recording(self.names, before, known.version)
        if len(it.columns) < count or not expected.items() <= triggers.items():
            return None
        return it.columns[count:]

    def _add_version(self, it: Definition) -> int:
        if len(it.columns) > _MOST_COLUMNS:
            raise SourceRefused(
                f"table main.{it.table} has {len(it.columns)} columns, and a change can hold "
                f"{_MOST_COLUMNS}: leave the table out"
            )
        made = self._connection.execute(
            f"INSERT INTO {name(self.names.versions)}(name, definition) VALUES (?, ?)",
            (it.table, msgspec.json.encode(it).decode()),
        )
        assert made.lastrowid is not None
        return made.lastrowid

    def _mark(self, op: str, version: int) -> None:
        self._connection.execute(
            f"{insert_into(self.names, 0)} VALUES ({NOW}, ?, ?)", (version, op)
        )

    def _record_rows(self, it: Definition, version: int, where: str) -> None:
        columns = [name(each.name) for each in it.columns]
        self._connection.execute(
            f"{insert_into(self.names, len(columns))} SELECT {NOW}, {version}, 'r', "
            f"{', '.join(columns)} FROM {name(it.table)}{where}"
        )

    # The tables of the recording

    def _make(self, tables: Sequence[Definition]) -> None:
        if not self.identity():
            for trigger in self._triggers():
                self._drop(trigger)
            for each in (self.names.changes, self.names.versions, self.names.replaced):
                self._connection.execute(f"DROP TABLE IF EXISTS {name(each)}")
            self._versions.clear()
            self._connection.execute(
                f"CREATE TABLE {name(self.names.changes)} "
                "(seq INTEGER PRIMARY KEY AUTOINCREMENT, at, version, op)"
            )
            self._connection.execute(f"CREATE TABLE {name(self.names.replaced)} (c0)")
            self._connection.execute(
                f"CREATE TABLE {name(self.names.versions)} "
                "(version INTEGER PRIMARY KEY AUTOINCREMENT, name, definition)"
            )
            self._connection.execute(
                f"INSERT INTO {name(self.names.versions)} VALUES (0, '', ?)",
                (secrets.token_hex(8),),
            )
        widest = max((len(each.columns) for each in tables), default=0)
        self._widen(self.names.changes, 2 * widest, 4)
        keys = max((len(each.key or each.order) for each in tables), default=0)
        self._widen(self.names.replaced, widest + keys, 0)

    def _widen(self, table: str, count: int, others: int) -> None:
        have = len(self._connection.execute(f"PRAGMA table_info({name(table)})").fetchall())
        for place in range(have - others, count):
            self._connection.execute(f"ALTER TABLE {name(table)} ADD COLUMN c{place}")

    def _triggers(self) -> dict[str, str]:
        rows = self._connection.execute(
            "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND substr(name, 1, ?) = ?",
            (len(self.names.triggers), self.names.triggers),
        )
        return {str(row[0]): str(row[1]) for row in rows}

    def _drop(self, trigger: str) -> None:
        self._connection.execute(f"DROP TRIGGER {name(trigger)}")

    def _exists(self, table: str) -> bool:
        row = self._connection.execute(
            "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (table,)
        ).fetchone()
        return row is not None

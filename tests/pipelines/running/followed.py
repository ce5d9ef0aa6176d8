"""Databases that a connector follows: random transactions, kill -9, and what their rows ever were.

Table ``a`` is also truncated. Table ``b`` has triggers that write each version of its rows to a
table ``audit``, in the same transaction: that is what a history is compared with.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.connectors.database import Database, database
from tests.connectors.mariadb.databases import TABLE as MARIADB_TABLE
from tests.connectors.mariadb.databases import MariaDb, mariadb
from tests.connectors.sqlite.databases import TABLE as SQLITE_TABLE
from tests.connectors.sqlite.databases import SqliteFile
from tests.connectors.workload import TABLE as POSTGRES_TABLE
from tests.connectors.writer import KEYS, Dialect, Writer
from tests.processes import wait_until

SECRET = "MAINSTEM_SECRET_A"
ROWS = {"a": 5_000, "b": 500}
"""How many rows there are before a connector comes; changes begin below these ids."""
Row = tuple[Any, ...]
COLUMNS = (
    "ALTER TABLE {t} ADD COLUMN IF NOT EXISTS extra INT",
    "ALTER TABLE {t} DROP COLUMN IF EXISTS extra",
)
"""How a column comes and goes in servers."""


_PAUSE_S = 0.02
"""Between two transactions of a writer: hundreds are enough, and Spark has to keep up."""


class Step(NamedTuple):
    """One thing that became of a key: another version of its row, or None when it was deleted."""

    seq: int
    row: Row | None


class Followed(NamedTuple):
    """A database with the tables ``a`` and ``b``."""

    url: str
    schema: str
    """The middle of the topics' names."""
    options: tuple[str, ...]
    """What ``mainstem connector add`` needs to know besides."""
    execute: Callable[..., Sequence[Row]]
    last: Callable[[], tuple[int, ...]]
    kill: Callable[[], None]
    """Kill -9 what can be killed of it; when this returns it can be used again."""
    dialect: Dialect
    add_and_drop: Sequence[str]
    """Statements that change the columns of a table which has triggers."""

    def rows(self, table: str) -> list[Row]:
        """Return what a table holds."""
        return sorted(map(tuple, self.execute(f"SELECT id, v, note, big FROM {table}")))

    def steps(self) -> dict[int, list[Step]]:
        """Return what became of each key of ``b``, in order."""
        found: dict[int, list[Step]] = {}
        asked = "SELECT seq, gone, id, v, note, big FROM audit ORDER BY seq"
        for seq, gone, *row in self.execute(asked):
            found.setdefault(row[0], []).append(Step(seq, None if gone else tuple(row)))
        return found

    def audited(self) -> int:
        """Return the number of the last change of ``b``."""
        return int(self.execute("SELECT max(seq) FROM audit")[0][0])

    @contextmanager
    def writing(self, seed: int, *, emptying: bool = True) -> Iterator[Callable[[int], None]]:
        """Write to both tables at random; gives a function that waits for so many transactions.

        ``emptying``: now and then all rows of a table are deleted, also those of before.
        """
        paced = self.dialect._replace(pause_s=_PAUSE_S)
        gently = paced._replace(truncate="DELETE FROM {t}", schemas=self.add_and_drop)
        if not emptying:
            some = f"DELETE FROM {{t}} WHERE id < {KEYS}"
            paced, gently = (each._replace(truncate=some) for each in (paced, gently))
        with (
            Writer(paced, "a", seed) as one,
            Writer(gently, "ab", seed + 1_000) as other,
        ):

            def wait(more: int) -> None:
                wanted = one.commits + other.commits + more
                wait_until(lambda: one.commits + other.commits >= wanted, "no commits")

            yield wait
        assert not one.errors
        assert not other.errors


def killing(db: Database | MariaDb) -> Callable[[], None]:
    """Return what kills a database, and starts it again."""

    def kill() -> None:
        db.kill()
        db.start()

    return kill


@contextmanager
def postgres() -> Iterator[Followed]:
    """A PostgreSQL."""
    with database() as db:
        for name in "ab":
            db.execute(*POSTGRES_TABLE.format(name=name).split(";"))
        db.execute(
            "CREATE TABLE audit (seq bigint GENERATED ALWAYS AS IDENTITY, gone boolean, "
            "id int, v int, note text, big text)",
            """
            CREATE FUNCTION audited() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                IF TG_OP = 'DELETE' OR (TG_OP = 'UPDATE' AND OLD.id <> NEW.id) THEN
                    INSERT INTO audit (gone, id) VALUES (true, OLD.id);
                END IF;
                IF TG_OP <> 'DELETE' THEN
                    INSERT INTO audit (gone, id, v, note, big)
                    VALUES (false, NEW.id, NEW.v, NEW.note, NEW.big);
                END IF;
                RETURN NULL;
            END $$
            """,
            "CREATE TRIGGER audited AFTER INSERT OR UPDATE OR DELETE ON b "
            "FOR EACH ROW EXECUTE FUNCTION audited()",
            *(
                f"INSERT INTO {name} "
                f"SELECT i, 1, 'n', 'x' FROM generate_series(100, {99 + count}) i"
                for name, count in ROWS.items()
            ),
        )
        types = [f"ALTER TABLE {{t}} ALTER note TYPE {kind}" for kind in ("varchar(100)", "text")]
        dialect = db.dialect(*COLUMNS, *types)
        options = ("--set", "partitions=2")
        yield Followed(
            db.url, "public", options, db.execute, db.last, killing(db), dialect, COLUMNS
        )


_TRIGGERS = {
    "i": "AFTER INSERT ON b {each} BEGIN {keep}; END",
    "u": "AFTER UPDATE ON b {each} BEGIN {moved}; {keep}; END",
    "d": "AFTER DELETE ON b {each} BEGIN INSERT INTO audit (gone, id) VALUES (1, OLD.id); END",
}
_KEEP = "INSERT INTO audit (gone, id, v, note, big) VALUES (0, NEW.id, NEW.v, NEW.note, NEW.big)"
_MOVED = "INSERT INTO audit (gone, id) SELECT 1, OLD.id{dual} WHERE OLD.id <> NEW.id"


def _triggers(each: str, dual: str) -> Iterator[str]:
    for name, text in _TRIGGERS.items():
        body = text.format(each=each, keep=_KEEP, moved=_MOVED.format(dual=dual))
        yield f"CREATE TRIGGER audit_{name} {body}"


@contextmanager
def maria_db() -> Iterator[Followed]:
    """A MariaDB; the server of the connector needs the password."""
    with mariadb() as db:
        db.execute(
            *(MARIADB_TABLE.format(t=name) for name in "ab"),
            "CREATE TABLE audit (seq BIGINT AUTO_INCREMENT PRIMARY KEY, gone BOOLEAN, "
            "id INT, v INT, note TEXT, big LONGTEXT)",
            *_triggers("FOR EACH ROW", " FROM dual"),
            *(
                f"INSERT INTO {name} SELECT seq, 1, 'n', 'x' FROM seq_100_to_{99 + count}"
                for name, count in ROWS.items()
            ),
        )
        types = [f"ALTER TABLE {{t}} MODIFY note {kind}" for kind in ("VARCHAR(100)", "TEXT")]
        dialect = db.dialect(*COLUMNS, *types)
        options = ("--set", "partitions=2", "--password-env", SECRET)
        yield Followed(db.url, "shop", options, db.execute, db.last, killing(db), dialect, COLUMNS)


@contextmanager
def sqlite(directory: Path, seed: int) -> Iterator[Followed]:
    """An SQLite file; what is killed is a program that writes to it."""
    db = SqliteFile(directory / "shop.db", wal=bool(seed % 2))
    db.execute(
        *(SQLITE_TABLE.format(t=name) for name in "ab"),
        "CREATE TABLE audit (seq INTEGER PRIMARY KEY AUTOINCREMENT, gone BOOLEAN, "
        "id INT, v INT, note TEXT, big TEXT)",
        *_triggers("", ""),
        *(
            "WITH RECURSIVE n(i) AS "
            f"(SELECT 100 UNION ALL SELECT i + 1 FROM n WHERE i < {99 + count}) "
            f"INSERT INTO {name} SELECT i, 1, 'n', 'x' FROM n"
            for name, count in ROWS.items()
        ),
    )
    columns = (
        "ALTER TABLE {t} ADD COLUMN extra",
        "ALTER TABLE {t} RENAME COLUMN extra TO more",
        "ALTER TABLE {t} RENAME COLUMN more TO extra",
    )
    chance = random.Random(seed)

    def kill() -> None:
        db.kill_program(chance.choice("ab"), 60)

    options = ("--set", "partitions=2")
    dialect = db.dialect(*columns)
    yield Followed(db.url, "main", options, db.execute, db.last, kill, dialect, columns)


def history_flaws(
    found: Sequence[dict[str, Any]], followed: Followed, since: int
) -> dict[int, str]:
    """Return the keys whose past is not that of ``b``, with what is wrong.

    A history has each version since the change ``since``, in order. The connector read the rows at
    some moment before that: older versions may be there, without gaps.
    """
    told: dict[int, list[dict[str, Any]]] = {}
    for row in sorted(found, key=lambda each: str(each["_position"])):
        told.setdefault(row["id"], []).append(row)
    steps = followed.steps()
    flaws = {key: _flaw(told.get(key, []), became, since) for key, became in steps.items()}
    flaws |= dict.fromkeys(told.keys() - steps.keys(), "was never there")
    return {key: flaw for key, flaw in flaws.items() if flaw}


def _flaw(told: list[dict[str, Any]], became: list[Step], since: int) -> str:
    versions = [(at, each.row) for at, each in enumerate(became) if each.row is not None]
    ends = [each.seq for each in became[1:]]
    needed = [at for at, _ in versions if at == len(ends) or ends[at] > since]
    kept = versions[len(versions) - len(told) :]
    rows = [(each["id"], each["v"], each["note"], each["big"]) for each in told]
    # Before a row is read, a change does not tell what PostgreSQL has not logged: nobody knows.
    known = [
        (*row[:3], None) if row and mine[3] is None and at not in needed else row
        for (at, row), mine in zip(kept, rows, strict=False)
    ]
    if not len(needed) <= len(told) <= len(versions) or rows != known:
        return f"has the versions {_short(rows)}, and was {_short([row for _, row in versions])}"
    for (at, _), row, after in zip(kept, told, [*told[1:], None], strict=False):
        begun, ended = row["valid_from"], row["valid_to"]
        if (ended is None) != (at == len(ends)) or (ended is not None and ended < begun):
            return f"v={row['v']} is valid from {begun} to {ended}"
        if ended is not None and became[at + 1].row is not None:
            assert after is not None
            if ended != after["valid_from"]:
                return f"v={row['v']} ends at {ended}, the next begins at {after['valid_from']}"
    return ""


def _short(rows: Sequence[Row | None]) -> list[str]:
    return [f"{row!r:.30}" for row in rows]

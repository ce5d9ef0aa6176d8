"""Every source of changes with a real database, so that each law is checked on all."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol

from tests.connectors.database import database
from tests.connectors.mariadb.databases import PASSWORD, mariadb
from tests.connectors.sqlite.databases import SqliteFile

from mainstem.connectors import complete, kind_of
from mainstem.connectors.errors import SourceFailed
from mainstem.connectors.port import Change, Item, Op, Position, Source
from mainstem.connectors.settings import ConnectorSettings


class Executes(Protocol):
    """A database that a test writes to."""

    url: str

    def execute(self, *statements: str) -> Sequence[tuple[Any, ...]]:
        """Execute statements, each in a transaction of its own; return the last one's rows."""

    def connect(self) -> Any:
        """Open a connection of an application."""


@contextmanager
def _sqlite(path: Path) -> Iterator[SqliteFile]:
    yield SqliteFile(path / "laws.db")


DATABASES: dict[str, Callable[[Path], AbstractContextManager[Executes]]] = {
    "mariadb": lambda _: mariadb(),
    "postgres": lambda _: database(),
    "sqlite": _sqlite,
}
SCHEMAS = {"mariadb": "shop", "postgres": "public", "sqlite": "main"}
"""The schema of a table that is created without one."""


class Bench:
    """A database, and sources of it that do not know of one another."""

    def __init__(self, kind: str, db: Executes) -> None:
        self.schema = SCHEMAS[kind]
        self.db = db

    def open(self, *tables: str) -> Source:
        """Return a source for tables."""
        names = tuple(f"{self.schema}.{each}" for each in tables)
        settings = complete(ConnectorSettings(name="laws", url=self.db.url, tables=names))
        return kind_of(self.db.url).open(settings, lambda: PASSWORD)

    @contextmanager
    def source(self, *tables: str) -> Iterator[Source]:
        """Open a source that captures tables, until the block ends."""
        found = self.open(*tables)
        try:
            found.capture(found.tables())
            yield found
        finally:
            found.close()

    def begin(self, source: Source) -> Position:
        """Return the position of a snapshot that nobody reads."""
        snapshot = source.begin()
        snapshot.close()
        return snapshot.position

    def follow(self, position: Position, last: int, *tables: str) -> list[Item]:
        """Return what a new source follows, without idle times, to the commit of row ``last``."""
        deadline_s = time.monotonic() + 30
        while True:
            try:
                return self._follow(position, last, *tables)
            except SourceFailed:
                # PostgreSQL takes a moment to notice that the source before has gone; the runner
                # of connectors tries again, too.
                if time.monotonic() > deadline_s:
                    raise

    def _follow(self, position: Position, last: int, *tables: str) -> list[Item]:
        found: list[Item] = []
        is_there = False
        with self.source(*tables) as source:
            for item in source.follow(position):
                if item is None:
                    if is_there:
                        return found
                    continue
                found.append(item)
                is_there = is_there or (
                    isinstance(item, Change)
                    and item.after is not None
                    and item.after.get("id") == last
                )
        raise AssertionError("a source never ends")


def told(items: Sequence[Item]) -> list[tuple[Op, object, object]]:
    """Return the changes of items: what was done, the key before, and the row after."""
    return [
        (item.op, None if item.before is None else item.before["id"], item.after)
        for item in items
        if isinstance(item, Change)
    ]

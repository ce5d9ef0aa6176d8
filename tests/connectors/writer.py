"""Random transactions in any database, on tables whose every change raises ``v``."""

import random
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol


class Session(Protocol):
    """A connection of an application."""

    def execute(self, statement: str) -> Any:
        """Execute a statement."""


class Dialect(NamedTuple):
    """What differs between databases."""

    connect: Callable[[], AbstractContextManager[Session]]
    passing: tuple[type[Exception], ...]
    """Errors of a database that is gone or busy for a moment, or of two writers' same idea."""
    upsert: str
    """Ends an INSERT of a row that may be there: raises its ``v``."""
    truncate: str
    schemas: Sequence[str]
    """Statements that change the columns of a table."""
    pause_s: float = 0.0
    """Between two transactions, where a test is about more than the database."""
    moved: str = ""
    """Ends the assignments of an UPDATE that changes a key."""


KEYS = 40


class Writer:
    """A thread that runs random transactions until it is told to stop."""

    def __init__(self, dialect: Dialect, tables: Sequence[str], seed: int) -> None:
        self._dialect = dialect
        self._tables = tables
        self._rng = random.Random(seed)
        self._stop = threading.Event()
        self.commits = 0
        self.errors: list[Exception] = []
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Writer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                with self._dialect.connect() as session:
                    while not self._stop.is_set():
                        self._transaction(session)
                        if self._dialect.pause_s:
                            self._stop.wait(self._dialect.pause_s)
            except self._dialect.passing:
                self._stop.wait(0.02)
            except Exception as error:
                self.errors.append(error)
                return

    def _transaction(self, session: Session) -> None:
        rng = self._rng
        if rng.random() < 0.01 and self._dialect.schemas:
            session.execute(rng.choice(self._dialect.schemas).format(t=rng.choice(self._tables)))
            return
        session.execute("BEGIN")
        for _ in range(rng.choice((1, 1, 1, 2, 5, 30))):
            self._change(session, rng.choice(self._tables))
        if rng.random() < 0.1:
            session.execute("ROLLBACK")
            return
        session.execute("COMMIT")
        self.commits += 1

    def _change(self, session: Session, t: str) -> None:
        rng = self._rng
        one, other = rng.randrange(KEYS), rng.randrange(KEYS)
        chance = rng.random()
        if chance < 0.35:
            big = str(rng.randrange(10)) * rng.choice((1, 10, 5_000))
            session.execute(
                f"INSERT INTO {t} (id, v, note, big) "
                f"VALUES ({one}, 1, 'n{rng.randrange(99)}', '{big}') "
                + self._dialect.upsert.format(t=t)
            )
        elif chance < 0.75:
            note = rng.randrange(99)
            session.execute(f"UPDATE {t} SET v = v + 1, note = 'u{note}' WHERE id = {one}")
        elif chance < 0.88:
            session.execute(f"DELETE FROM {t} WHERE id = {one}")
        elif chance < 0.995:
            session.execute(f"DELETE FROM {t} WHERE id = {other} AND id <> {one}")
            session.execute(
                f"UPDATE {t} SET id = {other}, v = v + 1{self._dialect.moved} WHERE id = {one}"
            )
        else:
            session.execute(self._dialect.truncate.format(t=t))

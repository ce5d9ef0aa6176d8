"""Connections to an SQLite database, given its URL; SQLite's errors become those of sources."""

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from mainstem.connectors.errors import SourceFailed, SourceRefused
from mainstem.core.errors import InvalidSetting

_OLDEST = (3, 37, 0)
"""Has the list of tables with their kinds."""
_BUSY_S = 5.0
_PASSING = ("locked", "busy", "interrupted", "disk I/O error", "schema has changed")
"""Parts of messages after which trying again helps."""


def path_of(url: str) -> Path:
    """Return the path of the database file in a URL; raises InvalidSetting."""
    parts = urlsplit(url)
    if parts.netloc or parts.query or parts.fragment:
        raise InvalidSetting(
            f"{url:.200}: write sqlite:///path/to/file, with an absolute path and no options"
        )
    path = "/" + unquote(parts.path).lstrip("/")
    if path == "/":
        raise InvalidSetting(f"{url:.200} names no file: write sqlite:///path/to/file")
    return Path(path)


def open_database(path: Path) -> sqlite3.Connection:
    """Open an existing database with autocommit."""
    if sqlite3.sqlite_version_info < _OLDEST:
        raise SourceRefused(
            f"connectors to SQLite need SQLite {'.'.join(map(str, _OLDEST))}, and Python here has "
            f"{sqlite3.sqlite_version}"
        )
    if not path.is_file():
        raise SourceRefused(f"there is no file {path}: check the URL; it is a path on the server")
    if not os.access(path, os.W_OK) or not os.access(path.parent, os.W_OK):
        raise SourceRefused(
            f"the server's user may not write {path} and its directory, and changes are recorded "
            "in the database itself: give it the right"
        )
    return sqlite3.connect(
        f"file:{quote(str(path))}?mode=rw", uri=True, isolation_level=None, timeout=_BUSY_S
    )


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Raise SQLite's errors in the block as SourceFailed or SourceRefused."""
    try:
        yield
    except sqlite3.Error as error:
        why = f"SQLite: {error}"
        passing = isinstance(error, sqlite3.OperationalError) and any(
            each in str(error) for each in _PASSING
        )
        raise (SourceFailed if passing else SourceRefused)(why) from None


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection, kind: str = "DEFERRED") -> Iterator[None]:
    """Run the block's statements in one transaction; ``IMMEDIATE`` for one that writes."""
    connection.execute(f"BEGIN {kind}")
    try:
        yield
    except BaseException:
        # After some errors SQLite has rolled it back itself.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def name(text: str) -> str:
    """Quote an identifier for SQL."""
    return '"' + text.replace('"', '""') + '"'

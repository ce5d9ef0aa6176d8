"""A real PostgreSQL that can be followed, and that can be killed and started again."""

import os
import shutil
import signal
import subprocess
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import psycopg
from tests.connectors.writer import Dialect
from tests.faults.killable_server import free_port

_SETTINGS = """
wal_level = logical
listen_addresses = '127.0.0.1'
port = {port}
max_wal_senders = 20
max_replication_slots = 20
fsync = off
max_wal_size = 256MB
"""


DEBIAN = next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin"))), None)
"""Debian's programs, whose PostgreSQL has the extensions that are delivered with it."""


class Session:
    """A connection that takes statements made at run time."""

    def __init__(self, inner: "psycopg.Connection[tuple[Any, ...]]") -> None:
        self._inner = inner

    def execute(self, statement: str) -> None:
        """Execute a statement."""
        self._inner.execute(statement.encode())


class Database:
    """The server: a directory that stays, and one life after the other."""

    def __init__(self, directory: Path, programs: Path | None = None) -> None:
        self._directory = directory
        if programs is None:
            self._from_wheel(directory / "base")
        else:
            self._bin = programs
            self._initialise(directory / "base")
        self.port = free_port()
        """Where it listens on 127.0.0.1, for programs that cannot use its socket."""
        self.url += f"&port={self.port}"
        with (directory / "base" / "postgresql.conf").open("a") as settings:
            settings.write(_SETTINGS.format(port=self.port))
        self.start()

    def _initialise(self, base: Path) -> None:
        self._user = "postgres" if os.getuid() == 0 else None
        self.url = f"postgresql://postgres@/postgres?host={base}"
        initdb = [
            str(self._bin / "initdb"),
            "-D",
            str(base),
            "-U",
            "postgres",
            "-A",
            "trust",
            "-E",
            "UTF8",
        ]
        subprocess.run(
            initdb, check=True, user=self._user, cwd="/", stdout=subprocess.DEVNULL, timeout=120
        )

    def _from_wheel(self, base: Path) -> None:
        with warnings.catch_warnings():
            # About a directory for runtime files, which is not used.
            warnings.simplefilter("ignore")
            from pgserver import _commands  # noqa: PLC0415 - it warns when imported
            from pgserver.postgres_server import get_server  # noqa: PLC0415
        self._bin = _commands.POSTGRES_BIN_PATH
        # It creates the directory, and a user for a server that may not be root's.
        server = get_server(base, cleanup_mode=None)
        self.url = server.get_uri().replace(":@", "@")
        self._user = server.system_user
        self._pid = server.get_pid()
        self.stop()

    def start(self, *options: str) -> None:
        """Start; returns when it accepts connections."""
        deadline = time.monotonic() + 60
        given = ["-o", f"-k {self._directory / 'base'} {' '.join(options)}"]
        while True:
            try:
                self._control("start", "-l", str(self._directory / "base" / "log"), *given)
                break
            except subprocess.CalledProcessError:
                # Processes of the killed one may still hold its memory.
                if time.monotonic() > deadline:
                    raise
        lines = (self._directory / "base" / "postmaster.pid").read_text().splitlines()
        self._pid = int(lines[0])

    def stop(self) -> None:
        """Stop at once, in good order."""
        self._control("stop", "-m", "fast")

    def kill(self) -> None:
        """End this life by kill -9."""
        assert self._pid is not None
        os.kill(self._pid, signal.SIGKILL)

    def connect(self) -> "psycopg.Connection[tuple[Any, ...]]":
        """Return a connection of an application."""
        return psycopg.connect(self.url, autocommit=True)

    def execute(self, *statements: str) -> Sequence[tuple[Any, ...]]:
        """Execute statements, each in a transaction of its own; return the last one's rows."""
        rows: Sequence[tuple[Any, ...]] = ()
        with self.connect() as connection:
            for each in statements:
                found = connection.execute(each.encode())
                rows = found.fetchall() if found.description else ()
        return rows

    def last(self) -> tuple[int, ...]:
        """Return the position after all that was committed so far."""
        ((text,),) = self.execute("SELECT pg_logical_emit_message(true, 'test', '')::text")
        high, low = text.split("/")
        return (int(high, 16) << 32 | int(low, 16),)

    @contextmanager
    def _session(self) -> Iterator["Session"]:
        with self.connect() as connection:
            yield Session(connection)

    def dialect(self, *schemas: str) -> Dialect:
        """Return what random transactions need."""
        return Dialect(
            self._session,
            (psycopg.OperationalError, psycopg.IntegrityError),
            "ON CONFLICT (id) DO UPDATE SET v = {t}.v + 1, big = excluded.big",
            "TRUNCATE {t}",
            schemas,
            # A large value is logged again, as nobody could know it under the new key.
            moved=", big = big || ''",
        )

    def _control(self, *arguments: str) -> None:
        command = [str(self._bin / "pg_ctl"), "-w", "-D", str(self._directory / "base"), *arguments]
        subprocess.run(command, check=True, user=self._user, stdout=subprocess.DEVNULL, timeout=120)


@contextmanager
def database(programs: Path | None = None) -> Iterator[Database]:
    """Start a database in a directory of its own; by default of the version in the wheel."""
    # Its socket's path may not be long, and other users have to get there.
    directory = Path(mkdtemp(dir="/tmp"))
    directory.chmod(0o777)
    found = Database(directory, programs)
    try:
        yield found
    finally:
        with suppress(subprocess.CalledProcessError):
            found.stop()
        shutil.rmtree(directory, ignore_errors=True)

"""A real MariaDB that can be followed, and that can be killed and started again."""

import json
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
from tests.connectors.writer import Dialect
from tests.faults.killable_server import free_port

pymysql = pytest.importorskip("pymysql", reason="there is no PyMySQL")

_PATH = os.environ["PATH"] + ":/usr/sbin:/sbin"
TABLE = "CREATE TABLE {t} (id INT PRIMARY KEY, v INT NOT NULL, note TEXT, big LONGTEXT)"
SCHEMAS = (
    "ALTER TABLE {t} ADD COLUMN IF NOT EXISTS extra INT",
    "ALTER TABLE {t} DROP COLUMN IF EXISTS extra",
    "ALTER TABLE {t} MODIFY note VARCHAR(100)",
    "ALTER TABLE {t} MODIFY note TEXT",
)
_PATIENCE_S = 60
PASSWORD = "hidden"


class Truncates:
    """How many TRUNCATEs run; they may wait for one another's transactions."""

    def __init__(self) -> None:
        self._count = 0
        self._changed = threading.Condition()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count one more until the block ends."""
        with self._changed:
            self._count += 1
        try:
            yield
        finally:
            with self._changed:
                self._count -= 1
                self._changed.notify_all()

    @contextmanager
    def none(self) -> Iterator[None]:
        """Wait until none runs; none begins before the block ends."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._count == 0, _PATIENCE_S)
            yield


class Connection:
    """A connection of an application."""

    def __init__(self, inner: Any, truncates: "Truncates") -> None:
        self._inner = inner
        self._truncates = truncates

    def execute(self, statement: str) -> Sequence[tuple[Any, ...]]:
        """Execute a statement; return its rows. The server is not killed during a TRUNCATE."""
        is_truncate = statement.startswith("TRUNCATE")
        running = self._truncates.running() if is_truncate else nullcontext()
        with running, self._inner.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall())


class MariaDb:
    """The server: a directory that stays, and one life after the other."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        # TRUNCATE TABLE is not among MariaDB's atomic DDL statements. Of 83 that had emptied a
        # table when MariaDB 10.11 was killed, at a random moment up to 58 ms after they had begun,
        # 12 are not in the binlog. Nobody who follows the binlog can know of them.
        self._truncates = Truncates()
        self.port = free_port()
        self.url = f"mariadb://app@127.0.0.1:{self.port}/shop"
        given = [f"--datadir={directory / 'data'}", "--auth-root-authentication-method=normal"]
        self._run("mariadb-install-db", "--no-defaults", *self._user(), "--skip-test-db", *given)
        self._process: subprocess.Popen[bytes] | None = None
        self.start()
        self.execute("CREATE DATABASE shop", database="")
        self.execute(
            f"CREATE USER app@127.0.0.1 IDENTIFIED BY '{PASSWORD}'",
            "GRANT SELECT, REPLICATION SLAVE, BINLOG MONITOR ON *.* TO app@127.0.0.1",
            f"CREATE USER debezium@127.0.0.1 IDENTIFIED BY '{PASSWORD}'",
            "GRANT SELECT, RELOAD, SHOW DATABASES, LOCK TABLES, REPLICATION SLAVE, BINLOG MONITOR "
            "ON *.* TO debezium@127.0.0.1",
        )

    def _user(self) -> list[str]:
        return ["--user=root"] if os.getuid() == 0 else []

    def _run(self, program: str, *arguments: str) -> None:
        found = shutil.which(program, path=_PATH)
        assert found is not None
        subprocess.run([found, *arguments], check=True, capture_output=True, timeout=_PATIENCE_S)

    def start(self, *options: str) -> None:
        """Start; returns when it accepts connections."""
        server = shutil.which("mariadbd", path=_PATH)
        assert server is not None
        with (self._directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    server,
                    "--no-defaults",
                    *self._user(),
                    f"--datadir={self._directory / 'data'}",
                    f"--socket={self._directory / 'socket'}",
                    f"--port={self.port}",
                    "--bind-address=127.0.0.1",
                    "--server-id=7",
                    "--log-bin=binlog",
                    "--binlog-format=ROW",
                    "--binlog-row-image=FULL",
                    "--binlog-row-metadata=FULL",
                    "--innodb-flush-log-at-trx-commit=1",
                    "--sync-binlog=1",
                    "--innodb-flush-method=nosync",
                    "--innodb-buffer-pool-size=32M",
                    "--innodb-log-file-size=16M",
                    "--performance-schema=OFF",
                    "--character-set-server=utf8mb4",
                    *options,
                ],
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            try:
                self._connect("").close()
                return
            except pymysql.err.OperationalError:
                assert self._process.poll() is None, (self._directory / "log").read_text()
                assert time.monotonic() < deadline

    def stop(self) -> None:
        """Stop in good order."""
        assert self._process is not None
        self._process.terminate()
        self._process.wait(_PATIENCE_S)

    def kill(self) -> None:
        """End this life by kill -9, though not during a TRUNCATE."""
        assert self._process is not None
        with self._truncates.none():
            self._process.send_signal(signal.SIGKILL)
        self._process.wait(_PATIENCE_S)

    def _connect(self, database: str) -> Any:
        return pymysql.connect(
            unix_socket=str(self._directory / "socket"),
            user="root",
            database=database or None,
            autocommit=True,
            charset="utf8mb4",
        )

    @contextmanager
    def connect(self, database: str = "shop") -> Iterator[Connection]:
        """Open a connection of an application."""
        inner = self._connect(database)
        try:
            yield Connection(inner, self._truncates)
        finally:
            inner.close()

    def execute(self, *statements: str, database: str = "shop") -> Sequence[tuple[Any, ...]]:
        """Execute statements, each in a transaction of its own; return the last one's rows."""
        rows: Sequence[tuple[Any, ...]] = ()
        with self.connect(database) as connection:
            for each in statements:
                rows = connection.execute(each)
        return rows

    @contextmanager
    def options(self, **values: str) -> Iterator[None]:
        """Set global variables until the block ends."""
        before = {name: self.execute(f"SELECT @@global.{name}")[0][0] for name in values}
        self.execute(*(f"SET GLOBAL {name} = {value}" for name, value in values.items()))
        try:
            yield
        finally:
            self.execute(*(f"SET GLOBAL {name} = {value}" for name, value in before.items()))

    def last(self) -> tuple[int, ...]:
        """Return the position at the end of the binlog."""
        ((file, position, *_),) = self.execute("SHOW MASTER STATUS")
        return int(file.rpartition(".")[2]), int(position)

    def purge(self) -> bool:
        """Delete all binlog files but the last; return whether nobody has kept one."""
        last = f"binlog.{self.last()[0]:06}"
        self.execute(f"PURGE BINARY LOGS TO '{last}'")
        return len(self.execute("SHOW BINARY LOGS")) == 1

    def rows(self, table: str) -> dict[bytes, dict[str, Any]]:
        """Return the rows of a table by the key of their events."""
        columns = [name for (name, *_) in self.execute(f"SHOW COLUMNS FROM {table}")]
        found = [
            dict(zip(columns, row, strict=True)) for row in self.execute(f"SELECT * FROM {table}")
        ]
        return {json.dumps({"id": row["id"]}, separators=(",", ":")).encode(): row for row in found}

    def dialect(self, *schemas: str) -> Dialect:
        """Return what random transactions need."""
        return Dialect(
            self.connect,
            (pymysql.err.OperationalError, pymysql.err.IntegrityError, pymysql.err.InterfaceError),
            "ON DUPLICATE KEY UPDATE v = v + 1, big = VALUES(big)",
            "TRUNCATE TABLE {t}",
            schemas,
        )


@contextmanager
def mariadb() -> Iterator[MariaDb]:
    """Start a MariaDB in a directory of its own; skips the test if there is none."""
    if shutil.which("mariadbd", path=_PATH) is None:
        pytest.skip("there is no mariadbd (Debian: mariadb-server)")
    # Its socket's path may not be long.
    directory = Path(mkdtemp(dir="/tmp"))
    found = MariaDb(directory)
    try:
        yield found
    finally:
        found.kill()
        shutil.rmtree(directory, ignore_errors=True)

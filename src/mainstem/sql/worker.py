"""The worker: a process that evaluates queries, and can reach neither files nor the network.

How this works: DuckDB runs with all access to files, extensions and settings off. Once it has
started, the process can open no more descriptors (RLIMIT_NOFILE), so that no query can make it read
a file. Events come over the socket that it was started with. A table of the query is a view over a
``Scanned``, which is an Arrow dataset for DuckDB: DuckDB asks it for some columns of the rows for
which a filter is true.
"""

import ctypes
import json
import os
import resource
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds

from mainstem.sql.errors import InvalidQuery
from mainstem.sql.fields import MISFIT, quoted
from mainstem.sql.pushdown import from_ms, needed
from mainstem.sql.statement import parsed
from mainstem.sql.worker_messages import (
    SPARE_BYTES,
    Batch,
    Channel,
    Columns,
    Done,
    Failed,
    Next,
    Parse,
    Parsed,
    Rows,
    Run,
    Scan,
    View,
)

_RESULT_ROWS = 50_000
_MISFITS = (MISFIT, "Could not convert string", "Malformed JSON", "Expected ARRAY")
_PR_SET_PDEATHSIG = 1
_SETTINGS = ("TimeZone = 'UTC'", "enable_external_access = false", "lock_configuration = true")

_NO_COLUMN = "not found in FROM clause"
_SESSION_NAMES = (
    *("user", "current_user", "session_user", "current_role"),
    *("current_schema", "current_catalog", "current_database"),
)
"""Names that DuckDB takes for functions if no table has such a column; here they fail.

Otherwise a query about ``user`` would answer "duckdb" for a topic without that field.
"""


class Scans:
    """Requests the batches of scans over the channel, for all threads of DuckDB and Arrow."""

    def __init__(self, channel: Channel) -> None:
        self._channel, self._lock = channel, threading.Lock()
        self._begun = 0
        self._closed = False

    def read(self, view: int, schema: pa.Schema, scan: Scan) -> Iterator[pa.RecordBatch]:
        """Begin a scan of a view and yield its batches; raises OSError if reading failed."""
        with self._lock:
            self._check_open()
            self._begun += 1
            number = self._begun
            self._channel.send(Scan(number, view, scan.columns, scan.spans, scan.from_ms))
        while True:
            with self._lock:
                self._check_open()
                self._channel.send(Next(number))
                answer, blob = self._channel.receive()
            if isinstance(answer, Failed):
                # This error fails the query; the other process knows the reason.
                raise OSError(answer.text)
            if not isinstance(answer, Batch):
                return
            yield pa.ipc.read_record_batch(pa.py_buffer(blob), schema)

    def send(self, message: Columns | Rows, blob: memoryview) -> None:
        """Send a part of the result; a lock keeps it apart from requests of other threads."""
        with self._lock:
            self._channel.send(message, blob)

    def close(self) -> None:
        """End all scans; a thread that reads ahead gets an OSError at its next request."""
        with self._lock:
            self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise OSError("the query has ended")


class Scanned(ds.Dataset):  # type: ignore[misc]  # pyarrow has no types
    """A table whose batches come over the channel, as an Arrow dataset."""

    def __init__(self, view: View, number: int, scans: Scans) -> None:
        self._view, self._number, self._scans = view, number, scans
        self._schema = pa.ipc.read_schema(pa.py_buffer(view.schema))

    @property
    def schema(self) -> pa.Schema:
        """The columns that can be scanned."""
        return self._schema

    def scanner(
        self,
        columns: Sequence[str] | None = None,
        filter: ds.Expression | None = None,  # noqa: A002 - Arrow's name
        **_: object,
    ) -> ds.Scanner:
        """Return the rows for which the filter is true; requests only offsets where it may be."""
        asked = str(filter)
        wanted = [
            name
            for name in self._schema.names
            if columns is None or name in columns or name in asked
        ]
        schema = pa.schema([self._schema.field(name) for name in wanted])
        scan = Scan(
            0,
            self._number,
            wanted,
            needed(self._view.spans, filter, self._schema),
            from_ms(filter, self._schema) if self._view.spans else None,
        )
        batches = self._scans.read(self._number, schema, scan)
        return ds.Scanner.from_batches(batches, schema=schema, columns=columns, filter=filter)


class Worker:
    """Parses and evaluates queries, one at a time."""

    def __init__(self, channel: Channel, memory_bytes: int, threads: int) -> None:
        self._channel = channel
        self._database = duckdb.connect(
            ":memory:",
            config={
                "memory_limit": f"{memory_bytes // (1 << 20)}MiB",
                "threads": threads,
                "temp_directory": "",
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
                "allow_community_extensions": False,
                "python_enable_replacements": False,
                "preserve_insertion_order": True,
            },
        )
        aggregates = self._database.execute(
            "SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type = "
            "'aggregate'"
        ).fetchall()
        self._aggregates = {str(name).lower() for (name,) in aggregates}
        for setting in _SETTINGS:
            self._database.execute(f"SET {setting}").fetchall()
        for name in _SESSION_NAMES:
            self._database.execute(
                f"CREATE MACRO {quoted(name)}() AS error('column {name} {_NO_COLUMN}')"
            ).fetchall()

    def serve(self) -> None:
        """Handle messages until the other process closes the channel."""
        while True:
            try:
                asked, _ = self._channel.receive()
            except EOFError:
                return
            try:
                if isinstance(asked, Parse):
                    self._channel.send(self._parse(asked.sql))
                elif isinstance(asked, Run):
                    self._run(asked)
                    self._channel.send(Done())
            except (InvalidQuery, RecursionError) as error:
                text = str(error) if isinstance(error, InvalidQuery) else "it is nested too deeply"
                self._channel.send(Failed("invalid", text))
            except (duckdb.Error, pa.ArrowException, MemoryError, OSError) as error:
                self._channel.send(_failed(error))

    def _parse(self, sql: str) -> Parsed:
        tree = self._database.execute("SELECT json_serialize_sql(?)", [sql]).fetchall()[0][0]
        return parsed(json.loads(tree), self._aggregates)

    def _run(self, asked: Run) -> None:
        scans = Scans(self._channel)
        for number, view in enumerate(asked.views):
            self._define(view, f"_scan_{number}", Scanned(view, number, scans))
        # DuckDB's execute() would compute the whole result before its first batch.
        result = self._database.sql(asked.sql)
        if result is None:
            raise InvalidQuery("the query has no result")
        try:
            reader = result.to_arrow_reader(_RESULT_ROWS)
            scans.send(Columns(), memoryview(reader.schema.serialize()))
            for batch in reader:
                if batch.num_rows:
                    scans.send(Rows(), memoryview(batch.serialize()))
            del reader
        finally:
            scans.close()
            self._database.abort()

    def _define(self, view: View, scan: str, scanned: Scanned) -> None:
        for schema in view.path[:-1]:
            self._database.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(schema)}").fetchall()
        self._database.register(scan, scanned)
        target = ".".join(quoted(part) for part in view.path)
        body = view.select.replace("{scan}", quoted(scan))
        self._database.execute(f"CREATE OR REPLACE VIEW {target} AS {body}").fetchall()


def _failed(error: Exception) -> Failed:
    text = " ".join(str(error).split("\n\nLINE")[0].split("\nLINE")[0].split())
    if isinstance(error, duckdb.OutOfMemoryException | MemoryError) or "MemoryError" in text:
        return Failed("memory", text)
    if _NO_COLUMN in text:
        return Failed("invalid", text.removeprefix("Invalid Input Error: "))
    if isinstance(error, duckdb.ParserException | duckdb.BinderException | duckdb.CatalogException):
        return Failed("invalid", text)
    return Failed("misfit" if any(each in text for each in _MISFITS) else "failed", text)


def _confine(memory_bytes: int) -> None:
    """Deprive this process of what it no longer needs: new descriptors, files, most memory."""
    open_now = len(list(Path("/proc/self/fd").iterdir()))
    # Occupy unused descriptor numbers, so that none is left below the limit.
    while (filler := os.open(os.devnull, os.O_RDWR)) < open_now:
        pass
    resource.setrlimit(resource.RLIMIT_NOFILE, (filler + 1, filler + 1))
    resource.setrlimit(resource.RLIMIT_NPROC, resource.getrlimit(resource.RLIMIT_NPROC))
    resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes + SPARE_BYTES,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def main(descriptor: str, memory_bytes: str, threads: str) -> None:
    """Serve queries over the socket with this descriptor."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # End when the parent process ends, in whatever way.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    channel = Channel(socket.socket(fileno=int(descriptor)))
    worker = Worker(channel, int(memory_bytes), int(threads))
    _confine(int(memory_bytes))
    worker.serve()
    # Skip the interpreter's cleanup, as DuckDB would report objects that still exist then.
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])

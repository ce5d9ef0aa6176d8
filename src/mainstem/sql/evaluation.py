"""Controls one worker process: lets it parse and evaluate queries, and enforces limits."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator

import msgspec
import pyarrow as pa

from mainstem.core.errors import MainstemError
from mainstem.core.setting_types import MIB
from mainstem.sql import worker_messages as messages
from mainstem.sql.errors import InvalidQuery, LimitReached, QueryFailed
from mainstem.sql.events import NotText, Prefetched

_ENVIRONMENT = ("PATH", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "LANG", "TMPDIR")
_END_S = 5.0


class Limits(msgspec.Struct, frozen=True):
    """The limits of a query."""

    memory_bytes: int = 1024 * MIB
    """Memory of DuckDB, which keeps nothing on disk."""
    seconds: float | None = None
    """Time of one evaluation; none: as long as it takes."""
    rows: int | None = None
    """Rows of the result; none: as many as there are."""
    threads: int = 2


class Misfit(Exception):
    """Raised if events have other types than the sample; no row was returned before."""


ReadScan = Callable[[messages.Scan], Iterator[pa.RecordBatch]]


class Evaluation:
    """A worker process and its current query; not usable after an error, only to be closed."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        ours, theirs = socket.socketpair()
        self._socket, self._channel = ours, messages.Channel(ours)
        self._deadline: float | None = None
        with theirs:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "mainstem.sql.worker", str(theirs.fileno())),
                    *(str(limits.memory_bytes), str(limits.threads)),
                ],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL if not os.environ.get("MAINSTEM_DEBUG") else None,
                env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
                | messages.WITHOUT_ARENAS,
                # In a session of its own, so that Ctrl-C ends the command first, and that ends the
                # worker.
                start_new_session=True,
            )

    @property
    def worker_pid(self) -> int:
        """The process id of the worker."""
        return self._process.pid

    def close(self) -> None:
        """Kill the worker."""
        self._socket.close()
        self._process.kill()
        self._process.wait(_END_S)

    def parse(self, sql: str) -> messages.Parsed:
        """Return which tables and columns a query refers to; raises InvalidQuery."""
        self._begin()
        self._send(messages.Parse(sql))
        answer, _ = self._receive()
        if isinstance(answer, messages.Failed):
            raise InvalidQuery(answer.text)
        assert isinstance(answer, messages.Parsed)
        return answer

    def run(
        self, sql: str, views: list[messages.View], read: ReadScan
    ) -> Generator[pa.Schema | pa.RecordBatch]:
        """Evaluate a query: yields the result's schema, then its batches.

        ``read`` returns the batches of a scan. Raises Misfit before the first batch, InvalidQuery,
        QueryFailed, LimitReached, or what ``read`` raises.
        """
        self._begin()
        scans: dict[int, Prefetched] = {}
        trouble: list[Exception] = []
        rows, schema = 0, None
        self._send(messages.Run(sql, views))
        try:
            while True:
                message, blob = self._receive()
                match message:
                    case messages.Scan():
                        scans[message.number] = Prefetched(read(message))
                    case messages.Next():
                        self._answer(scans[message.number], trouble)
                    case messages.Columns():
                        schema = pa.ipc.read_schema(pa.py_buffer(blob))
                        yield schema
                    case messages.Rows():
                        batch = pa.ipc.read_record_batch(pa.py_buffer(blob), schema)
                        rows += batch.num_rows
                        self._check_rows(rows)
                        yield batch
                    case messages.Done() | messages.Failed():
                        self._check_end(message, trouble, begun=rows > 0)
                        return
        finally:
            for scan in scans.values():
                scan.close()

    def _answer(self, scan: Prefetched, trouble: list[Exception]) -> None:
        try:
            batch = scan.next()
        except (MainstemError, NotText, pa.ArrowException) as error:
            trouble.append(error)
            self._send(messages.Failed("failed", "the scan failed"))
            return
        if batch is None:
            self._send(messages.End())
        else:
            self._send(messages.Batch(), memoryview(batch.serialize()))

    def _check_rows(self, rows: int) -> None:
        if self._limits.rows is not None and rows > self._limits.rows:
            raise LimitReached(
                f"the result has more than {self._limits.rows:,} rows; add a LIMIT or a filter, "
                "or raise the limit of rows"
            )

    def _check_end(
        self, end: messages.Done | messages.Failed, trouble: list[Exception], *, begun: bool
    ) -> None:
        """Raise the error with which a query ended, if any; ``begun`` if rows were returned."""
        for error in trouble:
            if not isinstance(error, NotText):
                raise error
        misfit = bool(trouble) or (isinstance(end, messages.Failed) and end.kind == "misfit")
        if misfit and not begun:
            raise Misfit(end.text if isinstance(end, messages.Failed) else "")
        if misfit:
            raise QueryFailed(
                "an event does not have the types that the sample had "
                f"({end.text if isinstance(end, messages.Failed) else 'it is not UTF-8'}); "
                "look at all events first (--sample all)"
            )
        if isinstance(end, messages.Failed):
            raise self._error(end)

    def _error(self, end: messages.Failed) -> MainstemError:
        match end.kind:
            case "memory":
                return self._too_large()
            case "invalid":
                return InvalidQuery(end.text)
        return QueryFailed(end.text)

    def _too_large(self) -> LimitReached:
        return LimitReached(
            f"the query needs more than {self._limits.memory_bytes // MIB:,} MiB of memory; raise "
            "that limit, or read fewer events or columns"
        )

    # The channel

    def _begin(self) -> None:
        seconds = self._limits.seconds
        self._deadline = None if seconds is None else time.monotonic() + seconds

    def _send(self, message: messages.Message, blob: memoryview = messages.NO_BLOB) -> None:
        try:
            self._socket.settimeout(self._left())
            self._channel.send(message, blob)
        except (OSError, EOFError) as error:
            raise self._ended(error) from None

    def _receive(self) -> tuple[messages.Message, memoryview]:
        try:
            self._socket.settimeout(self._left())
            return self._channel.receive()
        except (OSError, EOFError) as error:
            raise self._ended(error) from None

    def _left(self) -> float | None:
        if self._deadline is None:
            return None
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    def _ended(self, error: Exception) -> MainstemError:
        if isinstance(error, TimeoutError):
            return LimitReached(
                f"the query was not done within {self._limits.seconds:g} s; raise that "
                "limit, or read fewer events"
            )
        code = self._process.wait(_END_S)
        if code in (-signal.SIGABRT, -signal.SIGSEGV, -signal.SIGKILL):
            return self._too_large()
        return QueryFailed(f"the worker of the query ended unexpectedly (exit code {code})")

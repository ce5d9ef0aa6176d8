"""The state directory of a pipeline: the stored state of each table.

STATE/PIPELINE/TABLE/checkpoint       Spark's checkpoint
                    /identity         names this checkpoint in the marks of sinks
                    /definition.json  the fingerprint of the definition
                    /schemas.json     inferred schemas, so that a restart infers no others
                    /skips.json       events that are skipped because the query fails on them
                    /standing.json    the table's status (``TableStatus``)
                    /stopping         the stop file: while it exists, no batch begins
                    /error.txt        the last error with its stack traces
                    /truncated.json   the newest truncation of a mirrored database table
              /lock                   held by the process that runs the pipeline
              /range.json             the range of a one-off run
              /spark.log              what Spark logs as errors
STATE/PIPELINE@NAME/...               the same for a replay into NAME

Users have such directories, so names and formats only change in ways that older files can be read.
"""

import fcntl
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from mainstem.pipelines.errors import DamagedState, RunRefused, UnknownPipeline

T = TypeVar("T")
State = Literal["running", "stopped", "failed", "complete", "damaged"]
"""State of a table; ``damaged`` is never stored, but reported if the status cannot be read."""
DEFAULT_STATE = "mainstem-pipelines"
_IDENTITY = re.compile("[0-9a-f]{12}")


class Failure(msgspec.Struct, frozen=True):
    """Why and when a run failed, and at which event, if known."""

    reason: str
    at_ms: int
    event: str | None = None


class Freshness(msgspec.Struct, frozen=True):
    """How long changes took from their commit in the database until the table's sink had them."""

    changes: int
    """Number of changes that the percentiles are over: those of the last 100 batches, at most."""
    p50_ms: int
    p99_ms: int
    last_ms: int
    """The longest time of the last batch."""
    at_ms: int
    """When the sink had the last batch."""

    def __str__(self) -> str:
        return (
            f"p50 {self.p50_ms:,} ms, p99 {self.p99_ms:,} ms (of {self.changes:,} changes), "
            f"last batch {self.last_ms:,} ms from database commit to sink commit"
        )


class TableStatus(msgspec.Struct, frozen=True):
    """State and counters of a table, summed over all runs that used its checkpoint."""

    state: State
    file: str = ""
    pid: int = 0
    address: str = ""
    batch: int = -1
    events: int = 0
    """Number of events read so far."""
    rows_per_second: float = 0.0
    watermark: str | None = None
    state_rows: int = 0
    state_bytes: int = 0
    bad: int = 0
    """Number of events that could not be decoded, or on which the table's query failed."""
    late: int = 0
    """Number of events whose time was not after the watermark of their batch."""
    left_out: int = 0
    """Number of events left out by expectations with ``on_fail="drop"``."""
    expectations: dict[str, int] = {}
    """Number of events that did not fulfil an expectation, by its name; all with a number."""
    dropped_rows: int = 0
    """Number of rows that Spark's operators dropped as late; an event may give none or several."""
    audited: int = -1
    """The last batch whose bad and late events are counted; -1 before the first."""
    offsets: dict[str, dict[str, int]] = {}
    """The next event to read, by topic and partition."""
    freshness: Freshness | None = None
    """None if the table reads no database changes, or none were made since the run started."""
    updated_ms: int = 0
    failure: Failure | None = None
    waiting: str | None = None
    """The sink's store, or the broker, that does not answer and is tried again; None if none."""
    retries: int = 0
    """How often a batch was tried again because a store or the broker did not answer."""
    sink: str = ""
    ended: bool = False
    """Whether the declared end of the input was reached in at least one source."""

    @property
    def exact(self) -> bool:
        """Whether nothing was late, so that a stream, batches and a replay give the same table."""
        return not self.late and not self.dropped_rows


class StateDirectory:
    """The state directory of one table."""

    def __init__(self, directory: Path) -> None:
        # Absolute, as Spark's JVM may have another working directory.
        self.directory = directory.resolve()
        self.checkpoint = self.directory / "checkpoint"
        self.stop_file = self.directory / "stopping"
        self.error = self.directory / "error.txt"
        self.truncation = self.directory / "truncated.json"

    def identity(self) -> str:
        """Return the random id of this checkpoint; creates it at the first call.

        Raises RunRefused if a checkpoint has lost its id, and DamagedState.
        """
        file = self.directory / "identity"
        if not file.exists():
            if self.checkpoint.exists():
                raise RunRefused(
                    f"{self.checkpoint} exists, but {file.name} beside it is missing, so it is not "
                    "known which batches are written; replay into a new target"
                )
            write_state(file, secrets.token_hex(6).encode())
        found = file.read_text(errors="replace")
        if not _IDENTITY.fullmatch(found):
            raise DamagedState(file, "it does not hold the id of a checkpoint")
        return found

    def schemas(self) -> dict[str, str]:
        """Return the inferred schemas: source → DDL."""
        file = self.directory / "schemas.json"
        return read_state(file, dict[str, str]) if file.exists() else {}

    def save_schemas(self, schemas: dict[str, str]) -> None:
        """Save the inferred schemas."""
        write_state(self.directory / "schemas.json", msgspec.json.encode(schemas))

    def skipped_events(self) -> dict[str, dict[str, dict[str, str]]]:
        """Return the events to skip: topic → partition → offset → reason."""
        file = self.directory / "skips.json"
        return read_state(file, dict[str, dict[str, dict[str, str]]]) if file.exists() else {}

    def save_skipped_events(self, skips: dict[str, dict[str, dict[str, str]]]) -> None:
        """Save the events to skip, all of them: topic → partition → offset → reason."""
        write_state(self.directory / "skips.json", msgspec.json.encode(skips))

    def status(self) -> TableStatus | None:
        """Return the table's status; None if it never ran.

        A status ``running`` whose process has ended becomes ``failed``. Raises DamagedState.
        """
        file = self.directory / "standing.json"
        if not file.exists():
            return None
        found = read_state(file, TableStatus)
        if found.state == "running" and not _runs(found.pid):
            failure = found.failure or Failure("its process ended unexpectedly", found.updated_ms)
            return msgspec.structs.replace(found, state="failed", failure=failure)
        return found

    def save_status(self, status: TableStatus) -> None:
        """Save the table's status to its file."""
        write_state(self.directory / "standing.json", msgspec.json.encode(status))


def read_state(file: Path, kind: type[T]) -> T:
    """Parse a JSON file as ``kind``; raises DamagedState if it cannot be read."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=kind)
    except (OSError, ValueError) as error:
        raise DamagedState(file, str(error)) from None


def pipeline_directory(state: Path, pipeline: str, into: str | None = None) -> Path:
    """Return the state directory of a pipeline, or of a replay of it."""
    return state / (f"{pipeline}@{into}" if into else pipeline)


def table_statuses(state: Path, pipeline: str | None = None) -> list[tuple[str, str, TableStatus]]:
    """Return pipeline, table and status of all tables that ever ran.

    A table whose status cannot be read has the state ``damaged``, with the reason. Raises
    UnknownPipeline if ``pipeline`` is given and none of its tables ever ran.
    """
    found = []
    for directory in sorted(state.glob("*/*/standing.json")):
        table = directory.parent
        if pipeline is None or table.parent.name == pipeline:
            try:
                status = StateDirectory(table).status()
            except DamagedState as damaged:
                status = TableStatus("damaged", failure=Failure(str(damaged), 0))
            if status is not None:
                found.append((table.parent.name, table.name, status))
    if pipeline is not None and not found:
        raise UnknownPipeline(
            f"no run of pipeline {pipeline!r} is known in {state}; list runs: mainstem pipeline ls"
        )
    return found


@contextmanager
def run_lock(directory: Path) -> Iterator[None]:
    """Lock a pipeline's state for one run; raises RunRefused if another process has the lock."""
    directory.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(directory / "lock", os.O_RDWR | os.O_CREAT, 0o640)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.read(descriptor, 20).decode() or "unknown"
            raise RunRefused(
                f"pipeline {directory.name!r} is being run by process {holder}; stop it first, "
                "or replay into a new target (--replay --into NAME)"
            ) from None
        os.truncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def write_state(file: Path, data: bytes) -> None:
    """Replace a file atomically: after a crash it has the old content or the new."""
    file.parent.mkdir(parents=True, exist_ok=True)
    # Hidden, so that Spark does not read it as data.
    draft = file.with_name(f".{file.name}")
    with draft.open("wb") as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())
    draft.rename(file)

"""How a table of a pipeline stands: what its last run left behind, in files that survive it.

STATE/PIPELINE/TABLE/checkpoint     Spark's own
                    /identity       names this checkpoint in the marks of sinks
                    /schemas.json   what was inferred, so that a restart infers nothing else
                    /skips.json     events on which the function failed
                    /standing.json  the figures below
                    /stopping       is there while no batch shall begin
                    /error.txt      the last error, whole
              /spark.log            what Spark reports as errors
STATE/PIPELINE@NAME/...             the same for a replay into NAME
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
"""The last is never written: so stands a table whose file cannot be read."""
DEFAULT_STATE = "mainstem-pipelines"
_IDENTITY = re.compile("[0-9a-f]{12}")


class Failure(msgspec.Struct, frozen=True):
    """Why a run stopped, and at which event if that is known."""

    reason: str
    at_ms: int
    event: str | None = None


class TableStatus(msgspec.Struct, frozen=True):
    """What is known of a table from its runs so far."""

    state: State
    file: str = ""
    pid: int = 0
    address: str = ""
    batch: int = -1
    events: int = 0
    """Read, by all runs on this checkpoint."""
    rows_per_second: float = 0.0
    watermark: str | None = None
    state_rows: int = 0
    state_bytes: int = 0
    bad: int = 0
    """Events that could not be decoded, or on which the table's function failed."""
    late: int = 0
    """Events that came later than the watermark allows."""
    dropped_rows: int = 0
    """Rows that Spark's operators dropped as late; of an event they may drop none or several."""
    audited: int = -1
    """The last batch whose bad and late events are counted."""
    offsets: dict[str, dict[str, int]] = {}
    """Topic and partition → the next event to read."""
    updated_ms: int = 0
    failure: Failure | None = None
    sink: str = ""
    ended: bool = False
    """Whether the end of the input was read, of one source at least: no more of it is."""

    @property
    def exact(self) -> bool:
        """Whether other ways to run would have given the same table."""
        return not self.late and not self.dropped_rows


class StateDirectory:
    """The directory of one table's state."""

    def __init__(self, directory: Path) -> None:
        # Spark's JVM has a working directory of its own.
        self.directory = directory.resolve()
        self.checkpoint = self.directory / "checkpoint"
        self.stop_file = self.directory / "stopping"
        self.error = self.directory / "error.txt"

    def identity(self) -> str:
        """Return the name of this checkpoint, made once with it."""
        file = self.directory / "identity"
        if not file.exists():
            if self.checkpoint.exists():
                raise RunRefused(
                    f"{self.checkpoint} is there, and {file.name} beside it is not, without which "
                    "batches that are written already cannot be told; replay into a new target"
                )
            _write(file, secrets.token_hex(6).encode())
        found = file.read_text(errors="replace")
        if not _IDENTITY.fullmatch(found):
            raise DamagedState(file, "it does not hold the name of a checkpoint")
        return found

    def schemas(self) -> dict[str, str]:
        """Return what was inferred for sources."""
        file = self.directory / "schemas.json"
        return read_state(file, dict[str, str]) if file.exists() else {}

    def save_schemas(self, schemas: dict[str, str]) -> None:
        """Keep what was inferred."""
        _write(self.directory / "schemas.json", msgspec.json.encode(schemas))

    def skipped_events(self) -> dict[str, dict[str, dict[str, str]]]:
        """Return events that are left out: topic → partition → offset → why."""
        file = self.directory / "skips.json"
        return read_state(file, dict[str, dict[str, dict[str, str]]]) if file.exists() else {}

    def save_skipped_events(self, skips: dict[str, dict[str, dict[str, str]]]) -> None:
        """Keep which events are left out."""
        _write(self.directory / "skips.json", msgspec.json.encode(skips))

    def status(self) -> TableStatus | None:
        """Return how the table stands; None if it never ran. Raises DamagedState."""
        file = self.directory / "standing.json"
        if not file.exists():
            return None
        found = read_state(file, TableStatus)
        if found.state == "running" and not _runs(found.pid):
            failure = found.failure or Failure("its process ended without a word", found.updated_ms)
            return msgspec.structs.replace(found, state="failed", failure=failure)
        return found

    def save_status(self, status: TableStatus) -> None:
        """Keep how the table stands."""
        _write(self.directory / "standing.json", msgspec.json.encode(status))


def read_state(file: Path, kind: type[T]) -> T:
    """Return what a file of JSON holds; raises DamagedState if it cannot be read."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=kind)
    except (OSError, ValueError) as error:
        raise DamagedState(file, str(error)) from None


def pipeline_directory(state: Path, pipeline: str, into: str | None = None) -> Path:
    """Return where the state of a pipeline, or of a replay of it, is kept."""
    return state / (f"{pipeline}@{into}" if into else pipeline)


def table_statuses(state: Path, pipeline: str | None = None) -> list[tuple[str, str, TableStatus]]:
    """Return pipeline, table and status of everything that ever ran; raises UnknownPipeline.

    A table whose file cannot be read stands as ``damaged``, and its failure says why.
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
            f"no run of pipeline {pipeline!r} is known in {state}; mainstem pipeline ls lists them"
        )
    return found


@contextmanager
def run_lock(directory: Path) -> Iterator[None]:
    """Hold a pipeline's state for one run; raises RunRefused if another process does."""
    directory.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(directory / "lock", os.O_RDWR | os.O_CREAT, 0o640)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.read(descriptor, 20).decode() or "unknown"
            raise RunRefused(
                f"pipeline {directory.name!r} is being run by process {holder}; stop that first, "
                "or replay into a target of its own (--replay --into NAME)"
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


def _write(file: Path, data: bytes) -> None:
    """Replace a file so that a crash leaves the old one or the new one."""
    file.parent.mkdir(parents=True, exist_ok=True)
    # Not hidden by a name that Spark would read as data.
    draft = file.with_name(f".{file.name}")
    with draft.open("wb") as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())
    draft.rename(file)

"""All connectors of a node: defined, started, stopped and shown; each runs in its own thread.

How this works: settings, progress and pauses are stored as definitions of ``connectors`` in the
broker, so they survive a restart. A change stops the connector's thread and starts a new one.
Methods block: call them in a thread that is not the event loop's.
"""

import threading
from collections.abc import Callable, Sequence

import msgspec

from mainstem.broker.door import Door
from mainstem.connectors import complete, kind_of
from mainstem.connectors.errors import (
    ConnectorExists,
    SourceFailed,
    SourceRefused,
    UnknownConnector,
)
from mainstem.connectors.events.envelope import check_topics
from mainstem.connectors.events.outbox import OutboxRouter, is_outbox
from mainstem.connectors.port import Source, Table
from mainstem.connectors.running.lease_messages import Taken
from mainstem.connectors.running.leases import Leases
from mainstem.connectors.running.progress import (
    CONFIG,
    HEAD,
    PAUSED,
    PROGRESS,
    REQUEST,
    SCHEMA,
    Progress,
    decode_progress,
)
from mainstem.connectors.running.report import NOT_RUNNING, Report
from mainstem.connectors.running.target import DoorTarget
from mainstem.connectors.running.worker import Worker, task_of
from mainstem.connectors.secrets import Secrets
from mainstem.connectors.selection import Selection
from mainstem.connectors.settings import ConnectorSettings
from mainstem.core.errors import InvalidSetting


class ConnectorState(msgspec.Struct, frozen=True):
    """A connector's settings, status and progress, for operators."""

    settings: ConnectorSettings
    kind: str
    report: Report
    runs_in: str
    """``server``, the process that runs it, or empty if nothing does."""
    progress: Progress


class Connectors:
    """The connectors of one node."""

    def __init__(
        self, door: Door, secrets: Secrets, version: str, now_ns: Callable[[], int]
    ) -> None:
        self._door = door
        self._secrets = secrets
        self._version = version
        self._now_ns = now_ns
        self._definitions = door.definitions.open(HEAD)
        self._lock = threading.Lock()
        self._workers: dict[str, Worker] = {}
        self.leases = Leases(door)
        """Of the connectors that processes of their own run."""

    def start(self) -> None:
        """Start all connectors that are defined."""
        with self._lock:
            for name in self._definitions.items(CONFIG):
                self._start(name)

    def close(self) -> None:
        """Stop all connectors; what they have published is durable on return."""
        with self._lock:
            for worker in self._workers.values():
                worker.tell()
            for worker in self._workers.values():
                worker.stop()
            self._workers.clear()
            self.leases.close()

    def add(self, settings: ConnectorSettings) -> Sequence[str]:
        """Define and start a connector; return the tables that it captures.

        Connects to the database first, and refuses a connector that would stop at once. Raises
        InvalidSetting, ConnectorExists, SourceFailed and SourceRefused.
        """
        with self._lock:
            if self._definitions.get(CONFIG, settings.name) is not None:
                raise ConnectorExists(settings.name)
            settings, tables = self._examined(settings, captures=True)
            self._definitions.set(CONFIG, settings.name, msgspec.json.encode(settings)).wait()
            self._start(settings.name)
        return tables

    def check(self, settings: ConnectorSettings) -> Sequence[str]:
        """Do the checks of ``add`` and return the tables; changes nothing."""
        return self._examined(settings, captures=False)[1]

    def alter(self, settings: ConnectorSettings) -> Sequence[str]:
        """Change a connector's settings, with the checks of ``add``; it continues where it was."""
        with self._lock:
            before = self._settings(settings.name)
            for field in ("prefix", "slot", "publication", "outbox"):
                if getattr(settings, field) != getattr(before, field):
                    raise InvalidSetting(
                        f"{field} of connector {settings.name} cannot be changed: remove it, and "
                        "add it anew"
                    )
            settings, tables = self._examined(settings, captures=False)
            self.leases.void(settings.name)
            # Its source would keep the database recording the tables of before.
            self._stop(settings.name)
            try:
                settings, tables = self._examined(settings, captures=True)
                self._definitions.set(CONFIG, settings.name, msgspec.json.encode(settings)).wait()
            finally:
                self._start(settings.name)
        return tables

    def remove(self, name: str, *, keep: bool = False) -> None:
        """Stop a connector and delete it, and unless ``keep`` what it created in the database."""
        with self._lock:
            settings = self._settings(name)
            self.leases.end(name)
            self._stop(name)
            if not keep:
                self._release(settings)
            schemas = self._definitions.items(SCHEMA)
            names = [(SCHEMA, each) for each in schemas if each.startswith(f"{name}/")]
            names += [(kind, name) for kind in (CONFIG, PROGRESS, PAUSED, REQUEST)]
            self._definitions.change(dict.fromkeys(names)).wait()

    def pause(self, name: str) -> None:
        """Stop following until ``resume``; meanwhile the database keeps its log."""
        self._change(name, {(PAUSED, name): b"true"})

    def resume(self, name: str) -> None:
        """End a pause."""
        self._change(name, {(PAUSED, name): None})

    def restart(self, name: str, *, snapshot: bool = False) -> None:
        """Stop and start a connector; ``snapshot`` makes it read all tables again first."""
        changes: dict[tuple[str, str], bytes | None] = {}
        if snapshot:
            known = decode_progress(self._definitions.get(PROGRESS, name))
            changes[PROGRESS, name] = msgspec.json.encode(Progress(epoch=known.epoch))
        self._change(name, changes)

    def snapshot(self, name: str, tables: Sequence[str]) -> None:
        """Make a connector read tables again while it follows; no names: all that have a key."""
        with self._lock:
            self._settings(name)
            self._definitions.set(REQUEST, name, msgspec.json.encode(list(tables))).wait()

    def take(self, name: str, holder: str) -> Taken:
        """Give a process the lease to run a connector; raises UnknownConnector, ConnectorTaken."""
        with self._lock:
            settings = self._settings(name)
            taken = self.leases.take(name, holder, lambda: self._stop(name))
            # The server's own thread then waits until the process has ended.
            if name not in self._workers and not settings.own_process:
                self._start(name)
            return taken

    def show(self, name: str) -> ConnectorState:
        """Return a connector's state; raises UnknownConnector."""
        settings = self._settings(name)
        report, runs_in = self._report(name, settings)
        progress = decode_progress(self._definitions.get(PROGRESS, name))
        return ConnectorState(settings, kind_of(settings.url).name, report, runs_in, progress)

    def _report(self, name: str, settings: ConnectorSettings) -> tuple[Report, str]:
        leased = self.leases.report(name)
        if leased is not None:
            return leased
        worker = self._workers.get(name)
        if worker is not None:
            return worker.report, "server"
        report = Report()
        if settings.own_process:
            report.phase = NOT_RUNNING
        return report, ""

    def names(self) -> list[str]:
        """Return the names of all connectors."""
        return sorted(self._definitions.items(CONFIG))

    def _examined(
        self, settings: ConnectorSettings, *, captures: bool
    ) -> tuple[ConnectorSettings, Sequence[str]]:
        """Connect and check that a connector could run; return complete settings and table names.

        ``captures`` makes the database record the changes of the tables, too.
        """
        settings = complete(settings)
        kind_of(settings.url).check(settings)
        self._secrets.check(settings)
        source = self._source(settings)
        try:
            found = source.tables()
            check_topics(settings.topic_prefix, found)
            tables = [_checked(settings, each).id for each in found]
            if missing := [each for each in settings.outbox if each not in tables]:
                raise SourceRefused(f"there is no outbox table {missing[0]}: create it first")
            if captures:
                source.capture(found)
        finally:
            source.close()
        return settings, tables

    def _change(self, name: str, changes: dict[tuple[str, str], bytes | None]) -> None:
        with self._lock:
            self._settings(name)
            self.leases.void(name)
            self._stop(name)
            self._definitions.change(changes).wait()
            self._start(name)

    def _settings(self, name: str) -> ConnectorSettings:
        found = self._definitions.get(CONFIG, name)
        if found is None:
            raise UnknownConnector(name)
        return msgspec.json.decode(found, type=ConnectorSettings)

    def _start(self, name: str) -> None:
        settings = self._settings(name)
        if settings.own_process:
            return
        target, duties = DoorTarget(self._door), self._door.duties
        task = task_of(settings, target, duties, self._secrets, self._version, self._now_ns)
        paused = self._definitions.get(PAUSED, name) is not None
        worker = self._workers[name] = Worker(task, paused=paused)
        worker.start()

    def _stop(self, name: str) -> None:
        worker = self._workers.pop(name, None)
        if worker is not None:
            worker.stop()

    def _release(self, settings: ConnectorSettings) -> None:
        source = self._source(settings)
        try:
            source.release()
        except SourceFailed as error:
            raise SourceFailed(
                f"{error}; the database still keeps its log for the connector: try again when it "
                "is back, or remove it with --keep and drop the slot yourself"
            ) from None
        finally:
            source.close()

    def _source(self, settings: ConnectorSettings) -> Source:
        return kind_of(settings.url).open(settings, lambda: self._secrets.password(settings))


def _checked(settings: ConnectorSettings, table: Table) -> Table:
    """Return the table as published; raises SourceRefused if the settings do not fit it."""
    reduced, _ = Selection(settings).reduced(table)
    if is_outbox(settings, table):
        OutboxRouter(settings, reduced)
    return reduced

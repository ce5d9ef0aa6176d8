"""The connectors of a server, started with it, and the admin port's operations on them.

Their code is imported only when a connector is defined. All operations need permission to alter the
cluster, because a connector publishes to every topic whose name begins with its prefix.
"""

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from mainstem import __version__
from mainstem.auth import CLUSTER, Action, Peer
from mainstem.connectors.running.lease_messages import Status, Taken, TargetTopic
from mainstem.connectors.running.progress import CONFIG, HEAD
from mainstem.connectors.settings import ConnectorSettings
from mainstem.core.topic_settings import TopicSettings
from mainstem.heads.context import HeadContext
from mainstem.heads.metric import Metric, Sample
from mainstem.node import metrics
from mainstem.node.config import Config

if TYPE_CHECKING:
    from mainstem.connectors.running.runtime import Connectors, ConnectorState

LIST, SHOW, ADD, REMOVE = "connectors", "connectors/show", "connectors/add", "connectors/remove"
PAUSE, RESUME, RESTART = "connectors/pause", "connectors/resume", "connectors/restart"
SNAPSHOT, ALTER, CHECK = "connectors/snapshot", "connectors/alter", "connectors/check"
TAKE, RENEW, END = "connectors/take", "connectors/renew", "connectors/end"
PUBLISH, TOPIC = "connectors/publish", "connectors/topic"
Asked = TypeVar("Asked", bound=msgspec.Struct)
_PHASES = {"paused": 0.0, "failed": -1.0, "retrying": -0.5, "not running": -0.5}
"""The values of the state metric that are not 1."""


class ListConnectors(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Operation: list all connectors."""


class ConnectorName(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Operation on one connector: show, pause, or resume it."""

    name: str


class AddConnector(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Operation: define and start a connector."""

    settings: ConnectorSettings


class AlterConnector(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Operation: change the settings of a connector, which continues where it was."""

    settings: ConnectorSettings


class CheckConnector(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Operation: connect to the database, and return the tables that would be captured."""

    settings: ConnectorSettings


class RemoveConnector(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Operation: delete a connector; ``keep`` leaves what it created in the database."""

    name: str
    keep: bool = False


class RestartConnector(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Operation: stop and start a connector; ``snapshot`` reads all tables again first."""

    name: str
    snapshot: bool = False


class SnapshotTables(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Operation: read tables again while following; if none is named, all that have a key."""

    name: str
    tables: tuple[str, ...] = ()


class TakeConnector(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Operation: give a process of its own the lease to run a connector."""

    name: str
    holder: str


class OfLease(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What names a lease: the connector, and the token that its process was given."""

    name: str
    token: str


class RenewLease(OfLease, frozen=True):
    """Operation: extend the lease of a connector, and report its status."""

    status: Status


class EndLease(OfLease, frozen=True):
    """Operation: end the lease of a connector, which its process has stopped."""


class PublishPiece(OfLease, frozen=True):
    """Operation: send a piece of an append of events and progress; the last piece appends it."""

    piece: bytes
    at: int
    """How long the pieces before are."""
    is_last: bool


class LeasedTopic(OfLease, frozen=True):
    """Operation: return a topic for a connector; if ``create`` is given, create it before."""

    topic: str
    create: TopicSettings | None = None


class Renewed(msgspec.Struct, frozen=True):
    """Result: the stored request to read tables again, None if there is none."""

    request: bytes | None


class PieceTaken(msgspec.Struct, frozen=True):
    """Result of a piece: why the append failed; empty if it succeeded, or is not complete yet."""

    why: str


class FoundTopic(msgspec.Struct, frozen=True):
    """Result: the topic, None if it does not exist."""

    topic: TargetTopic | None


class Added(msgspec.Struct, frozen=True):
    """Result: the tables that the connector captures now."""

    tables: Sequence[str]


class Done(msgspec.Struct, frozen=True):
    """Result of an operation that returns nothing."""

    done: bool = True


class ConnectorInfo(msgspec.Struct, frozen=True):
    """A connector, as the admin port describes it."""

    name: str
    kind: str
    phase: str
    """starting, snapshot, following, paused, retrying or failed; with details after a comma."""
    error: str
    note: str
    alarm: str
    """That the database keeps more log for the connector than its ``alarm_slot_bytes``."""
    runs_in: str
    """``server``, the process that runs it (``mainstem connector run``), or empty if none does."""
    published: int
    """Events published since the connector was started."""
    lag_bytes: int
    """How much log the database keeps for the connector."""
    position: list[int]
    pending: list[str]
    """Tables that a snapshot has still to read."""
    settings: ConnectorSettings


class NodeConnectors:
    """The connectors of a server; creates their runtime at first use."""

    def __init__(self, context: HeadContext, config: Config) -> None:
        self._context = context
        self._config = config
        self._lock = threading.Lock()
        self._runtime: Connectors | None = None

    @property
    def runtime(self) -> "Connectors":
        """The runtime of connectors; created at first use."""
        from mainstem.connectors.running.runtime import Connectors  # noqa: PLC0415 - seldom needed
        from mainstem.connectors.secrets import Secrets  # noqa: PLC0415

        with self._lock:
            if self._runtime is None:
                secrets = Secrets(Path(self._config.connectors.secrets_dir), os.environ)
                context = self._context
                self._runtime = Connectors(
                    context.broker, secrets, __version__, lambda: context.now_ms() * 1_000_000
                )
            return self._runtime

    def start(self) -> None:
        """Start the connectors that are defined; blocks while their definitions are read."""
        if self._context.broker.definitions.open(HEAD).items(CONFIG):
            self.runtime.start()

    def close(self) -> None:
        """Stop all connectors; blocks until what they have published is durable."""
        if self._runtime is not None:
            self._runtime.close()

    def samples(self) -> Iterator[tuple[Metric, Sample]]:
        """Yield the metrics of all connectors; none if no runtime was needed yet."""
        if self._runtime is None:
            return
        now_us = self._context.now_ms() * 1000
        for state in _states(self._runtime):
            labels, report = (state.settings.name,), state.report
            phase = _PHASES.get(report.phase, 1.0)
            yield metrics.CONNECTOR_STATE, (labels, phase)
            yield metrics.CONNECTOR_EVENTS, (labels, report.published)
            yield metrics.CONNECTOR_LAG_BYTES, (labels, report.lag_bytes)
            yield metrics.CONNECTOR_ALARM, (labels, int(bool(report.alarm)))
            age_s = max(0, now_us - report.committed_us) / 1e6 if report.committed_us else 0
            yield metrics.CONNECTOR_COMMIT_AGE, (labels, age_s)

    def offer(self) -> None:
        """Register the operations at the admin port; called when the log is open."""
        at = "connectors/{name}"
        self._offer(
            LIST,
            ListConnectors,
            self._list,
            "GET connectors",
            "List connectors.",
            list[ConnectorInfo],
        )
        self._offer(
            SHOW,
            ConnectorName,
            lambda it: _info(self.runtime.show(it.name)),
            f"GET {at}",
            "Show a connector: what it does, and its last error.",
            ConnectorInfo,
        )
        self._offer(
            ADD,
            AddConnector,
            lambda it: Added(self.runtime.add(it.settings)),
            "POST connectors",
            "Define and start a connector.",
            Added,
        )
        self._offer(
            ALTER,
            AlterConnector,
            lambda it: Added(self.runtime.alter(it.settings)),
            "PUT connectors",
            "Change the settings of a connector, which continues at the same position.",
            Added,
        )
        self._offer(
            CHECK,
            CheckConnector,
            lambda it: Added(self.runtime.check(it.settings)),
            "POST connector-checks",
            "Connect to a database, and return the tables that a connector would capture.",
            Added,
        )
        self._offer(
            REMOVE,
            RemoveConnector,
            lambda it: self.runtime.remove(it.name, keep=it.keep),
            f"DELETE {at}",
            "Delete a connector; its topics stay.",
        )
        self._offer(
            PAUSE,
            ConnectorName,
            lambda it: self.runtime.pause(it.name),
            f"POST {at}/pause",
            "Stop following; the database keeps its changes.",
        )
        self._offer(
            RESUME,
            ConnectorName,
            lambda it: self.runtime.resume(it.name),
            f"POST {at}/resume",
            "Continue after a pause, at the same position.",
        )
        self._offer(
            RESTART,
            RestartConnector,
            lambda it: self.runtime.restart(it.name, snapshot=it.snapshot),
            f"POST {at}/restart",
            "Stop and start a connector, for example after the cause of an error was removed.",
        )
        self._offer(
            SNAPSHOT,
            SnapshotTables,
            lambda it: self.runtime.snapshot(it.name, it.tables),
            f"POST {at}/snapshot",
            "Read tables again while following; all captured ones if none is named.",
        )

        self._offer_leases(at)

    def _offer_leases(self, at: str) -> None:
        """Register the operations that a process of its own needs to run a connector."""
        self._offer(
            TAKE,
            TakeConnector,
            lambda it: self.runtime.take(it.name, it.holder),
            f"POST {at}/lease",
            "Take the lease of a connector, to run it in a separate process (mainstem connector "
            "run).",
            Taken,
        )
        self._offer(
            RENEW,
            RenewLease,
            lambda it: Renewed(self.runtime.leases.renew(it.name, it.token, it.status)),
            f"PUT {at}/lease",
            "Renew the lease, and report the status of the connector.",
            Renewed,
        )
        self._offer(
            END,
            EndLease,
            lambda it: self.runtime.leases.end(it.name, it.token),
            f"DELETE {at}/lease",
            "End the lease; the server's own thread runs the connector again.",
        )
        self._offer(
            PUBLISH,
            PublishPiece,
            lambda it: PieceTaken(
                self.runtime.leases.publish(it.name, it.token, it.piece, it.at, is_last=it.is_last)
            ),
            f"POST {at}/lease/publish",
            "Append events of a connector together with its progress.",
            PieceTaken,
        )
        self._offer(
            TOPIC,
            LeasedTopic,
            lambda it: FoundTopic(
                self.runtime.leases.topic(it.name, it.token, it.topic, it.create)
            ),
            f"POST {at}/lease/topic",
            "Return a topic of a connector, or create it.",
            FoundTopic,
        )

    def _list(self, _asked: ListConnectors) -> list[ConnectorInfo]:
        return [_info(each) for each in _states(self.runtime)]

    def _offer(
        self,
        name: str,
        arguments: type[Asked],
        call: Callable[[Asked], object],
        route: str,
        summary: str,
        answer: object = Done,
    ) -> None:
        def run(peer: Peer, asked: Asked) -> object:
            self._context.auth.authorize(peer.principal, Action.ALTER, CLUSTER)
            found = call(asked)
            return Done() if found is None else found

        is_change = name not in (LIST, SHOW)
        self._context.administration.offer(
            name, arguments, run, changes=is_change, route=route, answer=answer, summary=summary
        )


def _states(runtime: "Connectors") -> Iterator["ConnectorState"]:
    from mainstem.connectors.errors import UnknownConnector  # noqa: PLC0415 - seldom needed

    for name in runtime.names():
        # A connector may be removed meanwhile.
        with contextlib.suppress(UnknownConnector):
            yield runtime.show(name)


def _info(state: "ConnectorState") -> ConnectorInfo:
    progress = state.progress
    return ConnectorInfo(
        name=state.settings.name,
        kind=state.kind,
        phase=state.report.phase,
        error=state.report.trouble,
        note=state.report.note,
        alarm=state.report.alarm,
        runs_in=state.runs_in,
        published=state.report.published,
        lag_bytes=state.report.lag_bytes,
        position=[] if progress.position is None else list(progress.position.at),
        pending=[each.table for each in progress.pending],
        settings=state.settings,
    )

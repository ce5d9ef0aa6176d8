"""Operations on the node itself: overview, connections, history of metrics."""

from typing import Annotated

import msgspec
from msgspec import Meta

from mainstem import __version__
from mainstem.auth import CLUSTER, Action, Peer
from mainstem.heads.admin_operations import NoArguments
from mainstem.heads.context import HeadContext
from mainstem.node.admin_queries import AdminQueries
from mainstem.node.metrics_history import MetricsHistory


class Overview(msgspec.Struct, frozen=True):
    """The node at a glance."""

    version: str
    run_id: str
    """Random id of this run of the server."""
    now_ms: int
    not_ready: str | None
    """Why the node cannot be used; None if it can."""
    addresses: dict[str, str]
    """Where each head listens."""
    topics: int
    queues: int
    groups: int
    connections: dict[str, int]
    """Number of open connections of each head."""


class Connection(msgspec.Struct, frozen=True):
    """A connected peer."""

    head: str
    peer: str
    connected_s: float


class ShowHistory(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Show how counters and gauges of the heads changed in the last hour."""

    metric: Annotated[str, Meta(description="Name of one metric; otherwise all.")] = ""
    since_ms: Annotated[int, Meta(description="Only samples after this time.")] = 0


class History(msgspec.Struct, frozen=True):
    """Samples of metrics, the oldest first."""

    times_ms: list[int]
    values: dict[str, list[float | None]]
    """By metric, its sum over all labels at each time; None where there was none yet."""


class OverviewOperations:
    """Operations on the node; they need the right to describe the cluster."""

    def __init__(
        self, context: HeadContext, queries: AdminQueries, history: MetricsHistory
    ) -> None:
        self._context, self._queries, self._history = context, queries, history

    def offer(self) -> None:
        """Register the operations."""
        offer = self._context.administration.offer
        offer(
            "overview",
            NoArguments,
            self.overview,
            changes=False,
            answer=Overview,
            summary="Show version, addresses, and numbers of topics, queues, groups, connections.",
        )
        offer(
            "connections/list",
            NoArguments,
            self.connections,
            changes=False,
            route="GET connections",
            answer=list[Connection],
            summary="List the connected peers of every head.",
        )
        offer(
            "metrics/history",
            ShowHistory,
            self.history,
            changes=False,
            answer=History,
        )

    def overview(self, peer: Peer, _: NoArguments) -> Overview:
        """Return version and addresses, and how many topics, queues, groups and connections."""
        self._check(peer)
        broker, heads = self._context.broker, dict(self._queries.heads)
        return Overview(
            version=__version__,
            run_id=self._context.run_id,
            now_ms=self._context.now_ms(),
            not_ready=self._queries.not_ready(),
            addresses={name: str(at) for name, at in dict(self._context.addresses).items()},
            topics=len(broker.topics()),
            queues=len(broker.queues.every()),
            groups=len(broker.group_names()),
            connections={name: head.traffic.open for name, head in heads.items()},
        )

    def connections(self, peer: Peer, _: NoArguments) -> list[Connection]:
        """Return the connected peers."""
        self._check(peer)
        return [
            Connection(name, each.peer, each.connected_s)
            for name, head in dict(self._queries.heads).items()
            for each in head.connections()
        ]

    def history(self, peer: Peer, asked: ShowHistory) -> History:
        """Return samples of metrics."""
        self._check(peer)
        return History(*self._history.since(asked.since_ms, asked.metric))

    def _check(self, peer: Peer) -> None:
        self._context.auth.authorize(peer.principal, Action.DESCRIBE, CLUSTER)

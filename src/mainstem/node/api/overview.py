"""Operations on the node itself: overview, connections, recent metrics."""

from typing import Annotated

import msgspec
from msgspec import Meta

from mainstem import __version__
from mainstem.auth import CLUSTER, Action, Peer
from mainstem.heads.admin_operations import NoArguments, operation
from mainstem.heads.context import HeadContext
from mainstem.node.admin_queries import AdminQueries
from mainstem.node.metrics_history import MetricsHistory


class Overview(msgspec.Struct, frozen=True):
    """Version, addresses and counts of a node."""

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
    """A connected client."""

    head: str
    peer: str
    connected_s: float


class ShowHistory(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Show how counters and gauges of the heads changed in the last hour."""

    metric: Annotated[str, Meta(description="Name of one metric; otherwise all.")] = ""
    since_ms: Annotated[int, Meta(description="Only samples after this time.")] = 0


class History(msgspec.Struct, frozen=True):
    """The values of metrics at several times, the oldest first."""

    times_ms: list[int]
    values: dict[str, list[float | None]]
    """By metric, its sum over all labels at each time; None where there was none yet."""


class OverviewOperations:
    """Operations on the node; they require permission to describe the cluster."""

    def __init__(
        self, context: HeadContext, queries: AdminQueries, history: MetricsHistory
    ) -> None:
        self._context, self._queries, self._history = context, queries, history

    @operation("overview", changes=False)
    def overview(self, peer: Peer, _: NoArguments) -> Overview:
        """Show version, addresses, and numbers of topics, queues, groups, connections."""
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

    @operation("connections/list", "GET connections")
    def connections(self, peer: Peer, _: NoArguments) -> list[Connection]:
        """List the connected peers of every head."""
        self._check(peer)
        return [
            Connection(name, each.peer, each.connected_s)
            for name, head in dict(self._queries.heads).items()
            for each in head.connections()
        ]

    @operation("metrics/history", changes=False)
    def history(self, peer: Peer, asked: ShowHistory) -> History:
        """Show how counters and gauges of the heads changed in the last hour."""
        self._check(peer)
        return History(*self._history.since(asked.since_ms, asked.metric))

    def _check(self, peer: Peer) -> None:
        self._context.auth.authorize(peer.principal, Action.DESCRIBE, CLUSTER)

"""Operations on pipelines: list, show. They read the state that the pipelines' processes store."""

from pathlib import Path

import msgspec

from mainstem.auth import CLUSTER, Action, Peer
from mainstem.core.errors import MainstemError
from mainstem.heads.admin_operations import NoArguments, operation
from mainstem.heads.context import HeadContext
from mainstem.node.config import Config
from mainstem.pipelines.state.table_state import TableStatus, table_statuses


class NamePipeline(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Names a pipeline."""

    pipeline: str


class PipelineTable(msgspec.Struct, frozen=True):
    """A table of a pipeline, and its status."""

    pipeline: str
    table: str
    lag: int | None
    """How many offsets of its topics it has not read; None if a topic is not on this server."""
    status: TableStatus


class PipelineOperations:
    """Operations on pipelines; they require permission to describe the cluster."""

    def __init__(self, context: HeadContext, config: Config) -> None:
        self._context, self._state = context, Path(config.pipelines)

    @operation("pipelines/list", "GET pipelines")
    def every(self, peer: Peer, _: NoArguments) -> list[PipelineTable]:
        """List the tables of the pipelines in the server's state directory of pipelines."""
        return self._tables(peer, None)

    @operation("pipelines/show", "GET pipelines/{pipeline}")
    def show(self, peer: Peer, asked: NamePipeline) -> list[PipelineTable]:
        """Show the tables of a pipeline: offsets, lag, freshness, and the last error."""
        return self._tables(peer, asked.pipeline)

    def _tables(self, peer: Peer, pipeline: str | None) -> list[PipelineTable]:
        self._context.auth.authorize(peer.principal, Action.DESCRIBE, CLUSTER)
        return [
            PipelineTable(name, table, self._lag(status), status)
            for name, table, status in table_statuses(self._state, pipeline)
        ]

    def _lag(self, status: TableStatus) -> int | None:
        if status.address != str(self._context.addresses.get("kafka")):
            return None
        try:
            return sum(
                max(0, self._context.broker.bounds(topic, int(number)).tail - offset)
                for topic, offsets in status.offsets.items()
                for number, offset in offsets.items()
            )
        except MainstemError:
            return None

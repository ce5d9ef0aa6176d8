"""What the admin HTTP head reads from a node: readiness, metrics, queues, connections."""

import msgspec

from mainstem.core.event import Position
from mainstem.heads.head import RunningHead
from mainstem.node.connector_operations import NodeConnectors
from mainstem.node.health import Health
from mainstem.node.node import Node
from mainstem.node.queue_peek import QueuePeek
from mainstem.node.scrape import Scrape


class AdminQueries:
    """Answers requests of the admin head, also while the server is still opening its log."""

    def __init__(self, health: Health, version: str) -> None:
        self.heads: dict[str, RunningHead] = {}
        """The protocol heads that are running, by name."""
        self.not_ready = health.not_ready
        self._scrape = Scrape(health.not_ready, version)
        self._scrape.heads = self.heads
        self._queue_peek = QueuePeek()

    @property
    def node(self) -> Node | None:
        """The node; None until the server has opened its log."""
        return self._scrape.node

    @node.setter
    def node(self, node: Node) -> None:
        self._scrape.node = self._queue_peek.node = node

    @property
    def connectors(self) -> NodeConnectors | None:
        """The connectors; None until the server has opened its log."""
        return self._scrape.connectors

    @connectors.setter
    def connectors(self, connectors: NodeConnectors) -> None:
        self._scrape.connectors = connectors

    def metrics(self) -> str:
        """Return all metrics in Prometheus text format."""
        return self._scrape.text()

    def queues(self) -> bytes:
        """Return the state of every queue, as JSON."""
        return self._scrape.queues()

    def peek(self, topic: str, name: str, limit: int, after: Position | None) -> bytes:
        """Return up to ``limit`` unsettled events of a queue as JSON, from ``after`` on."""
        return self._queue_peek.page(topic, name, limit, after)

    def connections(self) -> bytes:
        """Return the open connections of every head, as JSON."""
        found = [
            {"head": name, **msgspec.to_builtins(each)}
            for name, head in list(self.heads.items())
            for each in head.connections()
        ]
        return msgspec.json.encode(found)

"""A broker in memory with connectors to one database, and what tests ask of them."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.broker.brokers import read_all
from tests.connectors.mirror import Mirror
from tests.connectors.postgres.equality import assert_equal
from tests.connectors.writer import Dialect, Writer
from tests.in_process_server import server
from tests.processes import wait_until

from mainstem.broker.broker import Broker
from mainstem.connectors.running.runtime import Connectors, ConnectorState
from mainstem.connectors.secrets import Secrets
from mainstem.connectors.settings import ConnectorSettings
from mainstem.node.node import time_of_day_ms


class Desk:
    """A broker with connectors to one database."""

    def __init__(self, broker: Broker, url: str, secrets: Secrets, kafka: str = "") -> None:
        self.broker = broker
        self.kafka = kafka
        """Where Kafka clients find it, if the test needs that."""
        self.url = url
        self.connectors = Connectors(broker, secrets, "test", lambda: time_of_day_ms() * 1_000_000)

    def add(self, *tables: str, name: str = "shop", **settings: Any) -> None:
        """Add a connector; returns when it has read its snapshot, or has failed."""
        given: dict[str, Any] = {"url": self.url, "tables": tables, "heartbeat_ms": 100, **settings}
        self.connectors.add(ConnectorSettings(name=name, **given))
        wait_until(
            lambda: self.state(name).report.phase in {"following", "failed"},
            lambda: str(self.state(name)),
        )

    def add_and_snapshot_again(
        self, dialect: Dialect, seed: int, schema: str, **settings: Any
    ) -> None:
        """Add a connector to ``a`` and ``b`` during random transactions, and read ``a`` again."""
        with Writer(dialect, "ab", seed) as first, Writer(dialect, "ab", -seed) as second:

            def wait_for_commits(count: int) -> None:
                target = first.commits + second.commits + count
                wait_until(lambda: first.commits + second.commits > target, "no commits")

            wait_for_commits(30)
            self.add(f"{schema}.a", f"{schema}.b", **settings)
            self.wait_for("following")
            wait_for_commits(200)
            self.connectors.snapshot("shop", [f"{schema}.a"])
            self.connectors.restart("shop")
            wait_for_commits(200)
        assert not first.errors + second.errors

    def assert_equals(
        self, end: tuple[int, ...], schema: str, rows: Callable[[str], dict[bytes, dict[str, Any]]]
    ) -> None:
        """Wait until the connector has come to a position; compare topics with rows then."""
        self.wait_past(end)
        for table in "ab":
            assert_equal(self.mirror(f"shop.{schema}.{table}"), rows(table))

    def state(self, name: str = "shop") -> ConnectorState:
        """Return what a connector does."""
        return self.connectors.show(name)

    def wait_for(self, phase: str, name: str = "shop") -> ConnectorState:
        """Wait until a connector does something."""

        def does() -> bool:
            return self._decoded(name).report.phase == phase

        wait_until(does, lambda: str(self.state(name)))
        return self.state(name)

    def _decoded(self, name: str) -> ConnectorState:
        """Return what a connector does; take a new snapshot if its error asks for that.

        PostgreSQL 16.2 may not be able to decode its log if a table is truncated while a slot is
        created, which happens to one of a hundred connectors that are added to such tables.
        """
        state = self.state(name)
        if "cannot decode its log" in state.report.trouble:
            self.connectors.restart(name, snapshot=True)
        return state

    def wait_past(self, target: tuple[int, ...], name: str = "shop") -> None:
        """Wait until a connector has stored a position at or after another."""

        def is_there() -> bool:
            progress = self._decoded(name).progress
            position = progress.position
            return position is not None and position.at >= target and not progress.pending

        wait_until(is_there, lambda: str(self.state(name)))

    def values(self, topic: str) -> list[Any]:
        """Return the decoded values of a topic."""
        found = [event.value for event in read_all(self.broker, topic)]
        return [None if each is None else json.loads(each) for each in found]

    def count(self, topic: str) -> int:
        """Return how many events a topic has."""
        return len(read_all(self.broker, topic))

    def table(self, topic: str) -> dict[bytes, Any]:
        """Return the rows that a consumer has who upserts and deletes by key."""
        rows: dict[bytes, Any] = {}
        for event in read_all(self.broker, topic):
            value = None if event.value is None else json.loads(event.value)
            if value is None or value["op"] == "d":
                rows.pop(event.key or b"", None)
            elif value["op"] == "t":
                rows.clear()
            else:
                rows[event.key or b""] = value["after"]
        return rows

    def changes(self, topic: str) -> list[tuple[str, Any, Any]]:
        """Return what each event of a topic says, without tombstones."""
        found = [each for each in self.values(topic) if each is not None]
        return [(each["op"], each["before"], each["after"]) for each in found]

    def mirror(self, topic: str) -> Mirror:
        """Return a table as its events tell it."""
        return Mirror().apply_all(read_all(self.broker, topic))


@contextmanager
def desk(url: str, secrets: Path) -> Iterator[Desk]:
    """Serve in memory until the block ends, and remove all connectors then."""
    with server(None) as running:
        known = Secrets(secrets, {"MAINSTEM_SECRET_A": "hidden"})
        found = Desk(running.node.broker, url, known, str(running.kafka))
        yield found
        for name in found.connectors.names():
            found.connectors.remove(name)
        found.connectors.close()

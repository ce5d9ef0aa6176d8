"""A broker with connectors to a PostgreSQL."""

from tests.broker.brokers import read_all
from tests.connectors.database import Database
from tests.connectors.desk import Desk

from mainstem.broker.broker import Broker
from mainstem.connectors.secrets import Secrets
from mainstem.core.event import Event


class PostgresDesk(Desk):
    """A broker with connectors to a PostgreSQL, which tests can ask what it has committed."""

    def __init__(self, broker: Broker, db: Database, secrets: Secrets) -> None:
        super().__init__(broker, db.url, secrets)
        self.db = db

    def catch_up(self, name: str = "shop") -> None:
        """Wait until everything that is committed is published."""
        self.wait_past(self.db.last(), name)

    def events(self, topic: str) -> list[Event]:
        return read_all(self.broker, topic)

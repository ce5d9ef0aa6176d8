"""The demo's shop: a PostgreSQL that is changed all the time, and a reader of its change events.

One thread runs transactions, another one reads the events that the connector publishes. For the
newest changes the screen shows the row, its event, and what the pipeline made of them.
"""

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import mainstem
from mainstem.cli.admin_port import ServerAdmin
from mainstem.cli.demo.companion import Unavailable
from mainstem.connectors import complete
from mainstem.connectors.settings import ConnectorSettings
from mainstem.core.errors import MainstemError, UnknownTopic
from mainstem.node.connector_operations import (
    ADD,
    REMOVE,
    SHOW,
    AddConnector,
    Added,
    ConnectorInfo,
    Done,
    RemoveConnector,
)

if TYPE_CHECKING:
    pass

NAME = "sample"
TABLES = ("products", "orders")
TOPICS = tuple(f"{NAME}.public.{each}" for each in TABLES)
_TURN_S = 0.2
_IDLE_S = 1.0
_SCHEMA = """
CREATE TABLE products (
    id int PRIMARY KEY, name text NOT NULL, description text NOT NULL,
    price numeric(8,2) NOT NULL, stock int NOT NULL
);
CREATE TABLE orders (
    id int PRIMARY KEY, product_id int NOT NULL, customer text NOT NULL,
    quantity int NOT NULL, status text NOT NULL
)
"""
_PRODUCTS = (
    ("rake", "for leaves and gravel, ash handle", "24.90"),
    ("spade", "forged steel, for heavy soil", "31.50"),
    ("atlas of rivers", "from source to mouth, 240 maps", "49.00"),
    ("raincoat", "keeps dry also in heavy rain", "79.95"),
    ("mug", "stoneware, for tea or coffee", "9.50"),
    ("lantern", "for rain and wind, LED", "22.00"),
)
_CUSTOMERS = ("ann", "bob", "cem", "dora", "emil")
_NEXT = {"placed": "paid", "paid": "packed", "packed": "shipped"}
_MOST_ORDERS = 60


class Shop:
    """The shop's database, its connector, and the newest change of each table."""

    def __init__(self, address: str, database: str) -> None:
        """``address`` is that of the server, ``database`` the URL of the PostgreSQL."""
        import psycopg  # noqa: PLC0415 - an extra

        self.transactions = 0
        self.failure: Exception | None = None
        self.newest: dict[str, tuple[int, dict[str, Any] | None]] = {}
        """Table → key and row of its newest change; None if it was deleted."""
        self.events: dict[tuple[str, int], str] = {}
        """Table and key → the newest event, as text."""
        self.database = database
        self._server = address
        self._errors = (psycopg.Error, MainstemError, Unavailable)
        self._base = psycopg.connect(database, autocommit=True)
        self._chance = random.Random()
        self._next_order = 1
        self._stop, self._closed = threading.Event(), threading.Event()
        self._threads = [
            threading.Thread(target=self._guarded, args=(each,))
            for each in (self._work, self._follow)
        ]
        self._create()
        self._capture(database)
        for each in self._threads:
            each.start()

    def stop(self) -> None:
        """Stop changing the database; its last changes are still published."""
        self._stop.set()
        self._threads[0].join()

    def close(self) -> None:
        """Stop changing the database, and remove the connector."""
        self.stop()
        self._closed.set()
        for each in self._threads:
            each.join()
        self._base.close()
        # The server may be gone, too.
        with suppress(MainstemError):
            ServerAdmin(self._server).change(REMOVE, RemoveConnector(NAME), Done)

    def _create(self) -> None:
        for each in _SCHEMA.split(";"):
            self._base.execute(each.encode())
        for number, (name, text, price) in enumerate(_PRODUCTS, 1):
            self._base.execute(
                "INSERT INTO products VALUES (%s, %s, %s, %s, 50)", (number, name, text, price)
            )

    def _capture(self, database: str) -> None:
        server = ServerAdmin(self._server, timeout_s=30)
        # Remove the connector of an earlier run that was killed; its database is gone.
        with suppress(Exception):
            server.change(REMOVE, RemoveConnector(NAME, keep=True), Done)
        with mainstem.connect(self._server) as stem:
            for topic in TOPICS:
                with suppress(UnknownTopic):
                    stem.topics.delete(topic)
                stem.topics.create(topic, partitions=2)
        tables = tuple(f"public.{each}" for each in TABLES)
        settings = complete(ConnectorSettings(name=NAME, url=database, tables=tables))
        server.change(ADD, AddConnector(settings), Added)

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except self._errors as error:
            self.failure = error

    def _check_connector(self) -> None:
        found = ServerAdmin(self._server).read(SHOW, {"name": NAME}, ConnectorInfo)
        if found.error:
            raise Unavailable(f"connector {NAME}: {found.error}")

    # Changes

    def _work(self) -> None:
        while not self._stop.wait(_TURN_S):
            with self._base.transaction():
                changed = list(self._transaction())
            self.transactions += 1
            for table, key in changed:
                self.newest[table] = key, self._row(table, key)

    def _row(self, table: str, key: int) -> dict[str, Any] | None:
        cursor = self._base.execute(f"SELECT * FROM {table} WHERE id = %s".encode(), (key,))
        names = [each.name for each in cursor.description or ()]
        row = cursor.fetchone()
        return dict(zip(names, row, strict=True)) if row else None

    def _transaction(self) -> Iterator[tuple[str, int]]:
        """Change rows in the current transaction; yields the table and the key of each."""
        chance = self._chance.random()
        if chance < 0.4:
            yield from self._place()
        elif chance < 0.85:
            yield from self._continue()
        else:
            product = self._product()
            factor = Decimal(self._chance.choice(("0.95", "1.05")))
            self._base.execute(
                "UPDATE products SET price = greatest(1, round(price * %s, 2)) WHERE id = %s",
                (factor, product),
            )
            yield "products", product

    def _place(self) -> Iterator[tuple[str, int]]:
        product, number, quantity = self._product(), self._next_order, self._chance.randint(1, 3)
        self._next_order += 1
        self._base.execute(
            "INSERT INTO orders VALUES (%s, %s, %s, %s, 'placed')",
            (number, product, self._chance.choice(_CUSTOMERS), quantity),
        )
        self._base.execute(
            "UPDATE products SET stock = CASE WHEN stock < %s THEN 50 ELSE stock - %s END "
            "WHERE id = %s",
            (quantity, quantity, product),
        )
        yield "orders", number
        yield "products", product

    def _continue(self) -> Iterator[tuple[str, int]]:
        """Advance an order; delete it if it was shipped or is cancelled now."""
        orders = self._base.execute("SELECT id, status FROM orders ORDER BY id").fetchall()
        if not orders:
            return
        number, status = self._chance.choice(orders) if len(orders) < _MOST_ORDERS else orders[0]
        if status in _NEXT and self._chance.random() < 0.95:
            self._base.execute(
                "UPDATE orders SET status = %s WHERE id = %s", (_NEXT[status], number)
            )
        else:
            self._base.execute("DELETE FROM orders WHERE id = %s", (number,))
        yield "orders", number

    def _product(self) -> int:
        return self._chance.randint(1, len(_PRODUCTS))

    # Events

    def _follow(self) -> None:
        with (
            mainstem.connect(self._server) as stem,
            stem.subscribe(*TOPICS, start="earliest") as events,
        ):
            while not self._closed.is_set():
                event = events.poll(timeout=_IDLE_S)
                if event is None:
                    self._check_connector()
                    continue
                # Tombstones follow deletes.
                if event.value is None:
                    continue
                found = event.json()
                row = found["after"] or found["before"]
                table = event.topic.rpartition(".")[2]
                self.events[table, row["id"]] = (
                    f"{found['op']} {event.partition}:{event.offset} lsn {found['source']['lsn']:X}"
                )

"""What settings make of the changes of MariaDB and SQLite: outboxes, masks, formats."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from cloudevents.core.formats.json import JSONFormat
from tests.broker.brokers import read_all
from tests.connectors.desk import Desk, desk
from tests.connectors.mariadb.databases import MariaDb, mariadb
from tests.connectors.outbox import HEADERS, ID, ROWS, check_events, outbox_row
from tests.connectors.sqlite.databases import SqliteFile
from tests.processes import wait_until

from mainstem.connectors.errors import SourceRefused
from mainstem.connectors.settings import Format
from mainstem.core.event import Event


class Place(NamedTuple):
    """A database, and a broker with connectors to it."""

    db: MariaDb | SqliteFile
    at: Desk
    kind: str
    schema: str
    uuid: str
    json: str
    truncate: str

    def add(self, *tables: str, name: str = "shop", **settings: object) -> None:
        """Add a connector to tables, which are named without their schema."""
        if self.kind == "mariadb":
            settings["password_env"] = "MAINSTEM_SECRET_A"
        self.at.add(*map(self.id, tables), name=name, **settings)

    def id(self, table: str) -> str:
        """Return the whole name of a table."""
        return f"{self.schema}.{table}"

    def transaction(self, *statements: str) -> None:
        """Execute statements in one transaction."""
        with self.db.connect() as connection:
            for each in ("BEGIN", *statements, "COMMIT"):
                connection.execute(each)

    def catch_up(self, name: str = "shop") -> None:
        """Wait until a connector has published all changes."""
        last = self.db.last() if isinstance(self.db, MariaDb) else self.db.last(name)
        self.at.wait_past(last, name)

    def events(self, topic: str) -> list[Event]:
        """Return the events of a topic."""
        return read_all(self.at.broker, topic)


@pytest.fixture(scope="module")
def server() -> Iterator[MariaDb]:
    with mariadb() as found:
        yield found


@pytest.fixture(params=["mariadb", "sqlite"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    db: MariaDb | SqliteFile
    if request.param == "sqlite":
        db = SqliteFile(tmp_path / "shop.db")
        own = ("sqlite", "main", "TEXT", "TEXT", "DELETE FROM")
    else:
        db = request.getfixturevalue("server")
        assert isinstance(db, MariaDb)
        db.execute("DROP DATABASE shop", "CREATE DATABASE shop", database="")
        own = ("mariadb", "shop", "UUID", "JSON", "TRUNCATE")
    with desk(db.url, tmp_path) as at:
        yield Place(db, at, *own)


def outbox(place: Place, payload: str = "") -> str:
    return (
        f"CREATE TABLE outbox (id {place.uuid} PRIMARY KEY, aggregatetype VARCHAR(40), aggregateid "
        f"VARCHAR(40), type VARCHAR(40), payload {payload or place.json}, tenant INT)"
    )


def test_rows_of_an_outbox_are_the_events_that_they_describe_once(place: Place) -> None:
    made, paid, rolled_back, payment = ROWS
    place.db.execute(outbox(place), "CREATE TABLE orders (id INTEGER PRIMARY KEY)", made)
    boxes = (place.id("outbox"),)
    place.add("orders", outbox=boxes, outbox_headers=HEADERS)
    place.transaction(paid, "DELETE FROM outbox")
    with place.db.connect() as connection:
        for each in ("BEGIN", rolled_back, "ROLLBACK"):
            connection.execute(each)
    place.db.execute(payment, "UPDATE outbox SET type = 'other'", f"{place.truncate} outbox")
    place.catch_up()
    place.at.connectors.snapshot("shop", [])
    wait_until(lambda: "outbox" in place.at.state().report.note, lambda: str(place.at.state()))
    place.at.connectors.restart("shop")
    place.db.execute("INSERT INTO orders VALUES (1)")
    place.catch_up()

    check_events(place.events)
    assert not place.at.broker.topics(f"shop.{place.schema}.outbox")


def test_an_outbox_with_bytes_and_one_that_cannot_be(place: Place) -> None:
    place.db.execute(
        outbox(place, "BLOB"), "CREATE TABLE other (id INTEGER PRIMARY KEY, payload TEXT)"
    )
    with pytest.raises(SourceRefused, match="has no column aggregatetype, aggregateid"):
        place.add(outbox=(place.id("other"),))
    place.add(outbox=(place.id("outbox"),), outbox_topic="${routedByValue}")
    place.db.execute(outbox_row(1, "'raw', '1', 'x', x'00ff', 1"))
    place.catch_up()
    assert [each.value for each in place.events("raw")] == [b"\x00\xff"]
    place.db.execute(outbox_row(2, "'__mainstem_topics', '1', 'x', '', 1"))

    error = place.at.wait_for("failed").report.trouble

    assert "names no topic" in error
    assert ID.format(2) in error


def test_columns_are_left_out_and_masked(place: Place) -> None:
    place.db.execute(
        "CREATE TABLE users (id INTEGER PRIMARY KEY, email VARCHAR(40), age INT, secret TEXT)",
        "INSERT INTO users VALUES (1, 'a@b.c', 3, 'x'), (2, NULL, NULL, NULL)",
        "CREATE TABLE log (id INTEGER PRIMARY KEY)",
    )
    place.add(
        "*",
        exclude=(place.id("l*"),),
        exclude_columns=(place.id("users.sec*"),),
        mask_columns=(place.id("*.email"),),
    )
    place.db.execute("UPDATE users SET email = 'd@e.f' WHERE id = 1", "DELETE FROM users")
    place.catch_up()

    topic = f"shop.{place.schema}.users"
    masked = {"id": 1, "email": "********", "age": 3}
    empty = {"id": 2, "email": None, "age": None}
    assert place.at.changes(topic) == [
        ("r", None, masked),
        ("r", None, empty),
        ("u", masked, masked),
        ("d", masked, None),
        ("d", empty, None),
    ]
    everything = b"".join(
        each.value or b"" for each in (*place.events(topic), *place.events("shop"))
    )
    assert not any(each in everything for each in (b"a@b.c", b"d@e.f", b"secret"))
    assert {each.name for each in place.at.broker.topics("shop*")} == {"shop", topic}
    with pytest.raises(SourceRefused, match="part of the key"):
        place.add("users", name="other", mask_columns=(place.id("users.id"),))


def test_events_with_their_schema_and_flat_ones(place: Place) -> None:
    place.db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, n REAL NOT NULL, b BLOB)")
    place.add("t", name="full", format=Format.JSON_SCHEMA)
    place.add("t", name="flat", format=Format.FLAT)
    place.db.execute("INSERT INTO t VALUES (1, 2.5, x'00')", "DELETE FROM t")
    for name in ("full", "flat"):
        place.catch_up(name)

    created, deleted, tombstone = place.events(f"full.{place.schema}.t")
    key, value = (json.loads(each or b"") for each in (created.key, created.value))
    fields = {each["field"]: each for each in value["schema"]["fields"]}
    kind = "int32" if place.kind == "mariadb" else "int64"

    assert key["payload"] == {"id": 1}
    assert key["schema"]["fields"] == [{"type": kind, "optional": False, "field": "id"}]
    assert value["payload"]["after"] == {"id": 1, "n": 2.5, "b": "AA=="}
    assert json.loads(deleted.value or b"")["payload"]["before"] == {"id": 1, "n": 2.5, "b": "AA=="}
    assert fields["after"]["name"] == f"full.{place.schema}.t.Value"
    assert fields["after"]["fields"][1:] == [
        {"type": "double", "optional": False, "field": "n"},
        {"type": "bytes", "optional": True, "field": "b"},
    ]
    source = {each["field"] for each in fields["source"]["fields"]}
    assert source == value["payload"]["source"].keys()
    assert tombstone.value is None
    assert [(each.key, each.value) for each in place.events(f"flat.{place.schema}.t")] == [
        (b'{"id":1}', b'{"id":1,"n":2.5,"b":"AA=="}'),
        (b'{"id":1}', None),
    ]


def test_cloudevents_are_read_by_their_sdk_and_have_different_ids(place: Place) -> None:
    place.db.execute(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1), (2, 2)"
    )
    place.add("t", format=Format.CLOUDEVENTS)
    place.db.execute("UPDATE t SET id = 3 WHERE id = 1", "DELETE FROM t WHERE v = 2")
    place.catch_up()

    events = [each for each in place.events(f"shop.{place.schema}.t") if each.value is not None]
    found = [JSONFormat().read(None, each.value or b"") for each in events]

    assert len({each.get_id() for each in found}) == len(found) == 5
    assert [each.get_attributes()["iodebeziumop"] for each in found] == list("rrdcd")
    created = found[3]
    assert created.get_type() == f"io.debezium.connector.{place.kind}.DataChangeEvent"
    assert created.get_source() == f"/debezium/{place.kind}/shop"
    assert created.get_data() == {"before": None, "after": {"id": 3, "v": 1}}
    assert created.get_attributes()["iodebeziumtable"] == "t"
    assert events[3].key == b'{"id":3}'
    key = base64.b64encode(b'{"id":1}').decode()
    assert found[0].get_id().endswith(f";key:{key}")

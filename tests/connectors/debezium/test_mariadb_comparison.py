"""Debezium and a connector of ours on one MariaDB: their events, compared field by field."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.broker.brokers import read_all
from tests.connectors.debezium.comparison import COMMON, by_topic, column_of, compare, text_in, told
from tests.connectors.debezium.engine import (
    MARIADB_JARS,
    NEEDED_FOR_MARIADB,
    Engine,
    mariadb_settings_for,
)
from tests.connectors.desk import desk
from tests.connectors.mariadb.databases import MariaDb, mariadb
from tests.connectors.mariadb.types import TYPES as EVERY_TYPE
from tests.processes import wait_until

from mainstem.connectors.settings import Format

pytestmark = NEEDED_FOR_MARIADB

ZEROS = "'0000-00-00 00:00:00'"
TABLES = ("types", "required", "pairs", "nokey", "defaults", "plain")
TYPES = [each for each in EVERY_TYPE if not each[0].startswith("inet")]
"""Debezium's parser stops at a table that has a column of inet4 or inet6."""
column = partial(column_of, TYPES)
_SHAPES = "|".join(map(column, ("geometry", "linestring", "geometrycollection")))
_LONG_FLOATS = "|".join(column("float", each) for each in ("16777217", "-3.4028235e38"))
KNOWN = {
    "an unsigned bigint is exact": rf"\.{column('bigint unsigned')}$",
    "floats of a snapshot have all their digits": rf"payload\.after\.({_LONG_FLOATS})$",
    "float(7,3) is a float": rf"\.fields\.{column('float(7,3)')}\.type$",
    "a timestamp of zeros is null": rf"\.{column('timestamp null', ZEROS)}$",
    "a year of zero is 0": rf"\.{column('year', '0')}$",
    "a uuid is itself": rf"\.payload(\.before|\.after)?\.({column('uuid')}|u)$",
    "shapes that are NOT NULL are so in schemas": rf"\.fields\.({_SHAPES})\.optional$",
    **COMMON,
}
"""The differences that docs/guides/cdc.md lists, by the paths of the fields."""


@pytest.fixture(scope="module")
def db() -> Iterator[MariaDb]:
    with mariadb() as found:
        yield found


SESSION = (
    "SET sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00', character_set_client = utf8mb4"
)
VALUES = ", ".join(text for _, text, _ in TYPES)
READ = ", ".join("NULL" if kind == "year" and text == "0" else text for kind, text, _ in TYPES)
"""A year of 0 stops Debezium's snapshot."""
NULLS = ", ".join(
    "0" if "not null" in kind else "DEFAULT" if "as (" in kind else "NULL" for kind, _, _ in TYPES
)


def before_the_snapshot(db: MariaDb) -> None:
    columns = ", ".join(f"c{place} {kind}" for place, (kind, _, _) in enumerate(TYPES))
    required = ", ".join(
        f"c{place} {kind.replace(' null', '').replace(' not', '')} "
        f"{'' if 'as (' in kind else 'NOT NULL'}"
        for place, (kind, _, _) in enumerate(TYPES)
    )
    db.execute(
        SESSION,
        f"CREATE TABLE types (id INT PRIMARY KEY, {columns})",
        f"CREATE TABLE required (id INT PRIMARY KEY, {required})",
        "CREATE TABLE plain (id INT PRIMARY KEY, v INT NOT NULL, big LONGTEXT)",
        "CREATE TABLE pairs (b VARCHAR(20), u UUID, v INT, PRIMARY KEY (u, b))",
        "CREATE TABLE nokey (a INT, b TEXT)",
        "CREATE TABLE defaults (id INT PRIMARY KEY, a INT DEFAULT 5, "
        "b VARCHAR(9) NOT NULL DEFAULT 'x', c DECIMAL(5,2) DEFAULT 1.5, "
        "d DATETIME DEFAULT current_timestamp(), e BOOLEAN NOT NULL DEFAULT true)",
        f"INSERT INTO types VALUES (1, {READ})",
        f"INSERT INTO types VALUES (2, {NULLS})",
        "INSERT INTO nokey VALUES (1, 'x')",
    )


def after_it(db: MariaDb) -> None:
    db.execute(
        SESSION,
        f"INSERT INTO types VALUES (3, {VALUES})",
        f"INSERT INTO types VALUES (4, {NULLS})",
        "DELETE FROM types WHERE id = 3",
        f"INSERT INTO required VALUES (1, {VALUES})",
        "DELETE FROM required",
        "INSERT INTO plain VALUES (1, 1, repeat('x', 20000)), (2, 2, NULL)",
        "UPDATE plain SET v = 2 WHERE id = 1",
        "UPDATE plain SET id = 5, v = 7 WHERE id = 2",
        "UPDATE plain SET v = v + 1",
        "BEGIN",
        "INSERT INTO plain VALUES (8, 1, '')",
        "INSERT INTO nokey VALUES (2, 'y')",
        "COMMIT",
        "TRUNCATE plain",
        "INSERT INTO pairs VALUES ('a', '123e4567-e89b-12d3-a456-426614174000', 1)",
        "UPDATE pairs SET b = 'c'",
        "UPDATE pairs SET v = NULL",
        "DELETE FROM pairs",
        "UPDATE nokey SET b = 'z'",
        "DELETE FROM nokey LIMIT 1",
        "INSERT INTO defaults (id) VALUES (1)",
        "INSERT INTO defaults (id, a) VALUES (2, NULL)",
        "UPDATE defaults SET c = NULL, d = NULL",
        "DELETE FROM defaults",
        "ALTER TABLE pairs ADD COLUMN more INT UNSIGNED AFTER b",
        "INSERT INTO pairs VALUES ('z', 4, '123e4567-e89b-12d3-a456-426614174000', 1)",
        "ALTER TABLE pairs CHANGE v renamed BIGINT, DROP COLUMN more",
        "INSERT INTO pairs VALUES ('y', '123e4567-e89b-12d3-a456-426614174000', 1)",
    )


def test_events_are_those_of_debezium_in_every_field(db: MariaDb, tmp_path: Path) -> None:
    before_the_snapshot(db)
    tables = [f"shop.{each}" for each in TABLES]
    settings = mariadb_settings_for(db, "shop", tmp_path) | {
        "table.include.list": ",".join(tables),
        "skipped.operations": "none",
        "provide.transaction.metadata": "true",
    }
    with desk(db.url, tmp_path) as at, Engine(settings, tmp_path, MARIADB_JARS) as engine:
        at.add(
            *tables,
            password_env="MAINSTEM_SECRET_A",
            format=Format.JSON_SCHEMA,
            transactions=True,
        )
        # Debezium passes on the last row of a snapshot when it has read all tables.
        wait_until(lambda: has_rows(engine, "types", 2), engine.said)
        after_it(db)
        at.wait_past(db.last())
        ours = {
            f"shop.{each}": [told(it.key, it.value) for it in read_all(at.broker, f"shop.{each}")]
            for each in (*tables, "transaction")
        }
        schemas = [each for each in at.values("shop") if each["ddl"]]
        last = ours["shop.transaction"][-1]
        wait_until(
            lambda: (
                last["key"] in [it["key"] for it in by_topic(engine.records, "shop.transaction")]
                and has_rows(engine, "pairs", len(ours["shop.shop.pairs"]))
            ),
            engine.said,
        )
        theirs = {topic: by_topic(engine.records, topic) for topic in ours}
        their_schemas = [
            change
            for each in engine.records
            if each.topic == "shop"
            and (change := json.loads(each.value or "")["payload"])["source"]["snapshot"] == "false"
        ]

    # Of a row without key there is nothing to compact, so we write no tombstone.
    kept = [each for each in theirs["shop.shop.nokey"] if each["value"] or each["key"]]
    assert len(kept) == len(theirs["shop.shop.nokey"]) - 1
    theirs["shop.shop.nokey"] = kept
    without_ends, theirs["shop.transaction"] = ended(theirs["shop.transaction"])
    assert len(without_ends) == 3, "a TRUNCATE and two ALTER TABLE"
    ours["shop.transaction"] = [
        each for each in ours["shop.transaction"] if id_of(each) not in without_ends
    ]
    # Debezium's BEGIN has the time of the transaction before.
    for each in (*ours["shop.transaction"], *theirs["shop.transaction"]):
        if each["value"]["payload"]["status"] == "BEGIN":
            del each["value"]["payload"]["ts_ms"]
    found, known = compare(ours, theirs, KNOWN)
    assert found == {}
    assert known == KNOWN.keys()
    assert list(map(schema_told, schemas)) == list(map(schema_told, their_schemas))
    assert len(schemas) == 2


def test_events_of_an_outbox_are_those_of_its_event_router(db: MariaDb, tmp_path: Path) -> None:
    db.execute(
        "CREATE TABLE box (id CHAR(36) PRIMARY KEY, aggregatetype VARCHAR(40), aggregateid "
        "VARCHAR(40), type VARCHAR(40), payload JSON)"
    )
    settings = mariadb_settings_for(db, "shop", tmp_path) | {
        "table.include.list": "shop.box",
        "include.schema.changes": "false",
        "transforms": "outbox",
        "transforms.outbox.type": "io.debezium.transforms.outbox.EventRouter",
    }
    # The server notices only later that an engine of another test is gone.
    before = followers(db)
    with desk(db.url, tmp_path) as at, Engine(settings, tmp_path, MARIADB_JARS) as engine:
        at.add(outbox=("shop.box",), password_env="MAINSTEM_SECRET_A")
        wait_until(lambda: followers(db) - before, engine.said)
        row = "INSERT INTO box VALUES (uuid()"
        db.execute(
            "BEGIN",
            f"""{row}, 'order', '7', 'Made', '{{"a": 1}}')""",
            "DELETE FROM box",
            "COMMIT",
            f"{row}, 'order', '8', 'Made', NULL)",
            f"{row}, 'payment', NULL, 'Paid', '[1]')",
        )
        at.wait_past(db.last())
        wait_until(lambda: len(engine.records) >= 3, engine.said)
        ours = {
            topic: [(it.key, it.value) for it in read_all(at.broker, topic)]
            for topic in ("outbox.event.order", "outbox.event.payment")
        }

    theirs: dict[str, list[tuple[bytes | None, bytes | None]]] = {topic: [] for topic in ours}
    for each in engine.records:
        theirs[each.topic].append((text_in(each.key), text_in(each.value)))
    assert ours == theirs


def followers(db: MariaDb) -> set[int]:
    """Return the connections over which engines follow the server."""
    rows = db.execute(
        "SELECT id FROM information_schema.processlist WHERE command = 'Binlog Dump' AND user = "
        "'debezium'"
    )
    return {number for (number,) in rows}


def has_rows(engine: Engine, table: str, count: int) -> bool:
    """Tell whether the engine has passed on so many events of a table."""
    topic = f"shop.shop.{table}"
    return sum(each.topic == topic for each in list(engine.records)) >= count


def id_of(event: dict[str, Any]) -> str:
    """Return the transaction that an event begins or ends."""
    return str(event["value"]["payload"]["id"])


def ended(events: list[dict[str, Any]]) -> tuple[set[str], list[dict[str, Any]]]:
    """Return the transactions that have no end, and the events of the others."""
    ends = {id_of(each) for each in events if each["value"]["payload"]["status"] == "END"}
    return {id_of(each) for each in events} - ends, [each for each in events if id_of(each) in ends]


def schema_told(change: dict[str, Any]) -> dict[str, Any]:
    """Return what an event about a schema says that does not depend on how types are described."""
    (table,) = change["tableChanges"]
    columns = [
        {name: each[name] for name in ("name", "position", "optional")}
        for each in table["table"]["columns"]
    ]
    return {
        **{name: change[name] for name in ("databaseName", "schemaName", "ddl")},
        "source": sorted(change["source"]),
        "type": table["type"],
        "id": table["id"],
        "key": table["table"]["primaryKeyColumnNames"],
        "columns": columns,
    }

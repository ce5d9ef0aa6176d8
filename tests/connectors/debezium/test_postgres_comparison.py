"""Debezium and a connector of ours on one PostgreSQL: their events, compared field by field."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from tests.connectors.database import DEBIAN, Database, database
from tests.connectors.debezium.comparison import COMMON, by_topic, column_of, compare, text_in, told
from tests.connectors.debezium.engine import JARS, NEEDED, Engine, settings_for
from tests.connectors.debezium.postgres_types import CREATE, TYPES
from tests.connectors.postgres.desk import PostgresDesk
from tests.in_process_server import server
from tests.processes import wait_until

from mainstem.connectors.secrets import Secrets
from mainstem.connectors.settings import Format

pytestmark = [
    *NEEDED,
    pytest.mark.skipif(DEBIAN is None, reason="no Debian PostgreSQL: apt-get install postgresql"),
]

INFINITY = "'infinity'"
TABLES = ("types", "required", "whole", "keys", "defaults", "plain")
column = partial(column_of, TYPES)
_LEFT_OUT = "|".join(f"c{place}" for place, (_, _, is_there) in enumerate(TYPES) if not is_there)
KNOWN = {
    "types that Debezium leaves out are text": rf"\.({_LEFT_OUT})(\.|$)|\.fields#order$",
    "a date of infinity is the largest one": rf"payload\.after\.{column('date', INFINITY)}$",
    "the scale of a numeric may be negative": rf"\.{column('numeric(3,-2)')}(\.|$)",
    "columns of the type name are published": rf"payload\.after\.{column('name')}$",
    "elements of enum arrays may be null": rf"\.{column('mood[]')}\.items\.optional$",
    "a deletion has no hstore": rf"payload\.before\.{column('hstore')}$",
    **COMMON,
}
"""The differences that docs/guides/cdc.md lists, by the paths of the fields."""


@pytest.fixture(scope="module")
def db() -> Iterator[Database]:
    with database(DEBIAN) as found:
        yield found


def before_the_snapshot(db: Database) -> None:
    db.execute(*CREATE)
    columns = ", ".join(f"c{place} {kind}" for place, (kind, _, _) in enumerate(TYPES))
    required = ", ".join(f"c{place} {kind} NOT NULL" for place, (kind, _, _) in enumerate(TYPES))
    values = ", ".join(text for _, text, _ in TYPES)
    db.execute(
        f"CREATE TABLE types (id int PRIMARY KEY, {columns})",
        f"CREATE TABLE required (id int PRIMARY KEY, {required})",
        "CREATE TABLE whole (id int PRIMARY KEY, v int, big text)",
        "ALTER TABLE whole ALTER big SET STORAGE EXTERNAL",
        "ALTER TABLE whole REPLICA IDENTITY FULL",
        "CREATE TABLE plain (id int PRIMARY KEY, v int NOT NULL, big text, bytes bytea, a text[])",
        "ALTER TABLE plain ALTER big SET STORAGE EXTERNAL, ALTER bytes SET STORAGE EXTERNAL, "
        "ALTER a SET STORAGE EXTERNAL",
        "CREATE TABLE keys (b text, a uuid, v int, PRIMARY KEY (a, b))",
        "CREATE TABLE defaults (id int PRIMARY KEY, a int DEFAULT 5, b text NOT NULL DEFAULT 'x', "
        "c numeric(5,2) DEFAULT 1.5, d timestamp DEFAULT now(), e boolean NOT NULL DEFAULT true)",
        f"INSERT INTO types VALUES (1, {values})",
        "INSERT INTO types VALUES (2)",
    )


def after_it(db: Database) -> None:
    values = ", ".join(text for _, text, _ in TYPES)
    big = "repeat('x', 20000)"
    db.execute(
        f"INSERT INTO types VALUES (3, {values})",
        "INSERT INTO types VALUES (4)",
        "DELETE FROM types WHERE id = 3",
        f"INSERT INTO required VALUES (1, {values})",
        "DELETE FROM required",
        f"INSERT INTO whole VALUES (1, 1, {big}); UPDATE whole SET v = 2; DELETE FROM whole",
        f"INSERT INTO plain VALUES (1, 1, {big}, {big}::bytea, ARRAY[{big}])",
        "INSERT INTO plain VALUES (2, 2)",
        "UPDATE plain SET v = 2 WHERE id = 1",
        "UPDATE plain SET id = 5, v = 7 WHERE id = 2",
        "TRUNCATE plain",
        "INSERT INTO keys VALUES ('a', '123e4567-e89b-12d3-a456-426614174000', 1)",
        "UPDATE keys SET b = 'c'; UPDATE keys SET v = NULL; DELETE FROM keys",
        "INSERT INTO defaults (id) VALUES (1); INSERT INTO defaults VALUES (2, NULL)",
        "UPDATE defaults SET c = NULL, d = NULL; DELETE FROM defaults",
        "ALTER TABLE keys ADD COLUMN more int",
        "INSERT INTO keys VALUES ('z', '123e4567-e89b-12d3-a456-426614174000', 1, 2)",
    )


@contextmanager
def both(
    settings: dict[str, str], db: Database, directory: Path
) -> Iterator[tuple[PostgresDesk, Engine]]:
    """Run a server without connectors, and Debezium's engine."""
    with server(None) as running, Engine(settings, directory, JARS) as engine:
        desk = PostgresDesk(running.node.broker, db, Secrets(directory, {}))
        try:
            yield desk, engine
        finally:
            desk.connectors.remove("shop")
            desk.connectors.close()


def test_events_are_those_of_debezium_in_every_field(db: Database, tmp_path: Path) -> None:
    before_the_snapshot(db)
    tables = tuple(f"public.{each}" for each in TABLES)
    settings = settings_for(db, "shop", tmp_path) | {
        "table.include.list": ",".join(tables),
        "publication.autocreate.mode": "filtered",
        "skipped.operations": "none",
        "provide.transaction.metadata": "true",
        # The test writes such messages to know how far the connectors are.
        "message.prefix.exclude.list": ".*",
    }
    with both(settings, db, tmp_path) as (desk, engine):
        desk.add(*tables, format=Format.JSON_SCHEMA, transactions=True, heartbeat_ms=100)
        wait_until(lambda: len(engine.records) >= 2, engine.said, 60)
        slot = "SELECT 1 FROM pg_replication_slots WHERE slot_name = 'debezium' AND active"
        wait_until(lambda: db.execute(slot) != [], engine.said, 60)
        after_it(db)
        desk.catch_up()
        ours = {
            f"shop.{each}": [told(it.key, it.value) for it in desk.events(f"shop.{each}")]
            for each in (*tables, "transaction")
        }
        count = sum(map(len, ours.values()))
        wait_until(lambda: len(engine.records) >= count, engine.said, 60)
        theirs = {topic: by_topic(engine.records, topic) for topic in ours}
        # The message that ``catch_up`` writes is a transaction to Debezium.
        del theirs["shop.transaction"][len(ours["shop.transaction"]) :]

    found, known = compare(ours, theirs, KNOWN)
    assert found == {}
    assert known == KNOWN.keys()


def test_events_of_an_outbox_are_those_of_its_event_router(db: Database, tmp_path: Path) -> None:
    db.execute(
        "CREATE TABLE box (id uuid PRIMARY KEY, aggregatetype text, aggregateid text, type text, "
        "payload jsonb)"
    )
    settings = settings_for(db, "shop", tmp_path) | {
        "table.include.list": "public.box",
        "publication.autocreate.mode": "filtered",
        "transforms": "outbox",
        "transforms.outbox.type": "io.debezium.transforms.outbox.EventRouter",
        "slot.name": "debezium_outbox",
        "publication.name": "debezium_outbox",
    }
    with both(settings, db, tmp_path) as (desk, engine):
        desk.add("public.box", outbox=("public.box",), heartbeat_ms=100)
        slot = "SELECT 1 FROM pg_replication_slots WHERE slot_name ~ '_outbox' AND active"
        wait_until(lambda: db.execute(slot) != [], engine.said, 60)
        row = "INSERT INTO box VALUES (gen_random_uuid()"
        db.execute(
            f"""{row}, 'order', '7', 'Made', '{{"a": 1}}'); DELETE FROM box""",
            f"{row}, 'order', '8', 'Made', NULL)",
            f"{row}, 'payment', NULL, 'Paid', '[1]')",
        )
        desk.catch_up()
        wait_until(lambda: len(engine.records) >= 3, engine.said, 60)
        ours = {
            topic: [(it.key, it.value) for it in desk.events(topic)]
            for topic in ("outbox.event.order", "outbox.event.payment")
        }

    theirs: dict[str, list[tuple[bytes | None, bytes | None]]] = {topic: [] for topic in ours}
    for each in engine.records:
        if each.topic != "shop.message":
            theirs[each.topic].append((text_in(each.key), text_in(each.value)))
    assert ours == theirs

"""A real PostgreSQL and a server: topics equal tables, and everything that cannot be is refused."""

import json
from typing import Any

import psycopg
import pytest
from tests.broker.brokers import read_all
from tests.connectors.database import Database
from tests.connectors.mirror import Mirror
from tests.connectors.postgres.equality import assert_equal, rows_of
from tests.connectors.workload import SCHEMAS, create
from tests.connectors.writer import Writer
from tests.long_runs import seeds
from tests.processes import wait_until

from mainstem.broker.broker import Broker
from mainstem.connectors.errors import SourceRefused, UnknownConnector
from mainstem.connectors.running.runtime import Connectors, ConnectorState
from mainstem.connectors.secrets import Secrets
from mainstem.connectors.settings import ConnectorSettings, Decimals, Format, SnapshotMode
from mainstem.core.errors import InvalidSetting
from mainstem.core.event import Event
from mainstem.core.topic_settings import Durability, TopicSettings
from mainstem.node.node import time_of_day_ms


class Desk:
    """A broker in memory with connectors, and the database."""

    def __init__(self, broker: Broker, db: Database, secrets: Secrets) -> None:
        self.broker = broker
        self.db = db
        self.connectors = Connectors(broker, secrets, "test", lambda: time_of_day_ms() * 1_000_000)

    def add(self, *tables: str, name: str = "shop", **settings: Any) -> None:
        given = {"url": self.db.url, "tables": tables} | settings
        self.connectors.add(ConnectorSettings(name=name, **given))
        wait_until(lambda: self.state(name).phase in {"following", "failed"}, name)

    def state(self, name: str = "shop") -> ConnectorState:
        return self.connectors.show(name)

    def wait_for(self, phase: str, name: str = "shop") -> ConnectorState:
        wait_until(lambda: self.state(name).phase == phase, lambda: str(self.state(name)))
        return self.state(name)

    def catch_up(self, name: str = "shop") -> None:
        """Wait until everything that is committed is published."""
        ((text,),) = self.db.execute("SELECT pg_logical_emit_message(true, 'test', '')::text")
        high, low = text.split("/")
        target = int(high, 16) << 32 | int(low, 16)

        def is_there() -> bool:
            # The position is stored with the next event, or the next heartbeat.
            progress = self.state(name).progress
            position = progress.position
            return position is not None and position.at[0] >= target and not progress.pending

        wait_until(is_there, lambda: str(self.state(name)))

    def events(self, topic: str) -> list[Event]:
        return read_all(self.broker, topic)

    def values(self, topic: str) -> list[Any]:
        found = [event.value for event in self.events(topic)]
        return [None if each is None else json.loads(each) for each in found]


FAST: dict[str, Any] = {"heartbeat_ms": 100}


@pytest.mark.parametrize("seed", seeds(1, 2, 100))
def test_topics_equal_tables_after_random_transactions_during_the_snapshot_and_after_it(
    desk: Desk, seed: int
) -> None:
    create(desk.db, "a", "b")
    dialect = desk.db.dialect(*SCHEMAS)
    with Writer(dialect, "ab", seed) as first, Writer(dialect, "ab", -seed) as second:
        wait_until(lambda: first.commits > 30, "no commits")
        desk.add("public.a", "public.b", **FAST)
        desk.wait_for("following")
        done = first.commits + second.commits
        wait_until(lambda: first.commits + second.commits > done + 200, "no commits")
        desk.connectors.snapshot("shop", ["public.a"])
        desk.connectors.restart("shop")
        wait_until(lambda: first.commits + second.commits > done + 400, "no commits")
    assert not first.errors + second.errors

    desk.catch_up()

    for table in "ab":
        mirror = Mirror().apply_all(desk.events(f"shop.public.{table}"))
        assert_equal(mirror, rows_of(desk.db, table))
    wait_until(lambda: not desk.connectors.show("shop").progress.pending, "not read again")


def test_a_change_of_the_key_is_a_deletion_and_a_new_row(desk: Desk) -> None:
    desk.db.execute("CREATE TABLE t (id int PRIMARY KEY, v int)", "INSERT INTO t VALUES (1, 1)")
    desk.add("public.t", **FAST)
    desk.db.execute("UPDATE t SET id = 2", "DELETE FROM t")
    desk.catch_up()

    found = [
        (event.key, value and (value["op"], value["before"], value["after"]))
        for event, value in zip(
            desk.events("shop.public.t"), desk.values("shop.public.t"), strict=True
        )
    ]

    assert found == [
        (b'{"id":1}', ("r", None, {"id": 1, "v": 1})),
        (b'{"id":1}', ("d", {"id": 1}, None)),
        (b'{"id":1}', None),
        (b'{"id":2}', ("c", None, {"id": 2, "v": 1})),
        (b'{"id":2}', ("d", {"id": 2}, None)),
        (b'{"id":2}', None),
    ]


POINT = "AQEAAAAAAAAAAADwPwAAAAAAAARA"
TYPES: list[tuple[str, str, object]] = [
    ("boolean", "true", True),
    ("smallint", "-7", -7),
    ("bigint", "9223372036854775807", 9223372036854775807),
    ("oid", "4294967295", 4294967295),
    ("real", "'NaN'", "NaN"),
    ("double precision", "'-Infinity'", "-Infinity"),
    ("double precision", "0.1", 0.1),
    ("numeric(10,2)", "-1234.50", "/h3G"),
    ("numeric", "12.345", {"scale": 3, "value": "MDk="}),
    ("money", "-1234.56", "/h3A"),
    ("char(4)", "'ab'", "ab  "),
    ("varchar", "'ü€😀'", "ü€😀"),
    ("text", "''", ""),
    ("json", "'{\"a\": 1}'", '{"a": 1}'),
    ("jsonb", "'{\"b\":[1,2]}'", '{"b": [1, 2]}'),
    ("uuid", "'123e4567-e89b-12d3-a456-426614174000'", "123e4567-e89b-12d3-a456-426614174000"),
    ("bytea", r"'\x00ff10'", "AP8Q"),
    ("bit(1)", "B'1'", True),
    ("bit(10)", "B'1000000001'", "AQI="),
    ("varbit", "B'101'", "BQ=="),
    ("date", "'2024-02-29'", 19782),
    ("date", "'infinity'", 2147483647),
    ("time", "'23:59:59.999999'", 86399999999),
    ("time(3)", "'12:00:00.5'", 43200500),
    ("timetz", "'12:00:00+02'", "10:00:00Z"),
    ("timestamp", "'2024-02-29 12:00:00.123456'", 1709208000123456),
    ("timestamp(3)", "'2024-02-29 12:00:00.123'", 1709208000123),
    ("timestamp", "'-infinity'", -9223372036832400000),
    ("timestamptz", "'2024-02-29 12:00:00.1+01'", "2024-02-29T11:00:00.100000Z"),
    ("timestamptz", "'infinity'", "infinity"),
    ("timestamptz", "'0044-03-15 12:00:00 BC'", "-0043-03-15T12:00:00.000000Z"),
    ("interval", "'1 year 2 mons 3 days 04:05:06.7'", 37091106700000),
    ("inet", "'10.0.0.1/8'", "10.0.0.1/8"),
    ("macaddr", "'08:00:2b:01:02:03'", "08:00:2b:01:02:03"),
    ("int4range", "'[1,5)'", "[1,5)"),
    ("tstzrange", "'[2024-01-01,)'", '["2024-01-01 00:00:00+00",)'),
    (
        "point",
        "'(1,2.5)'",
        {"x": 1.0, "y": 2.5, "wkb": "AQEAAAAAAAAAAADwPwAAAAAAAARA", "srid": None},
    ),
    ("box", "'(1,1),(0,0)'", "(1,1),(0,0)"),
    ("int[]", "'{{1,2},{3,NULL}}'", [[1, 2], [3, None]]),
    ("text[]", """'{a,"b,c",NULL,"NULL"}'""", ["a", "b,c", None, "NULL"]),
    ("numeric(5,1)[]", "'{1.5}'", ["Dw=="]),
    ("mood", "'sad'", "sad"),
    ("mood[]", "'{sad,happy}'", ["sad", "happy"]),
    ("year", "2024", 2024),
    ("tsvector", "'a b'", "'a' 'b'"),
    ("pair", "'(1,x)'", "(1,x)"),
]


def test_every_type_has_its_mapping_in_snapshots_and_in_changes(desk: Desk) -> None:
    desk.db.execute(
        "DROP DOMAIN IF EXISTS year; DROP TYPE IF EXISTS mood; DROP TYPE IF EXISTS pair",
        "CREATE TYPE mood AS ENUM ('sad', 'happy')",
        "CREATE DOMAIN year AS int CHECK (VALUE > 1900)",
        "CREATE TYPE pair AS (a int, b text)",
    )
    columns = ", ".join(f"c{place} {kind}" for place, (kind, _, _) in enumerate(TYPES))
    values = ", ".join(text for _, text, _ in TYPES)
    desk.db.execute(
        f"CREATE TABLE types (id int PRIMARY KEY, {columns})",
        f"INSERT INTO types VALUES (1, {values})",
        "INSERT INTO types VALUES (2)",
    )
    desk.add("public.types", **FAST)
    desk.wait_for("following")
    desk.db.execute(f"INSERT INTO types VALUES (3, {values})", "INSERT INTO types VALUES (4)")
    desk.catch_up()

    found = {each["after"]["id"]: each["after"] for each in desk.values("shop.public.types")}

    expected = {f"c{place}": value for place, (_, _, value) in enumerate(TYPES)}
    for number in (1, 3):
        assert found[number] == {"id": number, **expected}
    for number in (2, 4):
        assert found[number] == {"id": number, **dict.fromkeys(expected)}


def test_numbers_as_text_or_floats_if_that_is_wanted(desk: Desk) -> None:
    desk.db.execute(
        "CREATE TABLE t (id int PRIMARY KEY, a numeric(10,2), b money)",
        "INSERT INTO t VALUES (1, 1.50, 2.5), (2, 'NaN', 0)",
    )
    desk.add("public.t", name="texts", decimals=Decimals.STRING, **FAST)
    desk.add("public.t", name="floats", decimals=Decimals.DOUBLE, **FAST)
    for name in ("texts", "floats"):
        desk.catch_up(name)

    texts, floats = (
        [each["after"] for each in desk.values(f"{name}.public.t")] for name in ("texts", "floats")
    )

    assert texts == [{"id": 1, "a": "1.50", "b": "2.50"}, {"id": 2, "a": "NaN", "b": "0.00"}]
    assert floats == [{"id": 1, "a": 1.5, "b": 2.5}, {"id": 2, "a": "NaN", "b": 0.0}]


def test_a_large_value_that_did_not_change_is_marked_or_known(desk: Desk) -> None:
    for name in ("short", "whole"):
        create(desk.db, name)
        desk.db.execute(f"INSERT INTO {name} VALUES (1, 1, 'n', repeat('x', 50000))")
    desk.db.execute("ALTER TABLE whole REPLICA IDENTITY FULL")
    desk.add("public.short", "public.whole", **FAST)
    desk.wait_for("following")
    desk.db.execute("UPDATE short SET v = 2", "UPDATE whole SET v = 2")
    desk.catch_up()

    short, whole = (desk.values(f"shop.public.{each}")[-1] for each in ("short", "whole"))

    assert short["after"]["big"] == "__debezium_unavailable_value"
    assert whole["after"]["big"] == whole["before"]["big"] == "x" * 50_000


def test_columns_are_left_out_and_masked(desk: Desk) -> None:
    desk.db.execute(
        "CREATE TABLE users (id int PRIMARY KEY, email text, age int, secret text)",
        "INSERT INTO users VALUES (1, 'a@b.c', 3, 'x'), (2, NULL, NULL, NULL)",
        "CREATE TABLE log (id int PRIMARY KEY)",
    )
    columns: dict[str, Any] = {
        "exclude_columns": ("public.users.sec*",),
        "mask_columns": ("public.*.email",),
    }
    desk.add("public.*", exclude=("public.l*",), **columns, **FAST)
    desk.db.execute("UPDATE users SET email = 'd@e.f' WHERE id = 1")
    desk.catch_up()

    assert [each["after"] for each in desk.values("shop.public.users")] == [
        {"id": 1, "email": "********", "age": 3},
        {"id": 2, "email": None, "age": None},
        {"id": 1, "email": "********", "age": 3},
    ]
    assert not any(b"a@b.c" in (event.value or b"") for event in desk.events("shop.public.users"))
    assert {each.name for each in desk.broker.topics("shop*")} == {"shop", "shop.public.users"}
    with pytest.raises(SourceRefused, match="part of the key"):
        desk.add("public.users", name="other", mask_columns=("public.users.id",))


def test_events_with_their_schema_and_flat_ones(desk: Desk) -> None:
    desk.db.execute("CREATE TABLE t (id int PRIMARY KEY, n numeric(5,2) NOT NULL)")
    desk.add("public.t", name="full", format=Format.JSON_SCHEMA, **FAST)
    desk.add("public.t", name="flat", format=Format.FLAT, partitions=3, **FAST)
    desk.db.execute("INSERT INTO t VALUES (1, 2)", "DELETE FROM t")
    for name in ("full", "flat"):
        desk.catch_up(name)

    (created, _, tombstone) = desk.events("full.public.t")
    value = json.loads(created.value or b"")
    key = json.loads(created.key or b"")
    flat = [each for number in range(3) for each in read_all(desk.broker, "flat.public.t", number)]

    assert key["payload"] == {"id": 1}
    assert key["schema"]["fields"] == [{"type": "int32", "optional": False, "field": "id"}]
    assert value["payload"]["after"] == {"id": 1, "n": "AMg="}
    fields = {each["field"]: each for each in value["schema"]["fields"]}
    assert fields["after"]["name"] == "full.public.t.Value"
    assert fields["after"]["fields"][1] == {
        "type": "bytes",
        "name": "org.apache.kafka.connect.data.Decimal",
        "version": 1,
        "parameters": {"scale": "2", "connect.decimal.precision": "5"},
        "optional": False,
        "field": "n",
    }
    assert tombstone.value is None
    assert [(each.key, each.value) for each in flat] == [
        (b'{"id":1}', b'{"id":1,"n":"AMg="}'),
        (b'{"id":1}', None),
    ]


def test_tables_without_key_and_partitioned_ones(desk: Desk) -> None:
    desk.db.execute(
        "CREATE TABLE nokey (a int, v int)",
        "ALTER TABLE nokey REPLICA IDENTITY FULL",
        "INSERT INTO nokey VALUES (1, 1), (1, 1)",
        "CREATE TABLE parts (id int PRIMARY KEY, v int) PARTITION BY RANGE (id)",
        "CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (10)",
        "INSERT INTO parts VALUES (1, 1)",
    )
    desk.add("public.*", **FAST)
    desk.wait_for("following")
    desk.db.execute(
        "DELETE FROM nokey WHERE ctid = '(0,1)'",
        "TRUNCATE nokey",
        "CREATE TABLE parts_2 PARTITION OF parts FOR VALUES FROM (10) TO (20)",
        "INSERT INTO parts VALUES (11, 1)",
    )
    desk.catch_up()

    nokey = [
        (each["op"], each["before"], each["after"]) for each in desk.values("shop.public.nokey")
    ]
    assert [event.key for event in desk.events("shop.public.nokey")] == [None] * 4
    assert nokey == [
        ("r", None, {"a": 1, "v": 1}),
        ("r", None, {"a": 1, "v": 1}),
        ("d", {"a": 1, "v": 1}, None),
        ("t", None, None),
    ]
    assert [each["after"]["id"] for each in desk.values("shop.public.parts")] == [1, 11]


def test_schema_changes_are_followed_and_published_once(desk: Desk) -> None:
    desk.db.execute("CREATE TABLE t (id int PRIMARY KEY, a int)")
    desk.add("public.t", **FAST)
    desk.wait_for("following")
    desk.db.execute(
        "INSERT INTO t VALUES (1, 1)",
        "ALTER TABLE t ADD COLUMN b text DEFAULT 'x'",
        "INSERT INTO t VALUES (2, 2)",
        "ALTER TABLE t RENAME COLUMN a TO c",
        "ALTER TABLE t ALTER c TYPE bigint",
        "INSERT INTO t VALUES (3, 3)",
        "ALTER TABLE t DROP COLUMN b",
        "INSERT INTO t VALUES (4, 4)",
    )
    desk.catch_up()
    desk.connectors.restart("shop")
    desk.db.execute("INSERT INTO t VALUES (5, 5)")
    desk.catch_up()

    schemas = [
        (
            each["tableChanges"][0]["type"],
            [
                (column["name"], column["typeName"])
                for column in each["tableChanges"][0]["table"]["columns"]
            ],
        )
        for each in desk.values("shop")
    ]

    assert [each["after"] for each in desk.values("shop.public.t")] == [
        {"id": 1, "a": 1},
        {"id": 2, "a": 2, "b": "x"},
        {"id": 3, "c": 3, "b": "x"},
        {"id": 4, "c": 4},
        {"id": 5, "c": 5},
    ]
    assert schemas == [
        ("CREATE", [("id", "integer"), ("a", "integer")]),
        ("ALTER", [("id", "integer"), ("a", "integer"), ("b", "text")]),
        ("ALTER", [("id", "integer"), ("c", "bigint"), ("b", "text")]),
        ("ALTER", [("id", "integer"), ("c", "bigint")]),
    ]


def test_a_new_table_is_found_and_read_while_others_are_followed(desk: Desk) -> None:
    create(desk.db, "a")
    desk.db.execute("INSERT INTO a VALUES (1, 1)")
    desk.add("public.*", **FAST)
    desk.wait_for("following")
    create(desk.db, "late")
    desk.db.execute("INSERT INTO late SELECT i, 1 FROM generate_series(1, 5000) i")
    with Writer(desk.db.dialect(), ("late",), 7) as writer:
        wait_until(lambda: writer.commits > 20, "no commits")
        desk.connectors.restart("shop")
        wait_until(lambda: writer.commits > 200, "no commits")
    desk.catch_up()

    mirror = Mirror().apply_all(desk.events("shop.public.late"))

    assert_equal(mirror, rows_of(desk.db, "late"))
    assert len(desk.events("shop.public.a")) == 1


def test_a_paused_connector_goes_on_where_it_was(desk: Desk) -> None:
    create(desk.db, "t")
    desk.add("public.t", **FAST, snapshot=SnapshotMode.NONE)
    desk.db.execute("INSERT INTO t VALUES (1, 1)")
    desk.catch_up()
    desk.connectors.pause("shop")
    desk.wait_for("paused")
    desk.db.execute("UPDATE t SET v = 2")
    wait_until(lambda: desk.state().lag_bytes > 0, "no lag")
    assert len(desk.events("shop.public.t")) == 1

    desk.connectors.resume("shop")
    desk.catch_up()

    assert [each["after"]["v"] for each in desk.values("shop.public.t")] == [1, 2]
    with pytest.raises(UnknownConnector):
        desk.connectors.pause("other")


def test_a_row_larger_than_its_topic_allows_stops_until_the_topic_allows_it(desk: Desk) -> None:
    create(desk.db, "t")
    desk.add("public.t", **FAST)
    desk.wait_for("following")
    desk.db.execute("INSERT INTO t VALUES (1, 1, 'n', repeat('x', 100 * 1024 * 1024))")

    state = desk.wait_for("failed")

    assert "shop.public.t" in state.error
    assert "max_batch_bytes" in state.error
    desk.broker.alter_topic("shop.public.t", max_batch_bytes=120 * 1024 * 1024).durable.wait()
    desk.connectors.restart("shop")
    desk.catch_up()
    (event,) = desk.events("shop.public.t")
    assert len(event.value or b"") > 100 * 1024 * 1024


def test_a_large_transaction_that_was_published_in_part_is_continued_where_it_was(
    desk: Desk,
) -> None:
    create(desk.db, "t", "other")
    desk.add("public.t", **FAST)
    with desk.db.connect() as connection, connection.transaction():
        connection.execute(
            "INSERT INTO t SELECT i, 1, repeat('x', 4000) FROM generate_series(1, 3000) i"
        )
        connection.execute("INSERT INTO t VALUES (0, 1, repeat('x', 20000000))")
    state = desk.wait_for("failed")
    assert state.progress.done > 1000
    assert len(desk.events("shop.public.t")) == state.progress.done

    # Before the transaction comes again, the database says that it is further.
    desk.db.execute("INSERT INTO other VALUES (1, 1)")
    desk.broker.alter_topic("shop.public.t", max_batch_bytes=30_000_000).durable.wait()
    desk.connectors.restart("shop")
    desk.catch_up()

    keys = [event.key for event in desk.events("shop.public.t")]
    assert keys == [b'{"id":%d}' % number for number in [*range(1, 3001), 0]]
    assert desk.state().progress.done == 0


def stopped_while_paused(desk: Desk, *statements: str) -> str:
    """Run statements while the connector is paused; return why it cannot go on."""
    create(desk.db, "t")
    desk.add("public.t", **FAST)
    desk.wait_for("following")
    desk.db.execute("INSERT INTO t VALUES (1, 1), (2, 1)")
    desk.catch_up()
    desk.connectors.pause("shop")
    desk.db.execute("DELETE FROM t WHERE id = 2", "UPDATE t SET v = 2", *statements)
    desk.connectors.resume("shop")
    error = desk.wait_for("failed").error
    # What it says to do helps.
    desk.connectors.restart("shop", snapshot=True)
    desk.catch_up()
    emptied, read = desk.values("shop.public.t")[-2:]
    assert (emptied["op"], emptied["source"]["snapshot"]) == ("t", "true")
    assert (read["op"], read["after"]["id"], read["after"]["v"]) == ("r", 1, 2)
    # Whoever follows the events has lost the row that was deleted meanwhile.
    assert Mirror().apply_all(desk.events("shop.public.t")).rows.keys() == {b'{"id":1}'}
    return error


DROP = "SELECT pg_drop_replication_slot('mainstem_shop')"
CREATE = "SELECT pg_create_logical_replication_slot('mainstem_shop', 'pgoutput')"


def test_a_dropped_slot_stops_it(desk: Desk) -> None:
    error = stopped_while_paused(desk, DROP)

    assert "mainstem_shop is gone" in error
    assert "restart NAME --snapshot" in error


def test_a_slot_that_was_created_anew_stops_it(desk: Desk) -> None:
    assert "was created anew" in stopped_while_paused(desk, DROP, CREATE)


def test_a_slot_whose_wal_was_removed_stops_it(desk: Desk) -> None:
    switches = "SELECT pg_switch_wal(); INSERT INTO t VALUES (99, 1); DELETE FROM t WHERE id = 99"
    limit = "ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'"

    error = stopped_while_paused(
        desk, limit, "SELECT pg_reload_conf()", *[switches] * 12, "CHECKPOINT",
        "ALTER SYSTEM RESET max_slot_wal_keep_size", "SELECT pg_reload_conf()",
    )  # fmt: skip

    assert "WAL it needs was removed" in error


def test_a_slot_that_keeps_more_than_its_bound_is_dropped(desk: Desk) -> None:
    create(desk.db, "t")
    desk.add("public.t", max_slot_bytes=200_000, **FAST)
    desk.wait_for("following")
    desk.catch_up()
    desk.connectors.pause("shop")
    desk.db.execute("INSERT INTO t SELECT i, 1, repeat('x', 900) FROM generate_series(1, 900) i")

    state = desk.wait_for("failed")

    assert "max_slot_bytes" in state.error
    assert desk.db.execute("SELECT slot_name FROM pg_replication_slots") == []


def test_another_database_at_the_same_url_stops_it(desk: Desk) -> None:
    create(desk.db, "t")
    desk.add("public.t", **FAST)
    desk.wait_for("following")
    desk.catch_up()
    desk.connectors.pause("shop")
    definitions = desk.broker.definitions.open("connectors")
    stored = definitions.get("progress", "shop")
    assert stored is not None
    other = stored.replace(b"/postgres", b"/elsewhere")

    definitions.set("progress", "shop", other).wait()
    desk.connectors.resume("shop")

    assert "another database" in desk.wait_for("failed").error


def test_what_cannot_be_captured_is_refused_when_it_is_added(desk: Desk) -> None:
    desk.db.execute(
        "CREATE TABLE nokey (a int)",
        "CREATE UNLOGGED TABLE fast (id int PRIMARY KEY)",
        'CREATE TABLE "a b" (id int PRIMARY KEY)',
        'CREATE TABLE "a?b" (id int PRIMARY KEY)',
        "CREATE TABLE good (id int PRIMARY KEY)",
        "DROP ROLE IF EXISTS ann",
        "CREATE ROLE ann LOGIN",
        "DROP ROLE IF EXISTS bob",
        "CREATE ROLE bob LOGIN REPLICATION",
    )
    by = {name: desk.db.url.replace("postgres@", f"{name}@", 1) for name in ("ann", "bob", "eve")}
    refused: dict[str, dict[str, Any]] = {
        "no primary key": {"tables": ("public.nokey",)},
        "is unlogged": {"tables": ("public.fast",)},
        "there is no table public.other": {"tables": ("public.other",)},
        "no table is captured": {"tables": ("other.*",)},
        "may not replicate": {"tables": ("public.good",), "url": by["ann"]},
        "may not read table public.good": {"tables": ("public.good",), "url": by["bob"]},
        "eve": {"tables": ("public.good",), "url": by["eve"]},
    }
    for why, settings in refused.items():
        with pytest.raises(SourceRefused, match=why):
            desk.connectors.add(
                ConnectorSettings(**({"name": "shop", "url": desk.db.url} | settings))
            )
    desk.db.execute("GRANT SELECT ON good TO bob")
    with pytest.raises(SourceRefused, match=r"let the owner of the tables run: CREATE PUBLICATION"):
        desk.add("public.good", url=by["bob"])
    with pytest.raises(SourceRefused, match="would share topic"):
        desk.add("public.a?b")
    desk.db.execute("DROP OWNED BY bob")


def test_a_server_without_logical_wal_is_refused(desk: Desk) -> None:
    create(desk.db, "t")
    desk.db.stop()
    desk.db.start("-c wal_level=replica")
    try:
        with pytest.raises(SourceRefused, match="wal_level is replica"):
            desk.add("public.t")
    finally:
        desk.db.stop()
        desk.db.start()


def test_passwords_are_references_and_urls_hold_none(desk: Desk) -> None:
    create(desk.db, "t")
    at = "postgres://a:secret@localhost/x"
    cases: dict[str, dict[str, Any]] = {
        "holds a password": {"url": at},
        "'passfile' is not supported": {"url": "postgres://localhost/x?passfile=/etc/passwd"},
        "must begin with MAINSTEM_SECRET_": {"password_env": "HOME"},
        "connectors.secrets_dir": {"password_file": "../../etc/passwd"},
        "no connector for URLs of 'mongodb'": {"url": "mongodb://localhost"},
        "not both": {"password_env": "MAINSTEM_SECRET_A", "password_file": "a"},
        "write schema.table": {"tables": ("t",)},
        "41 letters": {"name": "../x"},
    }
    for why, settings in cases.items():
        given: dict[str, Any] = {"name": "shop", "url": desk.db.url} | settings
        with pytest.raises(InvalidSetting, match=why) as refused:
            desk.connectors.add(ConnectorSettings(**given))
        assert "secret@" not in str(refused.value)

    desk.add("public.t", password_env="MAINSTEM_SECRET_A", **FAST)
    desk.catch_up()

    everything = desk.broker.definitions.open("connectors").items("config")
    assert b"hidden" not in everything["shop"]
    assert b"MAINSTEM_SECRET_A" in everything["shop"]


def test_a_topic_that_may_lose_events_is_refused(desk: Desk) -> None:
    create(desk.db, "t")
    desk.broker.create_topic("shop.public.t", TopicSettings(durability=Durability.DISK))
    desk.add("public.t", **FAST)
    desk.db.execute("INSERT INTO t VALUES (1, 1)")

    assert "does not survive a power cut" in desk.wait_for("failed").error


def test_a_connection_that_is_cut_is_opened_again(desk: Desk) -> None:
    create(desk.db, "t")
    desk.add("public.t", **FAST)
    desk.wait_for("following")
    with pytest.raises(psycopg.OperationalError):
        desk.db.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity")
    desk.db.execute("INSERT INTO t VALUES (1, 1)")

    desk.catch_up()

    assert [each["after"]["id"] for each in desk.values("shop.public.t")] == [1]

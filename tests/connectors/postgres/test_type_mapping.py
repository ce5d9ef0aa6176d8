"""What becomes of the values of every type, in snapshots and in changes."""

import json

from tests.broker.brokers import read_all
from tests.connectors.postgres.desk import PostgresDesk
from tests.connectors.workload import create

from mainstem.connectors.settings import Decimals, Format

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


def test_every_type_has_its_mapping_in_snapshots_and_in_changes(desk: PostgresDesk) -> None:
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
    desk.add("public.types")
    desk.wait_for("following")
    desk.db.execute(f"INSERT INTO types VALUES (3, {values})", "INSERT INTO types VALUES (4)")
    desk.catch_up()

    found = {each["after"]["id"]: each["after"] for each in desk.values("shop.public.types")}

    expected = {f"c{place}": value for place, (_, _, value) in enumerate(TYPES)}
    for number in (1, 3):
        assert found[number] == {"id": number, **expected}
    for number in (2, 4):
        assert found[number] == {"id": number, **dict.fromkeys(expected)}


def test_numbers_as_text_or_floats_if_that_is_wanted(desk: PostgresDesk) -> None:
    desk.db.execute(
        "CREATE TABLE t (id int PRIMARY KEY, a numeric(10,2), b money)",
        "INSERT INTO t VALUES (1, 1.50, 2.5), (2, 'NaN', 0)",
    )
    desk.add("public.t", name="texts", decimals=Decimals.STRING)
    desk.add("public.t", name="floats", decimals=Decimals.DOUBLE)
    for name in ("texts", "floats"):
        desk.catch_up(name)

    texts, floats = (
        [each["after"] for each in desk.values(f"{name}.public.t")] for name in ("texts", "floats")
    )

    assert texts == [{"id": 1, "a": "1.50", "b": "2.50"}, {"id": 2, "a": "NaN", "b": "0.00"}]
    assert floats == [{"id": 1, "a": 1.5, "b": 2.5}, {"id": 2, "a": "NaN", "b": 0.0}]


def test_a_large_value_that_did_not_change_is_marked_or_known(desk: PostgresDesk) -> None:
    for name in ("short", "whole"):
        create(desk.db, name)
        desk.db.execute(f"INSERT INTO {name} VALUES (1, 1, 'n', repeat('x', 50000))")
    desk.db.execute("ALTER TABLE whole REPLICA IDENTITY FULL")
    desk.add("public.short", "public.whole")
    desk.wait_for("following")
    desk.db.execute("UPDATE short SET v = 2", "UPDATE whole SET v = 2")
    desk.catch_up()

    short, whole = (desk.values(f"shop.public.{each}")[-1] for each in ("short", "whole"))

    assert short["after"]["big"] == "__debezium_unavailable_value"
    assert whole["after"]["big"] == whole["before"]["big"] == "x" * 50_000


def test_events_with_their_schema_and_flat_ones(desk: PostgresDesk) -> None:
    desk.db.execute("CREATE TABLE t (id int PRIMARY KEY, n numeric(5,2) NOT NULL)")
    desk.add("public.t", name="full", format=Format.JSON_SCHEMA)
    desk.add("public.t", name="flat", format=Format.FLAT, partitions=3)
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

"""A real MariaDB and a server: topics equal tables, and everything that cannot be is refused."""

import ipaddress
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.connectors.desk import Desk, desk
from tests.connectors.mariadb.databases import TABLE, MariaDb, mariadb
from tests.connectors.postgres.equality import assert_equal
from tests.connectors.writer import Writer
from tests.long_runs import seeds
from tests.processes import wait_until


@pytest.fixture(scope="module")
def db() -> Iterator[MariaDb]:
    with mariadb() as found:
        yield found


@pytest.fixture
def at(db: MariaDb, tmp_path: Path) -> Iterator[Desk]:
    for (name,) in db.execute("SHOW TABLES"):
        db.execute(f"DROP TABLE `{name}`")
    with desk(db.url, tmp_path) as found:
        yield found


def add(at: Desk, *tables: str, **settings: Any) -> None:
    at.add(*tables, password_env="MAINSTEM_SECRET_A", **settings)


SCHEMAS = (
    "ALTER TABLE {t} ADD COLUMN IF NOT EXISTS extra INT",
    "ALTER TABLE {t} DROP COLUMN IF EXISTS extra",
    "ALTER TABLE {t} MODIFY note VARCHAR(100)",
    "ALTER TABLE {t} MODIFY note TEXT",
)


@pytest.mark.parametrize("seed", seeds(1, 2, 100))
def test_topics_equal_tables_after_random_transactions_during_the_snapshot_and_after_it(
    db: MariaDb, at: Desk, seed: int
) -> None:
    db.execute(*(TABLE.format(t=each) for each in "ab"))
    dialect = db.dialect(*SCHEMAS)
    with Writer(dialect, "ab", seed) as first, Writer(dialect, "ab", -seed) as second:

        def wait_for_commits(count: int) -> None:
            target = first.commits + second.commits + count
            wait_until(lambda: first.commits + second.commits > target, "no commits")

        wait_for_commits(30)
        add(at, "a", "b")
        at.wait_for("following")
        wait_for_commits(200)
        at.connectors.snapshot("shop", ["shop.a"])
        at.connectors.restart("shop")
        wait_for_commits(200)
    assert not first.errors + second.errors

    at.wait_past(db.last())

    for table in "ab":
        assert_equal(at.mirror(f"shop.shop.{table}"), db.rows(table))


TYPES: list[tuple[str, str, object]] = [
    ("boolean", "true", 1),
    ("tinyint", "-128", -128),
    ("tinyint unsigned", "255", 255),
    ("smallint", "-32768", -32768),
    ("year", "2024", 2024),
    ("smallint unsigned zerofill", "65535", 65535),
    ("mediumint", "-8388608", -8388608),
    ("mediumint unsigned", "16777215", 16777215),
    ("int unsigned", "4294967295", 4294967295),
    ("bigint", "-9223372036854775808", -9223372036854775808),
    ("bigint unsigned", "18446744073709551615", 18446744073709551615),
    ("float", "1.1", 1.1),
    ("float", "16777217", 16777216.0),
    ("float", "-3.4028235e38", -3.4028235e38),
    ("double", "0.1", 0.1),
    ("double", "1.7976931348623157e308", 1.7976931348623157e308),
    ("decimal(10,2)", "-1234.50", "/h3G"),
    ("decimal(10,2)", "0", "AA=="),
    (
        "decimal(65,30)",
        "12345678901234567890123456789012345.1",
        "HgK8HpeFi9xsuVBY80JNMW9/pCUCGULgAAAA",
    ),
    ("decimal(4,4)", "0.0001", "AQ=="),
    ("decimal(5,0) unsigned", "99999", "AYaf"),
    ("bit(1)", "b'1'", True),
    ("bit(10)", "b'1000000001'", "AQI="),
    ("bit(64)", "b'1'", "AQAAAAAAAAA="),
    ("char(4)", "'ab'", "ab"),
    ("varchar(300)", "'ü€😀'", "ü€😀"),
    ("varchar(20) character set latin1", "'ü€'", "ü€"),
    ("varchar(20) character set utf16", "'ü😀'", "ü😀"),
    ("char(255)", "repeat('ü', 255)", "ü" * 255),
    ("tinytext", "'a'", "a"),
    ("text", "''", ""),
    ("mediumtext character set koi8r", "'Ж'", "Ж"),
    ("longtext", "repeat('x', 70000)", "x" * 70_000),
    ("json", "'{\"a\": 1}'", '{"a": 1}'),
    ("binary(4)", "x'0100'", "AQAAAA=="),
    ("varbinary(300)", "x'00ff10'", "AP8Q"),
    ("tinyblob", "x'00'", "AA=="),
    ("blob", "''", ""),
    ("longblob", "x'ff00'", "/wA="),
    ("enum('a','b''c','ü')", "'ü'", "ü"),
    ("enum('a','b''c','ü')", "'b''c'", "b'c"),
    ("set('x','y','z')", "'z,x'", "x,z"),
    ("set('x','y','z')", "''", ""),
    ("date", "'2024-02-29'", 19782),
    ("date", "'0000-00-00'", None),
    ("date", "'2024-00-10'", None),
    ("date not null", "'0000-00-00'", 0),
    ("time", "'23:59:59'", 86399000000),
    ("time", "'-838:59:59'", -3020399000000),
    ("time(1)", "'-00:00:00.5'", -500000),
    ("time(3)", "'100:00:00.125'", 360000125000),
    ("time(6)", "'-100:00:01.500001'", -360001500001),
    ("datetime", "'2024-02-29 12:00:00'", 1709208000000),
    ("datetime(3)", "'2024-02-29 12:00:00.123'", 1709208000123),
    ("datetime(6)", "'2024-02-29 12:00:00.123456'", 1709208000123456),
    ("datetime", "'0000-00-00 00:00:00'", None),
    ("datetime not null", "'0000-00-00 00:00:00'", 0),
    ("datetime", "'9999-12-31 23:59:59'", 253402300799000),
    ("timestamp null", "'2024-02-29 12:00:00'", "2024-02-29T12:00:00Z"),
    ("timestamp(2) null", "'2024-02-29 12:00:00.12'", "2024-02-29T12:00:00.12Z"),
    ("timestamp(6) null", "'2024-02-29 12:00:00.000001'", "2024-02-29T12:00:00.000001Z"),
    ("timestamp null", "'0000-00-00 00:00:00'", None),
    ("year", "1901", 1901),
    ("year", "0", 0),
    ("point", "point(1, 2.5)", {"wkb": "AQEAAAAAAAAAAADwPwAAAAAAAARA", "srid": None}),
    (
        "geometry",
        "st_geomfromtext('point(1 2.5)', 4326)",
        {"wkb": "AQEAAAAAAAAAAADwPwAAAAAAAARA", "srid": 4326},
    ),
    ("uuid", "'123e4567-e89b-12d3-a456-426614174000'", "123e4567-e89b-12d3-a456-426614174000"),
    ("inet6", "'2001:db8::1'", "2001:db8::1"),
    ("inet6", "'::ffff:192.0.2.1'", str(ipaddress.IPv6Address("::ffff:192.0.2.1"))),
    ("inet4", "'192.0.2.0'", "192.0.2.0"),
    ("binary(16)", "x'01'", "AQAAAAAAAAAAAAAAAAAAAA=="),
    ("int as (id + 1)", "DEFAULT", 0),
    ("int as (id + 2) stored", "DEFAULT", 0),
]


def test_every_type_has_its_mapping_in_snapshots_and_in_changes(db: MariaDb, at: Desk) -> None:
    columns = ", ".join(f"c{place} {kind}" for place, (kind, _, _) in enumerate(TYPES))
    values = ", ".join(text for _, text, _ in TYPES)
    nulls = ", ".join(
        "0" if "not null" in kind else "DEFAULT" if "as (" in kind else "NULL"
        for kind, _, _ in TYPES
    )
    session = "SET sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00', character_set_client"
    with db.connect() as connection:
        connection.execute(f"{session} = utf8mb4")
        connection.execute(f"CREATE TABLE types (id INT PRIMARY KEY, {columns})")
        connection.execute(f"INSERT INTO types VALUES (1, {values}), (2, {nulls})")
        add(at, "types")
        connection.execute(f"INSERT INTO types VALUES (3, {values}), (4, {nulls})")
    at.wait_past(db.last())

    found = {each["after"]["id"]: each["after"] for each in at.values("shop.shop.types")}
    schemas = len(at.values("shop"))

    for number in (1, 3):
        expected = {f"c{place}": value for place, (_, _, value) in enumerate(TYPES)}
        made = {f"c{len(TYPES) - 2}": number + 1, f"c{len(TYPES) - 1}": number + 2}
        assert found[number] == {"id": number, **expected, **made}
    assert {name: value for name, value in found[2].items() if value is not None}.keys() == {
        name for name, value in found[4].items() if value is not None
    }
    # The binlog describes the table as the catalog does.
    assert schemas == 1

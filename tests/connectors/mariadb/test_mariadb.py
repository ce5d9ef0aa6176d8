"""A real MariaDB and a server: topics equal tables, and everything that cannot be is refused."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.connectors.desk import Desk, desk
from tests.connectors.mariadb.databases import SCHEMAS, TABLE, MariaDb
from tests.connectors.mariadb.types import TYPES
from tests.long_runs import seeds
from tests.processes import wait_until

from mainstem.pipelines.planning.change_values import OPERATIONS, position_of


@pytest.fixture
def at(db: MariaDb, tmp_path: Path) -> Iterator[Desk]:
    db.execute("DROP DATABASE shop", "CREATE DATABASE shop", database="")
    with desk(db.url, tmp_path) as found:
        yield found


def add(at: Desk, *tables: str, **settings: Any) -> None:
    at.add(*tables, password_env="MAINSTEM_SECRET_A", **settings)


@pytest.mark.parametrize("seed", seeds(1, 2, 100))
def test_topics_equal_tables_after_random_transactions_during_the_snapshot_and_after_it(
    db: MariaDb, at: Desk, seed: int
) -> None:
    db.execute(*(TABLE.format(t=each) for each in "ab"))
    at.add_and_snapshot_again(db.dialect(*SCHEMAS), seed, "shop", password_env="MAINSTEM_SECRET_A")

    at.assert_equals(db.last(), "shop", db.rows)


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


def test_a_change_of_the_key_is_a_deletion_and_a_new_row(db: MariaDb, at: Desk) -> None:
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1)")
    add(at, "t")
    db.execute("UPDATE t SET v = 2", "UPDATE t SET id = 2", "DELETE FROM t", "TRUNCATE t")
    at.wait_past(db.last())

    assert at.changes("shop.shop.t") == [
        ("r", None, {"id": 1, "v": 1}),
        ("u", {"id": 1, "v": 1}, {"id": 1, "v": 2}),
        ("d", {"id": 1, "v": 2}, None),
        ("c", None, {"id": 2, "v": 2}),
        ("d", {"id": 2, "v": 2}, None),
        ("t", None, None),
    ]
    assert at.values("shop.shop.t")[-2] is None
    source = at.values("shop.shop.t")[-1]["source"]
    assert (source["connector"], source["db"], source["table"]) == ("mariadb", "shop", "t")
    assert source["gtid"].startswith("0-7-")


def test_rows_are_read_on_after_any_kind_of_key(db: MariaDb, at: Desk) -> None:
    keys = {
        "numbers": (
            "a BIGINT, b BIGINT UNSIGNED",
            "CAST(seq AS SIGNED) - 3000, 18446744073709551615 - seq",
        ),
        "texts": ("a VARCHAR(20) CHARACTER SET latin1, b CHAR(9)", "concat('é', seq), seq % 7"),
        "bytes": ("a VARBINARY(20), b INT", "unhex(hex(concat('\\\\0', seq % 9))), seq"),
        "times": ("a DATETIME(6), b DATE", "from_unixtime(seq / 8), '2024-02-29'"),
        "enums": ("a ENUM('z','y','x'), b DECIMAL(9,3)", "seq % 3 + 1, seq / 8"),
        "reals": ("a FLOAT, b DOUBLE", "seq / 10, seq / 3"),
    }
    for name, (columns, values) in keys.items():
        db.execute(
            f"CREATE TABLE {name} ({columns}, v INT, PRIMARY KEY (a, b))",
            f"INSERT INTO {name} SELECT {values}, 1 FROM seq_1_to_2100",
        )
    add(at)
    before = {name: at.table(f"shop.shop.{name}") for name in keys}
    at.connectors.snapshot("shop", [])
    topics = [f"shop.shop.{name}" for name in keys]
    wait_until(lambda: min(map(at.count, topics)) >= 4_200, lambda: str(at.state()))

    assert {len(rows) for rows in before.values()} == {2_100}
    assert {at.count(topic) for topic in topics} == {4_200}
    assert {name: at.table(f"shop.shop.{name}") for name in keys} == before


def test_schema_changes_are_published_with_their_statement(db: MariaDb, at: Desk) -> None:
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, a INT, b TEXT)")
    add(at, "t")
    at.connectors.pause("shop")
    db.execute(
        "INSERT INTO t VALUES (1, 1, 'x')",
        "ALTER TABLE t ADD COLUMN c INT UNSIGNED AFTER id",
        "INSERT INTO t VALUES (2, 7, 2, 'y')",
        "ALTER TABLE t CHANGE a z BIGINT, DROP COLUMN b",
        "INSERT INTO t VALUES (3, 8, 3)",
        "DROP TABLE t",
        "CREATE TABLE t (name VARCHAR(9) PRIMARY KEY)",
        "INSERT INTO t VALUES ('n')",
    )
    at.connectors.resume("shop")
    at.wait_past(db.last())

    schemas = [(each["ddl"], each["tableChanges"][0]["table"]) for each in at.values("shop")]

    # The connector was away: the rows are as they were written, not as the table is now.
    assert [after for _, _, after in at.changes("shop.shop.t")] == [
        {"id": 1, "a": 1, "b": "x"},
        {"id": 2, "c": 7, "a": 2, "b": "y"},
        {"id": 3, "c": 8, "z": 3},
        None,
        {"name": "n"},
    ]
    assert [ddl for ddl, _ in schemas] == [
        None,
        "ALTER TABLE t ADD COLUMN c INT UNSIGNED AFTER id",
        "ALTER TABLE t CHANGE a z BIGINT, DROP COLUMN b",
        "CREATE TABLE t (name VARCHAR(9) PRIMARY KEY)",
    ]
    types = [[each["typeName"] for each in table["columns"]] for _, table in schemas]
    assert types[2:] == [["int", "int unsigned", "bigint"], ["varchar(9)"]]


def test_tables_without_key_new_tables_and_other_databases(db: MariaDb, at: Desk) -> None:
    db.execute(
        "CREATE TABLE nokey (a INT, v INT)",
        "INSERT INTO nokey VALUES (1, 1), (1, 1)",
        "CREATE DATABASE IF NOT EXISTS other",
        "CREATE OR REPLACE TABLE other.t (id INT PRIMARY KEY)",
        "INSERT INTO other.t VALUES (1)",
    )
    add(at, "shop.*", "other.t", exclude=("secret*",))
    db.execute(
        "DELETE FROM nokey LIMIT 1",
        "CREATE TABLE `odd ``name``, 100%` (id INT PRIMARY KEY, `a b` INT)",
        "INSERT INTO `odd ``name``, 100%` VALUES (1, 2)",
        "CREATE TABLE secret (id INT PRIMARY KEY) SELECT 1 AS id",
        "CREATE TABLE copied (id INT PRIMARY KEY) SELECT 1 AS id",
        "INSERT INTO other.t VALUES (2)",
    )
    at.wait_past(db.last())

    assert at.changes("shop.shop.nokey")[2:] == [("d", {"a": 1, "v": 1}, None)]
    # They are found as new ones, too, and may be read already.
    assert at.changes("shop.shop.odd__name___100_")[0] == ("c", None, {"id": 1, "a b": 2})
    assert at.table("shop.shop.copied") == {b'{"id":1}': {"id": 1}}
    assert [after for _, _, after in at.changes("shop.other.t")] == [{"id": 1}, {"id": 2}]
    assert "shop.shop.secret" not in {each.name for each in at.broker.topics()}


def test_the_binlog_is_followed_through_new_files_and_compressed_events(
    db: MariaDb, at: Desk
) -> None:
    db.execute(TABLE.format(t="t"))
    add(at, "t")
    for number in range(3):
        db.execute(f"INSERT INTO t VALUES ({number}, 1, 'n', 'x')", "FLUSH BINARY LOGS")
    with db.options(log_bin_compress="ON", binlog_checksum="NONE"):
        db.execute("INSERT INTO t VALUES (7, 1, 'n', repeat('y', 5000))", "UPDATE t SET v = 2")
    db.execute("FLUSH BINARY LOGS", "UPDATE t SET v = 3")
    at.wait_past(db.last())
    at.connectors.restart("shop")
    # The second one has both rows, and takes more than one packet of the protocol.
    for number in (4, 5):
        db.execute(f"UPDATE t SET big = repeat('{number}', 9000000), v = {number} WHERE id = 7")
    assert "raise the limit" in at.wait_for("failed").report.trouble
    at.connectors.remove("shop")
    add(at, "t", max_event_bytes=40_000_000, name="large")
    at.wait_past(db.last(), "large")

    assert at.table("large.shop.t")[b'{"id":7}']["big"] == "5" * 9_000_000
    assert at.mirror("shop.shop.t").rows.keys() == db.rows("t").keys()


STOPS = [
    ("RESET MASTER; INSERT INTO t VALUES (9)", "restart shop --snapshot"),
    (
        "FLUSH BINARY LOGS; INSERT INTO t VALUES (9); PURGE",
        "restart shop --snapshot",
    ),
    (
        "SET SESSION binlog_format = STATEMENT; INSERT INTO t VALUES (9)",
        "a statement has changed rows, and the binlog does not tell which: INSERT INTO t",
    ),
    (
        "SET SESSION binlog_row_image = MINIMAL; UPDATE t SET v = 5",
        "only some columns of table shop.t",
    ),
    ("ALTER TABLE parts DROP PARTITION p1", "ALTER TABLE parts DROP PARTITION p1"),
    ("XA START 'a'; INSERT INTO t VALUES (9, 9); XA END 'a'; XA PREPARE 'a'", "prepared by XA"),
    ("SET GLOBAL binlog_row_metadata = NO_LOG; FLUSH TABLES; INSERT INTO t VALUES (9); "
     "SET GLOBAL binlog_row_metadata = FULL",
     "does not name the columns of shop.t"),
    ("SET GLOBAL binlog_format = MIXED", "binlog_format is MIXED, and ROW is needed"),
    ("REVOKE REPLICATION SLAVE ON *.* FROM app@127.0.0.1", "GRANT SELECT, REPLICATION SLAVE"),
]  # fmt: skip


@pytest.mark.parametrize(("harm", "said"), STOPS, ids=[each[:12] for each, _ in STOPS])
def test_what_would_lose_changes_stops_the_connector_and_says_what_to_do(
    db: MariaDb, at: Desk, harm: str, said: str
) -> None:
    db.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, v INT DEFAULT 0)",
        "INSERT INTO t (id) VALUES (1)",
        "CREATE TABLE parts (id INT PRIMARY KEY) PARTITION BY RANGE (id) "
        "(PARTITION p1 VALUES LESS THAN (10), PARTITION p2 VALUES LESS THAN (20))",
    )
    add(at, "t", "parts")
    at.connectors.pause("shop")
    with db.connect() as connection:
        for each in harm.replace("(9)", "(9, 9)").split("; "):
            if each == "PURGE":
                wait_until(db.purge, "a connection still reads the old files")
            else:
                connection.execute(each)
        at.connectors.resume("shop")
        error = at.wait_for("failed").report.trouble
        if harm.startswith("XA"):
            connection.execute("XA ROLLBACK 'a'")
    db.execute(
        "SET GLOBAL binlog_row_metadata = FULL",
        "SET GLOBAL binlog_format = ROW",
        "GRANT REPLICATION SLAVE ON *.* TO app@127.0.0.1",
    )

    assert said in error


def test_a_binlog_that_began_anew_is_recognised_though_it_has_the_same_positions(
    db: MariaDb, at: Desk
) -> None:
    made = ["RESET MASTER", "CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)"]
    db.execute(*made)
    add(at, "t")
    at.connectors.pause("shop")
    end = db.last()
    db.execute("DROP TABLE t")
    with db.connect() as connection:
        for each in ("SET SESSION gtid_domain_id = 5", *made):
            connection.execute(each)
        assert db.last() == end
    db.execute("INSERT INTO t VALUES (2)")
    at.connectors.resume("shop")

    assert "or the binlog began anew" in at.wait_for("failed").report.trouble
    db.execute("DELETE FROM t WHERE id = 1")
    at.connectors.restart("shop", snapshot=True)
    at.wait_for("following")
    db.execute("INSERT INTO t VALUES (3)")
    at.wait_past(db.last())

    # What the advice leads to: the row is gone, and what is new sorts after what was before.
    assert at.table("shop.shop.t").keys() == {b'{"id":2}', b'{"id":3}'}
    values = at.values("shop.shop.t")
    assert [each["op"] for each in values][-3:] == ["t", "r", "c"]
    positions = [
        position_of(each["source"], offset, OPERATIONS[each["op"]])
        for offset, each in enumerate(values)
    ]
    assert positions == sorted(positions)


def test_transactions_are_told_by_their_topic_and_in_every_event(db: MariaDb, at: Desk) -> None:
    db.execute("CREATE TABLE a (id INT PRIMARY KEY, v INT)", "CREATE TABLE b (id INT PRIMARY KEY)")
    add(at, "a", "b", transactions=True)
    db.execute(
        "BEGIN",
        "INSERT INTO a VALUES (1, 1), (2, 2)",
        "INSERT INTO b VALUES (1)",
        "UPDATE a SET id = 3 WHERE id = 1",
        "COMMIT",
        "INSERT INTO b VALUES (7)",
        "TRUNCATE b",
        "ALTER TABLE a ADD COLUMN more INT",
    )
    at.wait_past(db.last())

    told = at.values("shop.transaction")
    ids = [each["id"] for each in told[::2]]
    events = [
        (each["op"], each["transaction"]["total_order"], each["transaction"]["id"])
        for name in "ab"
        for each in at.values(f"shop.shop.{name}")
        if each is not None
    ]

    assert [(each["status"], each["id"], each["event_count"]) for each in told] == [
        ("BEGIN", ids[0], None),
        ("END", ids[0], 5),
        *(found for each in ids[1:] for found in (("BEGIN", each, None), ("END", each, 1))),
    ]
    assert told[1]["data_collections"] == [
        {"data_collection": "shop.a", "event_count": 4},
        {"data_collection": "shop.b", "event_count": 1},
    ]
    assert events == [
        *(("c", order, ids[0]) for order in (1, 2)),
        ("d", 4, ids[0]),
        ("c", 5, ids[0]),
        ("c", 3, ids[0]),
        ("c", 1, ids[1]),
        ("t", 1, ids[2]),
    ]
    # It is the GTID, as in Debezium.
    assert [each["source"]["gtid"] for each in at.values("shop.shop.b")] == ids


def test_a_row_of_100_mib_stops_until_its_topic_allows_it(db: MariaDb, at: Desk) -> None:
    large = 100 * 1024 * 1024
    insert = f"INSERT INTO t VALUES ({{}}, 1, 'n', repeat('x', {large}))"
    db.execute(TABLE.format(t="t"))
    add(at, "t")
    with db.options(max_allowed_packet=str(2 * large)):
        db.execute(insert.format(1))
        state = at.wait_for("failed")
    assert "shop.shop.t" in state.report.trouble
    assert "max_batch_bytes" in state.report.trouble

    at.broker.alter_topic("shop.shop.t", max_batch_bytes=large + 1_000_000).durable.wait()
    at.connectors.restart("shop")
    at.wait_past(db.last())
    (followed,) = at.values("shop.shop.t")
    assert followed["after"]["big"] == "x" * large
    at.connectors.remove("shop")
    add(at, "t", name="read", max_event_bytes=large + 1_000_000)
    (read,) = at.values("read.shop.t")

    assert (read["op"], read["after"]) == ("r", followed["after"])

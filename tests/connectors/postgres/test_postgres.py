"""A real PostgreSQL and a server: topics equal tables, and everything that cannot be is refused."""

from typing import Any

import psycopg
import pytest
from tests.connectors.mirror import Mirror
from tests.connectors.postgres.desk import PostgresDesk
from tests.connectors.postgres.equality import assert_equal, rows_of
from tests.connectors.workload import SCHEMAS, create
from tests.connectors.writer import Writer
from tests.long_runs import seeds
from tests.processes import wait_until

from mainstem.connectors.errors import SourceRefused, UnknownConnector
from mainstem.connectors.settings import SnapshotMode


@pytest.mark.parametrize("seed", seeds(1, 2, 100))
def test_topics_equal_tables_after_random_transactions_during_the_snapshot_and_after_it(
    desk: PostgresDesk, seed: int
) -> None:
    create(desk.db, "a", "b")
    desk.add_and_snapshot_again(desk.db.dialect(*SCHEMAS), seed, "public")

    desk.assert_equals(desk.db.last(), "public", lambda table: rows_of(desk.db, table))


def test_a_change_of_the_key_is_a_deletion_and_a_new_row(desk: PostgresDesk) -> None:
    desk.db.execute("CREATE TABLE t (id int PRIMARY KEY, v int)", "INSERT INTO t VALUES (1, 1)")
    desk.add("public.t")
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


def test_columns_are_left_out_and_masked(desk: PostgresDesk) -> None:
    desk.db.execute(
        "CREATE TABLE users (id int PRIMARY KEY, email text, age int, secret text)",
        "INSERT INTO users VALUES (1, 'a@b.c', 3, 'x'), (2, NULL, NULL, NULL)",
        "CREATE TABLE log (id int PRIMARY KEY)",
    )
    columns: dict[str, Any] = {
        "exclude_columns": ("public.users.sec*",),
        "mask_columns": ("public.*.email",),
    }
    desk.add("public.*", exclude=("public.l*",), **columns)
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


def test_tables_without_key_and_partitioned_ones(desk: PostgresDesk) -> None:
    desk.db.execute(
        "CREATE TABLE nokey (a int, v int)",
        "ALTER TABLE nokey REPLICA IDENTITY FULL",
        "INSERT INTO nokey VALUES (1, 1), (1, 1)",
        "CREATE TABLE parts (id int PRIMARY KEY, v int) PARTITION BY RANGE (id)",
        "CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (10)",
        "INSERT INTO parts VALUES (1, 1)",
    )
    desk.add("public.*")
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


def test_schema_changes_are_followed_and_published_once(desk: PostgresDesk) -> None:
    desk.db.execute("CREATE TABLE t (id int PRIMARY KEY, a int)")
    desk.add("public.t")
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


def test_a_new_table_is_found_and_read_while_others_are_followed(desk: PostgresDesk) -> None:
    create(desk.db, "a")
    desk.db.execute("INSERT INTO a VALUES (1, 1)")
    desk.add("public.*")
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


def test_a_paused_connector_goes_on_where_it_was(desk: PostgresDesk) -> None:
    create(desk.db, "t")
    desk.add("public.t", snapshot=SnapshotMode.NONE)
    desk.db.execute("INSERT INTO t VALUES (1, 1)")
    desk.catch_up()
    desk.connectors.pause("shop")
    desk.wait_for("paused")
    desk.db.execute("UPDATE t SET v = 2")
    wait_until(lambda: desk.state().report.lag_bytes > 0, "no lag")
    assert len(desk.events("shop.public.t")) == 1

    desk.connectors.resume("shop")
    desk.catch_up()

    assert [each["after"]["v"] for each in desk.values("shop.public.t")] == [1, 2]
    with pytest.raises(UnknownConnector):
        desk.connectors.pause("other")


def test_a_row_larger_than_its_topic_allows_stops_until_the_topic_allows_it(
    desk: PostgresDesk,
) -> None:
    create(desk.db, "t")
    desk.add("public.t")
    desk.wait_for("following")
    desk.db.execute("INSERT INTO t VALUES (1, 1, 'n', repeat('x', 100 * 1024 * 1024))")

    state = desk.wait_for("failed")

    assert "shop.public.t" in state.report.trouble
    assert "max_batch_bytes" in state.report.trouble
    desk.broker.alter_topic("shop.public.t", max_batch_bytes=120 * 1024 * 1024).durable.wait()
    desk.connectors.restart("shop")
    desk.catch_up()
    (event,) = desk.events("shop.public.t")
    assert len(event.value or b"") > 100 * 1024 * 1024


def test_a_large_transaction_that_was_published_in_part_is_continued_where_it_was(
    desk: PostgresDesk,
) -> None:
    create(desk.db, "t", "other")
    desk.add("public.t")
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


def test_a_connection_that_is_cut_is_opened_again(desk: PostgresDesk) -> None:
    create(desk.db, "t")
    desk.add("public.t")
    desk.wait_for("following")
    with pytest.raises(psycopg.OperationalError):
        desk.db.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity")
    desk.db.execute("INSERT INTO t VALUES (1, 1)")

    desk.catch_up()

    assert [each["after"]["id"] for each in desk.values("shop.public.t")] == [1]

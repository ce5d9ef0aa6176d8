"""What is published besides plain changes: outbox events, transactions, CloudEvents, alarms."""

import json
import threading

import pytest
from cloudevents.core.formats.json import JSONFormat
from tests.connectors.outbox import HEADERS, ROWS, check_events, outbox_row
from tests.connectors.postgres.desk import PostgresDesk
from tests.processes import wait_until

from mainstem.connectors.errors import SourceRefused
from mainstem.connectors.settings import Format

OUTBOX = (
    "CREATE TABLE outbox (id uuid PRIMARY KEY, aggregatetype text, aggregateid text, type text, "
    "payload jsonb, tenant int)"
)


def test_rows_of_an_outbox_are_the_events_that_they_describe_once(desk: PostgresDesk) -> None:
    made, paid, rolled_back, payment = ROWS
    desk.db.execute(OUTBOX, "CREATE TABLE orders (id int PRIMARY KEY)", made)
    desk.add("public.orders", outbox=("public.outbox",), outbox_headers=HEADERS)
    desk.db.execute(
        f"{paid}; DELETE FROM outbox",
        f"BEGIN; {rolled_back}; ROLLBACK",
        payment,
        "UPDATE outbox SET type = 'other'",
        "TRUNCATE outbox",
    )
    desk.catch_up()
    desk.connectors.snapshot("shop", [])
    wait_until(lambda: "outbox" in desk.state().report.note, lambda: str(desk.state()))
    desk.connectors.restart("shop")
    desk.catch_up()

    check_events(desk.events)
    assert not desk.broker.topics("shop.public.outbox")


def test_an_outbox_without_its_columns_or_with_a_bad_topic_is_refused(desk: PostgresDesk) -> None:
    desk.db.execute(OUTBOX, "CREATE TABLE other (id int PRIMARY KEY, payload text)")
    with pytest.raises(SourceRefused, match="has no column aggregatetype, aggregateid"):
        desk.add(outbox=("public.other",))
    desk.add(outbox=("public.outbox",), outbox_topic="${routedByValue}")
    desk.db.execute(outbox_row(1, "'__mainstem_topics', '1', 'x', '{}', 1"))

    error = desk.wait_for("failed").report.trouble

    assert "names no topic" in error
    assert "123e4567-e89b-12d3-a456-000000000001" in error


def test_transactions_are_told_by_their_topic_and_in_every_event(desk: PostgresDesk) -> None:
    desk.db.execute(
        "CREATE TABLE a (id int PRIMARY KEY, v int)", "CREATE TABLE b (id int PRIMARY KEY)"
    )
    desk.add("public.*", transactions=True)
    desk.wait_for("following")
    desk.db.execute(
        "INSERT INTO a VALUES (1, 1), (2, 2); INSERT INTO b VALUES (1); UPDATE a SET id = 3 WHERE "
        "id = 1; DELETE FROM b",
        "INSERT INTO b VALUES (7)",
    )
    desk.catch_up()

    told = desk.values("shop.transaction")
    events = [
        (each["op"], each["transaction"]["total_order"], each["transaction"]["id"])
        for name in "ab"
        for each in desk.values(f"shop.public.{name}")
        if each is not None
    ]

    first, second = told[0]["id"], told[2]["id"]
    assert [(each["status"], each["id"], each["event_count"]) for each in told] == [
        ("BEGIN", first, None),
        ("END", first, 6),
        ("BEGIN", second, None),
        ("END", second, 1),
    ]
    assert told[1]["data_collections"] == [
        {"data_collection": "public.a", "event_count": 4},
        {"data_collection": "public.b", "event_count": 2},
    ]
    assert [each.key for each in desk.events("shop.transaction")] == [
        json.dumps({"id": each["id"]}, separators=(",", ":")).encode() for each in told
    ]
    assert events == [
        *(("c", order, first) for order in (1, 2)),
        ("d", 4, first),
        ("c", 5, first),
        ("c", 3, first),
        ("d", 6, first),
        ("c", 1, second),
    ]


def test_a_transaction_that_is_continued_begins_once_and_goes_on_counting(
    desk: PostgresDesk,
) -> None:
    desk.db.execute("CREATE TABLE t (id int PRIMARY KEY, v text)")
    desk.add("public.t", transactions=True)
    with desk.db.connect() as connection, connection.transaction():
        connection.execute(
            "INSERT INTO t SELECT i, repeat('x', 4000) FROM generate_series(1, 1500) i"
        )
        connection.execute("INSERT INTO t VALUES (0, repeat('x', 20000000))")
    assert desk.wait_for("failed").progress.done > 500

    desk.broker.alter_topic("shop.public.t", max_batch_bytes=30_000_000).durable.wait()
    desk.connectors.restart("shop")
    desk.catch_up()

    orders = [each["transaction"]["total_order"] for each in desk.values("shop.public.t")]
    assert orders == list(range(1, 1502))
    assert [each["status"] for each in desk.values("shop.transaction")] == ["BEGIN", "END"]


def test_cloudevents_are_read_by_their_sdk_and_have_different_ids(desk: PostgresDesk) -> None:
    desk.db.execute(
        "CREATE TABLE t (id int PRIMARY KEY, v int)", "INSERT INTO t VALUES (1, 1), (2, 2)"
    )
    desk.add("public.t", format=Format.CLOUDEVENTS, transactions=True)
    desk.db.execute("UPDATE t SET id = 3 WHERE id = 1", "DELETE FROM t")
    desk.catch_up()

    events = [each for each in desk.events("shop.public.t") if each.value is not None]
    found = [JSONFormat().read(None, each.value or b"") for each in events]

    assert len({each.get_id() for each in found}) == len(found) == 6
    assert [each.get_attributes()["iodebeziumop"] for each in found] == list("rrdcdd")
    created = found[3]
    assert created.get_type() == "io.debezium.connector.postgresql.DataChangeEvent"
    assert created.get_source() == "/debezium/postgresql/shop"
    assert created.get_data() == {"before": None, "after": {"id": 3, "v": 1}}
    assert created.get_attributes()["iodebeziumtable"] == "t"
    assert created.get_attributes()["iodebeziumtxtotalorder"] == "2"
    assert events[3].key == b'{"id":3}'


def test_the_slot_moves_on_while_only_other_tables_are_written(desk: PostgresDesk) -> None:
    desk.db.execute(
        "CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE other (id int PRIMARY KEY)"
    )
    desk.add("public.t")
    desk.wait_for("following")
    desk.db.execute("INSERT INTO other SELECT generate_series(1, 20000)")
    ((end,),) = desk.db.execute("SELECT pg_current_wal_lsn()::text")

    moved = f"SELECT 1 FROM pg_replication_slots WHERE confirmed_flush_lsn >= '{end}'::pg_lsn"
    wait_until(lambda: desk.db.execute(moved) != [], "the slot stays where it is")
    assert desk.state().report.published == 1


def test_an_alarm_is_on_while_the_database_keeps_too_much(
    desk: PostgresDesk, caplog: pytest.LogCaptureFixture
) -> None:
    desk.db.execute("CREATE TABLE t (id int PRIMARY KEY, v text)")
    desk.add("public.t", alarm_slot_bytes=1_000_000)
    desk.wait_for("following")
    desk.catch_up()
    desk.connectors.pause("shop")
    desk.db.execute("INSERT INTO t SELECT i, repeat('x', 900) FROM generate_series(1, 2000) i")

    wait_until(
        lambda: "alarm_slot_bytes" in desk.state().report.alarm, lambda: str(desk.state()), 30
    )

    assert "alarm_slot_bytes (1000000)" in caplog.text
    desk.connectors.resume("shop")
    desk.catch_up()
    desk.db.execute("CHECKPOINT")
    wait_until(lambda: not desk.state().report.alarm, lambda: str(desk.state()), 30)


def test_a_table_is_not_read_before_the_read_sees_what_was_followed(desk: PostgresDesk) -> None:
    desk.db.execute("CREATE TABLE t (id int PRIMARY KEY, v int)", "INSERT INTO t VALUES (1, 1)")
    desk.add("public.t")
    desk.wait_for("following")
    desk.catch_up()
    # A commit that waits for a standby is in the WAL, and no other session sees it yet.
    desk.db.execute(
        "ALTER SYSTEM SET synchronous_standby_names = 'nobody'", "SELECT pg_reload_conf()"
    )
    writer = threading.Thread(target=desk.db.execute, args=("UPDATE t SET v = 2",))
    try:
        writer.start()
        wait_until(lambda: desk.values("shop.public.t")[-1]["op"] == "u", "no update")
        desk.connectors.snapshot("shop", ["public.t"])
        wait_until(lambda: "reading tables" in desk.state().report.phase, lambda: str(desk.state()))
        assert desk.db.execute("SELECT v FROM t") == [(1,)]
    finally:
        desk.db.execute("ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()")
        writer.join()
    desk.catch_up()

    told = [(each["op"], each["after"]["v"]) for each in desk.values("shop.public.t")]
    assert told == [("r", 1), ("u", 2), ("r", 2)]

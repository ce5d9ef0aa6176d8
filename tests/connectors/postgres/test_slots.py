"""A replication slot that was lost stops the connector, which says what to do."""

from tests.connectors.mirror import Mirror
from tests.connectors.postgres.desk import PostgresDesk
from tests.connectors.workload import create


def stopped_while_paused(desk: PostgresDesk, *statements: str) -> str:
    """Run statements while the connector is paused; return why it cannot go on."""
    create(desk.db, "t")
    desk.add("public.t")
    desk.wait_for("following")
    desk.db.execute("INSERT INTO t VALUES (1, 1), (2, 1)")
    desk.catch_up()
    desk.connectors.pause("shop")
    desk.db.execute("DELETE FROM t WHERE id = 2", "UPDATE t SET v = 2", *statements)
    desk.connectors.resume("shop")
    error = desk.wait_for("failed").report.trouble
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


def test_a_dropped_slot_stops_it(desk: PostgresDesk) -> None:
    error = stopped_while_paused(desk, DROP)

    assert "mainstem_shop is gone" in error
    assert "restart NAME --snapshot" in error


def test_a_slot_that_was_created_anew_stops_it(desk: PostgresDesk) -> None:
    assert "was created anew" in stopped_while_paused(desk, DROP, CREATE)


def test_a_slot_whose_wal_was_removed_stops_it(desk: PostgresDesk) -> None:
    switches = "SELECT pg_switch_wal(); INSERT INTO t VALUES (99, 1); DELETE FROM t WHERE id = 99"
    limit = "ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'"

    error = stopped_while_paused(
        desk, limit, "SELECT pg_reload_conf()", *[switches] * 12, "CHECKPOINT",
        "ALTER SYSTEM RESET max_slot_wal_keep_size", "SELECT pg_reload_conf()",
    )  # fmt: skip

    assert "WAL it needs was removed" in error


def test_a_slot_that_keeps_more_than_its_bound_is_dropped(desk: PostgresDesk) -> None:
    create(desk.db, "t")
    desk.add("public.t", max_slot_bytes=200_000)
    desk.wait_for("following")
    desk.catch_up()
    desk.connectors.pause("shop")
    desk.db.execute("INSERT INTO t SELECT i, 1, repeat('x', 900) FROM generate_series(1, 900) i")

    state = desk.wait_for("failed")

    assert "max_slot_bytes" in state.report.trouble
    assert desk.db.execute("SELECT slot_name FROM pg_replication_slots") == []


def test_another_database_at_the_same_url_stops_it(desk: PostgresDesk) -> None:
    create(desk.db, "t")
    desk.add("public.t")
    desk.wait_for("following")
    desk.catch_up()
    desk.connectors.pause("shop")
    definitions = desk.broker.definitions.open("connectors")
    stored = definitions.get("progress", "shop")
    assert stored is not None
    other = stored.replace(b"/postgres", b"/elsewhere")

    definitions.set("progress", "shop", other).wait()
    desk.connectors.resume("shop")

    assert "another database" in desk.wait_for("failed").report.trouble

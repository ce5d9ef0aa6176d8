"""The order of changes by ``source`` is that of the events in the topic."""

from typing import Any

from tests.connectors.database import Database
from tests.connectors.postgres.desk import PostgresDesk
from tests.processes import wait_until

from mainstem.connectors.settings import ConnectorSettings
from mainstem.pipelines.planning.change_values import OPERATIONS, position_of

TABLES = (
    "CREATE TABLE t (id int PRIMARY KEY, v int)",
    "CREATE TABLE other (id serial PRIMARY KEY)",
    "INSERT INTO t VALUES (1, 1)",
)
WRITE = b"INSERT INTO other DEFAULT VALUES RETURNING pg_current_xact_id()::text"


def wait_for_slot_to_wait(db: Database, xid: str) -> None:
    """Wait until the creation of a slot waits for a transaction."""
    waits = (
        "SELECT 1 FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE NOT granted "
        f"AND backend_type = 'walsender' AND transactionid = '{xid}'::xid"
    )
    wait_until(lambda: db.execute(waits) != [], f"the slot does not wait for {xid}")


def told(desk: PostgresDesk) -> list[tuple[str, Any, str, int]]:
    """Return the operation, the value, the position and the time of each event, in their order."""
    return [
        (
            each["op"],
            each["after"] and each["after"]["v"],
            position_of(each["source"], offset, OPERATIONS[each["op"]]),
            each["source"]["ts_us"],
        )
        for offset, each in enumerate(desk.values("shop.public.t"))
    ]


def test_a_change_that_was_written_before_the_slot_and_committed_after_it_sorts_after_the_read(
    desk: PostgresDesk,
) -> None:
    db = desk.db
    db.execute(*TABLES)
    with db.connect() as first, db.connect() as second, db.connect() as third:
        first.autocommit = second.autocommit = third.autocommit = False
        ((xid,),) = first.execute(WRITE).fetchall()
        settings = ConnectorSettings(name="shop", url=db.url, tables=("public.t",))
        desk.connectors.add(settings)
        wait_for_slot_to_wait(db, xid)
        ((xid,),) = second.execute(WRITE).fetchall()
        first.commit()
        wait_for_slot_to_wait(db, xid)
        third.execute("UPDATE t SET v = 2")
        second.commit()
        desk.wait_for("following")
        third.commit()
    desk.catch_up()

    (read, update) = told(desk)

    assert (read[:2], update[:2]) == (("r", 1), ("u", 2))
    assert read[2] < update[2]

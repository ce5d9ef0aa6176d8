"""Compares what events tell of a table with the table."""

import json
from typing import Any

from tests.connectors.database import Database
from tests.connectors.mirror import Mirror


def rows_of(db: Database, table: str) -> dict[bytes, dict[str, Any]]:
    columns = [
        name
        for (name,) in db.execute(
            "SELECT attname FROM pg_attribute WHERE attrelid = "
            f"'{table}'::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum"
        )
    ]
    found = db.execute(f"SELECT * FROM {table}")
    rows = [dict(zip(columns, row, strict=True)) for row in found]
    return {json.dumps({"id": row["id"]}, separators=(",", ":")).encode(): row for row in rows}


def assert_equal(mirror: Mirror, rows: dict[bytes, dict[str, Any]]) -> None:
    """Check that events tell the table; a row of before a new column has no value of it."""
    assert mirror.flaws == []
    assert mirror.rows.keys() == rows.keys()
    for key, row in rows.items():
        told = mirror.rows[key]
        assert {name: told.get(name) for name in row} == row

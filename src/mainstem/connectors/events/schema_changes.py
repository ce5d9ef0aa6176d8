"""Events about schemas: a table is captured for the first time, or its columns have changed.

They go to the topic that has the connector's name, in the layout of Debezium's schema change topic,
with the database's own names of types. They never carry a Kafka Connect schema of their own.
"""

from collections.abc import Mapping

import msgspec

from mainstem.connectors.events.envelope import Common
from mainstem.connectors.port import Table
from mainstem.core.event import Event


def schema_of(table: Table) -> bytes:
    """Return a table's columns and key as bytes, to be stored and compared with later ones."""
    columns = [[each.name, each.type, dict(each.schema)] for each in table.columns]
    return msgspec.json.encode([columns, table.key])


def schema_change(
    common: Common,
    table: Table,
    before: bytes | None,
    source: Mapping[str, object],
    now_ns: int,
    ddl: str | None = None,
) -> Event:
    """Return the event for a table; ``before`` is its stored schema, None if it is new."""
    now_ms = now_ns // 1_000_000
    database, path = table.schema, [table.schema, table.name]
    if common.has_schemas:
        database, path = common.database, [common.database, *path]
    columns = [
        {
            "name": each.name,
            "typeName": each.type,
            "typeExpression": each.type,
            "position": place,
            "optional": each.optional,
        }
        for place, each in enumerate(table.columns, 1)
    ]
    value = {
        "source": {
            "version": common.version,
            "connector": common.connector,
            "name": common.name,
            "ts_ms": now_ms,
            "snapshot": "true" if before is None and ddl is None else "false",
            "db": common.database,
            "sequence": None,
            "ts_us": now_ns // 1000,
            "ts_ns": now_ns,
            **source,
        },
        "ts_ms": now_ms,
        "databaseName": database,
        "schemaName": table.schema if common.has_schemas else None,
        "ddl": ddl,
        "tableChanges": [
            {
                "type": "CREATE" if before is None else "ALTER",
                "id": ".".join(f'"{each}"' for each in path),
                "table": {"primaryKeyColumnNames": table.key, "columns": columns},
            }
        ],
    }
    key = msgspec.json.encode({"databaseName": database})
    return Event(msgspec.json.encode(value), key, (), now_ms)

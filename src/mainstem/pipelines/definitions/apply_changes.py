"""Tables that mirror a database table from its change events, or keep the history of its rows."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, cast

import msgspec

from mainstem.pipelines.definitions.discovery import call_site, record_definition
from mainstem.pipelines.definitions.table import Source, Table
from mainstem.pipelines.errors import InvalidDefinition
from mainstem.pipelines.sinks.port import Sink, columns_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

POSITION = "_position"
"""Column of a history: the position of the change that made the row's version."""


def apply_changes(
    source: Source,
    *,
    key: str | Sequence[str],
    sink: Sink,
    latest: str = "position",
    scd: Literal[1, 2] = 1,
    name: str = "",
    bad: Literal["dead", "stop"] = "dead",
) -> Table:
    """Define a table that follows a database table: its rows now, or (``scd=2``) their history.

    ``key`` names the columns of the database table's primary key. Of several changes of a row, the
    one with the greatest value in the column ``latest`` is the newest: a column of ``p.changes``,
    or of the database table.
    """
    keys, called = columns_of(key), name or "apply_changes"
    if source.format != "changes":
        raise InvalidDefinition(
            f"table {called!r}: the source of apply_changes is p.changes(topic, schema=...)"
        )
    if not keys:
        raise InvalidDefinition(f"table {called!r}: apply_changes needs key=: the primary key")
    if scd not in (1, 2):
        raise InvalidDefinition(
            f"table {called!r}: scd={scd!r} is not supported; 1 keeps the rows as they are now, "
            "2 keeps their history"
        )
    place, line = call_site()

    def query(changes: "DataFrame") -> "DataFrame":
        # Needs Spark, which is not running while a file is loaded.
        from mainstem.pipelines.definitions.change_queries import history, mirror  # noqa: PLC0415

        return (mirror if scd == 1 else history)(changes, keys, latest)

    result = Table(
        name=name,
        sources=(source,),
        query=query,
        sink=_keyed(sink, keys if scd == 1 else (*keys, POSITION), called),
        output="update",
        bad=bad,
        scd=scd,
        line=line,
        file=place,
    )
    record_definition(result)
    return result


def _keyed(sink: Sink, key: tuple[str, ...], table: str) -> Sink:
    """Return the sink with this key; raises InvalidDefinition if the user gave it another key."""
    if not isinstance(sink, msgspec.Struct) or "key" not in sink.__struct_fields__:
        raise InvalidDefinition(
            f"table {table!r}: {sink.place} cannot delete rows, which apply_changes needs; use a "
            "sink that takes key=, such as p.delta, p.sqlite or p.postgres"
        )
    if sink.key not in ((), key):
        raise InvalidDefinition(
            f"table {table!r}: the sink's key is {', '.join(sink.key)}, but this table's is "
            f"{', '.join(key)}; leave out key= of the sink"
        )
    return cast("Sink", msgspec.structs.replace(sink, key=key))

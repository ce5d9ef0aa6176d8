"""How far a connector has got; appended together with the events that it publishes."""

import msgspec

from mainstem.connectors.port import Key, Position

HEAD = "connectors"
"""Whose definitions they are."""
CONFIG, PROGRESS, SCHEMA, PAUSED, REQUEST = "config", "progress", "schema", "paused", "request"
"""The kinds of definitions; the key is the connector's name, for a schema ``name/schema.table``."""


class PendingTable(msgspec.Struct, frozen=True):
    """A table of which rows are still to be read, and up to where they are."""

    table: str
    after: Key | None = None
    """The key of the last row that was published."""


class Progress(msgspec.Struct, frozen=True, tag_field="kind", tag="progress/1"):
    """How far a connector has got."""

    position: Position | None = None
    """Everything before it is published; None before the first snapshot."""
    transaction: str = ""
    """The transaction after the position that is published in part."""
    done: int = 0
    """How many of its changes are published."""
    done_in: dict[str, int] = {}
    """The same for each table, as other tables may be captured when it is read again."""
    pending: tuple[PendingTable, ...] = ()
    """The tables that are still to be read, in this order."""
    epoch: int = 0
    """When the snapshot began, in milliseconds, if the topics had events of before; else 0.

    Positions may begin anew with such a snapshot, and changes may be missing before it.
    """


def decode_progress(data: bytes | None) -> Progress:
    """Decode stored progress; None, as for a new connector, gives empty progress."""
    return Progress() if data is None else msgspec.json.decode(data, type=Progress)

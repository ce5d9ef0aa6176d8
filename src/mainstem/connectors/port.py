"""The interface between the runtime of connectors and a database: describe, snapshot, follow.

How this works: a source reads one database with blocking calls, in the thread of its connector. It
knows no topics and publishes nothing. It returns rows whose values are ready for JSON: for each
type of column, docs/guides/cdc.md says how its values are written (bytes become base64).

A position is a place in the database's own log of changes, between two transactions. ``follow``
from a position returns every transaction after it, in the order of commits, and returns the same
again when called again: the runtime stores the position together with the events, and after a crash
it skips what it has already published of the first transaction.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple, Protocol

import msgspec

from mainstem.connectors.settings import ConnectorSettings

Row = dict[str, object]
"""The values of a row, by column, ready to be encoded as JSON."""
Key = tuple[str, ...]
"""The values of a row's key, as text that only the source understands."""


class Op(StrEnum):
    """What was done to a row, in the letters of Debezium's envelope."""

    READ = "r"
    """The row was read by a snapshot."""
    CREATE = "c"
    UPDATE = "u"
    DELETE = "d"
    TRUNCATE = "t"
    """All rows of the table were deleted at once."""


class Position(msgspec.Struct, frozen=True):
    """A place in a database's log of changes, between two transactions."""

    at: tuple[int, ...]
    """Grows with every transaction; positions of one database are compared by it."""
    of: str
    """The identity of the database; a position means nothing in another one."""


class Column(msgspec.Struct, frozen=True):
    """A column of a table."""

    name: str
    type: str
    """The type in the database's own words, such as ``numeric(10,2)``."""
    schema: Mapping[str, object]
    """Kafka Connect's schema of the values, without the column's name and ``optional``."""
    optional: bool = True


class Table(msgspec.Struct, frozen=True, eq=False):
    """A table as it was at one time; after a change of its schema there is a new value."""

    schema: str
    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    """The columns of the key of its events; empty if the table has none."""

    @property
    def id(self) -> str:
        """The name that settings and topics use: ``schema.name``."""
        return f"{self.schema}.{self.name}"


class SourceBlock(NamedTuple):
    """The schema of the fields of ``Change.source``, after those that all databases have."""

    name: str
    """The name of Debezium's schema."""
    fields: tuple[tuple[str, str, bool], ...]
    """Name, type, and whether it is optional."""


class Begin(NamedTuple):
    """A transaction begins; its changes follow."""

    transaction: str
    """The same text whenever this transaction is returned again."""
    committed_us: int
    """When it was committed, in microseconds since 1970."""


class Change(NamedTuple):
    """A row that was changed, or was read by a snapshot."""

    table: Table
    op: Op
    before: Row | None
    """The row as it was before, as far as the database tells."""
    after: Row | None
    source: Mapping[str, object]
    """The fields of Debezium's ``source`` block that only this kind of database has."""
    moved: bool = False
    """Whether an update has changed the row's key."""
    unavailable: Sequence[str] = ()
    """Columns whose value in ``after`` only stands for one that the database did not log."""


class SchemaChange(NamedTuple):
    """A table has new columns or a new key, or is seen for the first time."""

    table: Table
    is_new: bool
    source: Mapping[str, object]
    ddl: str | None = None
    """The statement that made the change, if the database tells it."""


class Commit(NamedTuple):
    """The transaction is complete."""

    position: Position


class Progress(NamedTuple):
    """The position has moved on, and there was nothing to publish."""

    position: Position


Item = Begin | Change | SchemaChange | Commit | Progress


class Chunk(NamedTuple):
    """Some rows of a table, read while the source is also followed."""

    changes: Sequence[Change]
    keys: Sequence[Key]
    """The key of each row; the last one is where the next chunk begins."""
    holds_at: Position
    """The rows are as of this position or shortly before it.

    The runtime publishes them once it has followed that far, except those that changed meanwhile.
    Every change that was followed before the read is contained in the rows.
    """
    is_last: bool


class Snapshot(Protocol):
    """A consistent view of all tables, at the position where following begins."""

    @property
    def position(self) -> Position:
        """Where to follow from."""

    def source(self, table: Table) -> Mapping[str, object]:
        """Return ``Change.source`` of the rows of a table."""

    def rows(self, table: Table) -> Iterator[Sequence[tuple[Change, Key]]]:
        """Return all rows of a table in pieces, in the order of the key, each with its key."""

    def close(self) -> None:
        """Give up the view."""


class Watch(NamedTuple):
    """What the database says about the changes that it keeps for the connector."""

    lag_bytes: int
    """How much of its log the database keeps because the connector has not confirmed it."""
    refusal: str = ""
    """Why following cannot go on; empty if it can."""


class Source(Protocol):
    """One database, used by one thread at a time; raises SourceFailed and SourceRefused."""

    @property
    def database(self) -> str:
        """The name of the database, for events."""

    def tables(self) -> Sequence[Table]:
        """Check that the database can be followed, and return the tables to capture."""

    def capture(self, tables: Sequence[Table]) -> None:
        """Make the database record the changes of tables, if it does not yet."""

    def begin(self) -> Snapshot:
        """Make the database keep its changes from now on; return a consistent view of this moment.

        What an interrupted ``begin`` has left in the database is replaced.
        """

    def read(self, table: str, after: Key | None, limit: int) -> Chunk | None:
        """Return the rows of a table (``schema.name``) after a key, in the order of the key.

        Returns None if it must be tried again later; raises SourceRefused without such a table.
        """

    def follow(self, position: Position) -> Iterator[Item | None]:
        """Return all changes after a position; None when there are no more for the moment.

        Raises SourceRefused if the database no longer has them.
        """

    def confirm(self, position: Position) -> None:
        """Tell the database that it need not keep the changes before a position any more."""

    def watch(self) -> Watch:
        """Return how much the database keeps; called also while the connector is paused."""

    def release(self) -> None:
        """Remove what ``begin`` has left in the database: it keeps no changes any more."""

    def close(self) -> None:
        """Close all connections."""


Open = Callable[[ConnectorSettings, Callable[[], str | None]], Source]
"""Makes the source of a connector, without connecting; given how to get the password."""


class Kind(NamedTuple):
    """A kind of database that connectors can read."""

    name: str
    """As Debezium names its connector, such as ``postgresql``."""
    schemes: tuple[str, ...]
    """The schemes of its URLs."""
    source: SourceBlock
    check: Callable[[ConnectorSettings], None]
    """Raises InvalidSetting if the settings are not those of such a database."""
    open: Open
    schema_of_url: Callable[[str], str] = lambda _: ""
    """Returns the schema of tables that settings name without one; empty: it must be named."""
    has_schemas: bool = True
    """Whether a database has schemas; if not, the schema of a table is its database."""

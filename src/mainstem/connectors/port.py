"""The interface between the runtime of connectors and a database: describe, snapshot, follow.

How this works: a source reads one database with blocking calls, in the thread of its connector. It
knows no topics and publishes nothing. It returns rows whose values are ready for JSON;
docs/guides/cdc.md says for each type of column how values are written (bytes become base64).

A position is a place in the database's own log of changes, between two transactions. ``follow``
returns every transaction after a position, in the order of commits, and the same transactions
whenever it is called with that position: the runtime stores the position together with the events,
and after a crash it skips those changes of the first transaction that it has published.
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
    """What was done to a row, as the letter in Debezium's envelope."""

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
    """The name, columns and key of a table at one time; a changed schema makes a new ``Table``."""

    schema: str
    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    """The columns of the key of its events; empty if the table has none."""

    @property
    def id(self) -> str:
        """The table's name in settings and topics: ``schema.name``."""
        return f"{self.schema}.{self.name}"


class SourceBlock(NamedTuple):
    """The fields of Debezium's ``source`` block that only this kind of database has."""

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
    """A row that was changed, or that a snapshot read."""

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
    """The columns or the key of a table have changed, or the table is new to the connector."""

    table: Table
    is_new: bool
    source: Mapping[str, object]
    ddl: str | None = None
    """The statement that made the change, if the database tells it."""


class Commit(NamedTuple):
    """The transaction is complete; ``position`` is after it."""

    position: Position


class Progress(NamedTuple):
    """The position has advanced, but there was nothing to publish."""

    position: Position


Item = Begin | Change | SchemaChange | Commit | Progress


class Chunk(NamedTuple):
    """Some rows of a table, read while its changes are followed."""

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
    """A consistent view of all tables, at one position of the database's log."""

    @property
    def position(self) -> Position:
        """The position from which to follow after the snapshot."""

    def tables(self) -> Sequence[Table]:
        """Return the tables to capture, with the columns that ``rows`` returns."""

    def source(self, table: Table) -> Mapping[str, object]:
        """Return ``Change.source`` for the rows of a table."""

    def rows(self, table: Table) -> Iterator[Sequence[tuple[Change, Key]]]:
        """Yield the rows of a table in lists, in the order of the key, each row with its key."""

    def close(self) -> None:
        """End the view, and the transaction or connection that it uses."""


class Watch(NamedTuple):
    """How much log the database keeps for the connector."""

    lag_bytes: int
    """How much of its log the database keeps because the connector has not confirmed it."""
    refusal: str = ""
    """Why following cannot go on; empty if it can."""


class Source(Protocol):
    """One database, used by one thread at a time; methods raise SourceFailed and SourceRefused."""

    @property
    def database(self) -> str:
        """The name of the database, which events contain."""

    def tables(self) -> Sequence[Table]:
        """Check that the database can be followed, and return the tables to capture."""

    def capture(self, tables: Sequence[Table]) -> None:
        """Make the database record the changes of tables, where it does not yet."""

    def begin(self) -> Snapshot:
        """Make the database keep its changes from now on; return a view of exactly this moment.

        Replaces what an interrupted ``begin`` has created in the database.
        """

    def source_at(self, table: Table, position: Position) -> Mapping[str, object]:
        """Return ``Change.source`` of what is published of a table at a position."""

    def read(self, table: str, after: Key | None, limit: int) -> Chunk | None:
        """Return the rows of a table (``schema.name``) after a key, in the order of the key.

        Returns None if the caller must try again later, as a followed change is not visible yet.
        Raises SourceRefused if there is no such table.
        """

    def follow(self, position: Position) -> Iterator[Item | None]:
        """Yield all changes after a position, for ever; None whenever there is none for now.

        Raises SourceRefused if the database no longer has them.
        """

    def confirm(self, position: Position) -> None:
        """Tell the database that the connector no longer needs the changes before a position."""

    def watch(self) -> Watch:
        """Return how much log the database keeps; also called while the connector is paused."""

    def release(self) -> None:
        """Remove what ``begin`` created in the database, which then keeps no changes any more."""

    def close(self) -> None:
        """Close all connections."""


Open = Callable[[ConnectorSettings, Callable[[], str | None]], Source]
"""Makes the source of a connector, without connecting; given how to get the password."""


class Kind(NamedTuple):
    """A kind of database that connectors can follow."""

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

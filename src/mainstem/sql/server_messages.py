"""Messages between a server and the process that answers a query, as lines of JSON."""

import msgspec


class QueryRequest(msgspec.Struct, frozen=True):
    """From the server: a query, the address to read topics from, and the limits."""

    address: str
    query: str
    as_of: str
    sample_all: bool
    rows: int
    seconds: float
    memory_bytes: int
    result_bytes: int
    stored_at: str = ""
    """Where tables that are no topics have their state."""
    schemas: dict[str, object] = {}
    """The Avro schemas of topics."""


class Topics(msgspec.Struct, frozen=True, tag=True):
    """To the server: the topics and other tables that the query will read."""

    topics: list[str]
    tables: list[str] = []


class Column(msgspec.Struct, frozen=True):
    """A column of a result: its name, and its Arrow type as text."""

    name: str
    type: str


class Answer(msgspec.Struct, frozen=True, tag=True):
    """To the server: the result of the query."""

    columns: list[Column]
    rows: list[msgspec.Raw]
    """A JSON array for each row."""
    snapshot: str
    """The events that were read; empty if the query reads no topic."""
    notices: list[str]


class Refusal(msgspec.Struct, frozen=True, tag=True):
    """To the server: the query was refused or has failed."""

    failure: str
    """The value of a ``core.errors.Failure``."""
    detail: str


Said = Topics | Answer | Refusal

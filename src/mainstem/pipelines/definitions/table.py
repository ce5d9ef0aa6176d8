"""The tables that a pipeline file defines: each is a query from sources to rows for a sink.

``p.table`` and ``p.sql`` make ``Table`` values; ``load.py`` finds and checks those of a file.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypedDict, Unpack

import msgspec

from mainstem.pipelines.definitions.discovery import (
    call_site,
    record_definition,
)
from mainstem.pipelines.definitions.expectations import Expectation, expectations_of
from mainstem.pipelines.errors import InvalidDefinition
from mainstem.pipelines.sinks.port import Sink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Format = Literal["json", "avro", "text", "raw", "changes"]
Decimals = Literal["precise", "string", "double"]
"""How Debezium writes decimals (its ``decimal.handling.mode``)."""
Epoch = Literal["seconds", "milliseconds", "microseconds"]
Schema = str | Mapping[str, object]
"""A schema: DDL, ``"infer"``, the path of a JSON Schema or Avro schema file, or a document."""
Query = Callable[..., "DataFrame"]

INFER = "infer"
FORMATS = ("json", "avro", "text", "raw", "changes")
EPOCHS = ("seconds", "milliseconds", "microseconds")


class Source(msgspec.Struct, frozen=True):
    """Where rows come from: a topic, or a table defined earlier in the same file."""

    name: str
    schema: Schema | None = None
    format: Format = "json"
    watermark: tuple[str, str] | None = None
    """The event-time column, and how late events may be, such as "10 minutes"."""
    registry: str | None = None
    """Address of the schema registry that resolves the schema ids in Avro values."""
    with_event: bool = False
    """Whether rows have a column ``_event``: key, topic, partition, offset, timestamp, headers."""
    epoch: Epoch = "seconds"
    """The unit of numbers in JSON timestamp columns, counted since 1970."""
    decimals: Decimals = "precise"
    """How change events hold decimals, unless an event has its schema."""
    expectations: tuple[Expectation, ...] = ()
    """What its rows must fulfil; only of a topic."""


Sources = str | Source | Sequence[str | Source]


class SourceOptions(TypedDict, total=False):
    """How the events of a topic are read: the fields of ``Source`` of these names."""

    schema: Schema | None
    format: Format
    watermark: tuple[str, str] | None
    registry: str | None
    with_event: bool
    epoch: Epoch


class TableOptions(SourceOptions, total=False):
    """A table's source and sink; the options of the source, if it is one topic."""

    source: Sources | None
    sink: Sink | None
    output: Literal["append", "update"] | None
    bad: Literal["dead", "stop"]


class Table(msgspec.Struct, frozen=True):
    """One table of a pipeline: its sources, its query and its sink."""

    name: str
    sources: tuple[Source, ...]
    query: Query | str
    """A function of one DataFrame per source, or SQL over views with the names of the sources."""
    sink: Sink
    output: Literal["append", "update"]
    bad: Literal["dead", "stop"] = "dead"
    """What to do with events that cannot be decoded or processed: dead-letter them, or stop."""
    scd: Literal[0, 1, 2] = 0
    """1 or 2 if ``apply_changes`` made it: the rows of a database table, or their history."""
    line: int = 0
    file: str = ""
    """The file that defines the table: the pipeline file, or a module that it imports."""

    @property
    def keeps_rows(self) -> bool:
        """Whether rows never change once written, so that others can read them as a stream."""
        return self.output == "append" and not self.sink.key


class Pipeline(msgspec.Struct, frozen=True):
    """A loaded pipeline file."""

    name: str
    file: Path
    tables: tuple[Table, ...]

    def above(self, table: Table, name: str) -> Table | None:
        """Return the table called ``name`` that precedes ``table``; None if it is a topic."""
        for each in self.tables:
            if each.name == table.name:
                break
            if each.name == name:
                return each
        return None

    def dead_topic(self, into: str | None = None) -> str:
        """Return the dead-letter topic; a replay into copies named ``into`` has its own."""
        return ".".join(filter(None, (self.name, into, "dead")))


def events(
    topic: str, *, expect: Sequence[Expectation] = (), **options: Unpack[SourceOptions]
) -> Source:
    """Define a topic as one of several sources of a table.

    Options: schema, format, watermark, registry, with_event, epoch.
    """
    return Source(topic, expectations=tuple(expect), **options)


def changes(
    topic: str,
    *,
    schema: Schema,
    watermark: tuple[str, str] | None = None,
    with_event: bool = False,
    epoch: Epoch = "microseconds",
    decimals: Decimals = "precise",
    expect: Sequence[Expectation] = (),
) -> Source:
    """Define a source that reads the changes of a database table, in Debezium's envelope.

    ``schema`` has the columns of the database table. The DataFrame has the columns ``op``,
    ``before``, ``after``, ``committed_at``, ``position`` (sorts in the order of the changes),
    ``transaction``, and ``unavailable`` (names of columns whose values the database did not log).
    """
    return Source(
        topic,
        schema,
        "changes",
        watermark,
        with_event=with_event,
        epoch=epoch,
        decimals=decimals,
        expectations=tuple(expect),
    )


def table(
    bare: Query | None = None, /, *, name: str | None = None, **options: Unpack[TableOptions]
) -> Callable[[Query], Table]:
    """Define a table by a function that gets a DataFrame for each source and returns one.

    Options: source and sink; output ("append" or "update"); bad ("dead" or "stop"); and of a
    source that is a topic: schema, format, watermark, registry, with_event, epoch.
    """
    if bare is not None:
        raise InvalidDefinition("write @p.table(source=..., sink=...): it needs both")
    site = call_site()

    def made(query: Query) -> Table:
        if not callable(query):
            raise InvalidDefinition(
                f"@p.table makes a table of a function, not of {type(query).__name__}"
            )
        called = name or str(getattr(query, "__name__", type(query).__name__))
        return _defined(called, query, site, **options)

    return made


def sql(query: str, *, name: str = "", **options: Unpack[TableOptions]) -> Table:
    """Define a table by an SQL query; its default name is that of the variable assigned to.

    The options are those of ``table``.
    """
    return _defined(name, query, call_site(), **options)


def _defined(
    name: str,
    query: Query | str,
    site: tuple[str, int],
    *,
    source: Sources | None = None,
    sink: Sink | None = None,
    output: Literal["append", "update"] | None = None,
    bad: Literal["dead", "stop"] = "dead",
    **options: Unpack[SourceOptions],
) -> Table:
    """Make a table, and record that it was defined."""
    called = name or "sql"
    kept = _checked_sink(called, sink)
    sources = _sources(called, source, Source("", **options))
    if not isinstance(query, str):
        sources = _expecting(called, sources, expectations_of(query))
    file, line = site
    result = Table(
        name=name,
        sources=sources,
        query=query,
        sink=kept,
        output=output or _usual_output(kept),
        bad=bad,
        line=line,
        file=file,
    )
    record_definition(result)
    return result


def _checked_sink(table_name: str, given: Sink | None) -> Sink:
    if given is None:
        raise InvalidDefinition(
            f"table {table_name!r} has no sink; say where its rows go, such as "
            "sink=p.delta('tables/NAME')"
        )
    if not callable(getattr(given, "write", None)) or isinstance(given, type):
        raise InvalidDefinition(
            f"table {table_name!r}: {given!r:.100} is not a sink; write p.delta(path), "
            "p.parquet(path), p.sqlite(path, table), p.postgres(dsn, table), p.topic(name)"
        )
    return given


def _sources(table_name: str, given: Sources | None, plain: Source) -> tuple[Source, ...]:
    if given is None:
        raise InvalidDefinition(
            f"table {table_name!r} has no source; name a topic or an earlier table: source='orders'"
        )
    if isinstance(given, str):
        return (msgspec.structs.replace(plain, name=given),)
    if plain != Source(""):
        raise InvalidDefinition(
            f"table {table_name!r}: schema, format, watermark, registry, with_event and epoch "
            "belong to each source here: write source=p.events(topic, schema=...)"
        )
    several = (given,) if isinstance(given, Source) else tuple(given)
    return tuple(Source(each) if isinstance(each, str) else each for each in several)


def _expecting(
    table_name: str, sources: tuple[Source, ...], expected: tuple[Expectation, ...]
) -> tuple[Source, ...]:
    """Return the sources with the expectations that decorate a function; it may have one source."""
    if not expected:
        return sources
    if len(sources) != 1:
        raise InvalidDefinition(
            f"table {table_name!r} has {len(sources)} sources: say of which one you expect "
            "something: p.events(topic, ..., expect=[p.expect(...)])"
        )
    both = (*sources[0].expectations, *expected)
    return (msgspec.structs.replace(sources[0], expectations=both),)


def _usual_output(sink: Sink) -> Literal["append", "update"]:
    return "update" if sink.key else "append"

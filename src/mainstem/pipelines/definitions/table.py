"""A pipeline as its file describes it: tables, each a function from sources to rows for a sink.

A file is Python. ``p.table`` and ``p.sql`` make ``Table`` values. Loading a file notes each of them
as it is made (``discovery.py``), and finds those that the file imports in its namespace.
Everything that can be known without Spark is checked here, the rest when the plan is built, before
any batch.
"""

import importlib.util
import inspect
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

import msgspec

from mainstem.core.errors import InvalidName
from mainstem.core.names import check_topic
from mainstem.pipelines.definitions.conflicts import check_circles, check_dead_letters, check_sinks
from mainstem.pipelines.definitions.discovery import (
    call_site,
    record_definition,
    recording_definitions,
)
from mainstem.pipelines.errors import InvalidDefinition
from mainstem.pipelines.sinks.port import Sink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Format = Literal["json", "avro", "text", "raw"]
Epoch = Literal["seconds", "milliseconds", "microseconds"]
Schema = str | Mapping[str, object]
"""DDL, ``"infer"``, the path of a JSON or Avro schema file, or such a schema itself."""
Query = Callable[..., "DataFrame"]

INFER = "infer"
FORMATS = ("json", "avro", "text", "raw")
EPOCHS = ("seconds", "milliseconds", "microseconds")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,99}")


class Source(msgspec.Struct, frozen=True):
    """Where rows come from: a topic, or a table that stands above in the same file."""

    name: str
    schema: Schema | None = None
    format: Format = "json"
    watermark: tuple[str, str] | None = None
    """The column with the event's own time, and how long events may come late."""
    registry: str | None = None
    """Address of the schema registry that knows the ids in front of Avro values."""
    with_event: bool = False
    """Whether rows carry ``_event``: key, topic, partition, offset, timestamp, headers."""
    epoch: Epoch = "seconds"
    """What numbers in timestamp columns of JSON count, since 1970."""


Sources = str | Source | Sequence[str | Source]


class Table(msgspec.Struct, frozen=True):
    """One table of a pipeline: what it is made from, how, and where it is kept."""

    name: str
    sources: tuple[Source, ...]
    query: Query | str
    """A function from one DataFrame per source, or SQL over views named like the sources."""
    sink: Sink
    output: Literal["append", "update"]
    bad: Literal["dead", "stop"] = "dead"
    """Whether events that cannot be decoded, or on which the query fails, are buried or stop it."""
    line: int = 0
    file: str = ""
    """Where it is defined: in the pipeline's file, or in a module that this one imports."""

    @property
    def keeps_rows(self) -> bool:
        """Whether rows, once written, never change, so that others can follow them."""
        return self.output == "append" and not self.sink.key


class Pipeline(msgspec.Struct, frozen=True):
    """A loaded pipeline file."""

    name: str
    file: Path
    tables: tuple[Table, ...]

    def above(self, table: Table, name: str) -> Table | None:
        """Return the table that a source names, which stands above; None if it is a topic."""
        for each in self.tables:
            if each.name == table.name:
                break
            if each.name == name:
                return each
        return None

    def dead_topic(self, into: str | None = None) -> str:
        """Return where bad events go; a replay has dead letters of its own."""
        return ".".join(filter(None, (self.name, into, "dead")))


def events(
    topic: str,
    *,
    schema: Schema | None = None,
    format: Format = "json",  # noqa: A002 - the word users know from Spark
    watermark: tuple[str, str] | None = None,
    registry: str | None = None,
    with_event: bool = False,
    epoch: Epoch = "seconds",
) -> Source:
    """Describe one source of a table that has several."""
    return Source(topic, schema, format, watermark, registry, with_event, epoch)


def table(
    bare: Query | None = None,
    /,
    *,
    source: Sources | None = None,
    sink: Sink | None = None,
    schema: Schema | None = None,
    format: Format = "json",  # noqa: A002 - the word users know from Spark
    watermark: tuple[str, str] | None = None,
    registry: str | None = None,
    with_event: bool = False,
    epoch: Epoch = "seconds",
    output: Literal["append", "update"] | None = None,
    bad: Literal["dead", "stop"] = "dead",
    name: str | None = None,
) -> Callable[[Query], Table]:
    """Make a table of a function from DataFrames, one for each source, to a DataFrame."""
    if bare is not None:
        raise InvalidDefinition("write @p.table(source=..., sink=...): it needs both")
    plain = Source("", schema, format, watermark, registry, with_event, epoch)
    place, line = call_site()

    def made(query: Query) -> Table:
        if not callable(query):
            raise InvalidDefinition(
                f"@p.table makes a table of a function, not of {type(query).__name__}"
            )
        called = name or str(getattr(query, "__name__", type(query).__name__))
        kept = _checked_sink(called, sink)
        result = Table(
            name=called,
            sources=_sources(called, source, plain),
            query=query,
            sink=kept,
            output=output or _usual_output(kept),
            bad=bad,
            line=line,
            file=place,
        )
        record_definition(result)
        return result

    return made


def sql(
    query: str,
    *,
    source: Sources | None = None,
    sink: Sink | None = None,
    schema: Schema | None = None,
    format: Format = "json",  # noqa: A002 - the word users know from Spark
    watermark: tuple[str, str] | None = None,
    registry: str | None = None,
    with_event: bool = False,
    epoch: Epoch = "seconds",
    output: Literal["append", "update"] | None = None,
    bad: Literal["dead", "stop"] = "dead",
    name: str = "",
) -> Table:
    """Make a table of a SQL query; its name is the variable's unless ``name`` says another."""
    plain = Source("", schema, format, watermark, registry, with_event, epoch)
    place, line = call_site()
    kept = _checked_sink(name or "sql", sink)
    result = Table(
        name=name,
        sources=_sources(name or "sql", source, plain),
        query=query,
        sink=kept,
        output=output or _usual_output(kept),
        bad=bad,
        line=line,
        file=place,
    )
    record_definition(result)
    return result


class _Module(Protocol):
    __dict__: dict[str, object]


def load(file: Path, name: str | None = None) -> Pipeline:
    """Read a pipeline file; raises InvalidDefinition with the place of what is wrong."""
    if not file.is_file():
        raise InvalidDefinition(f"there is no pipeline file {file}; check the path")
    called = name or file.stem
    _check_name("pipeline", called, file)
    with recording_definitions(Table) as definitions:
        module = _executed(file)
    own = definitions.of(str(file.resolve()))
    tables: list[Table] = []
    for each in _named(own, vars(module), file):
        _check_table(each, tables, file)
        tables.append(each)
    if not tables:
        raise InvalidDefinition(
            f"{file} defines no table; decorate a function with @p.table(...), or use p.sql(...)"
        )
    found = Pipeline(called, file.resolve(), tuple(tables))

    def where(each: Table) -> str:
        return _where(each, file)

    check_sinks(tables, where)
    check_circles(tables, where)
    check_dead_letters(tables, found.dead_topic(), where)
    return found


def _named(own: Sequence[Table], namespace: Mapping[str, object], file: Path) -> list[Table]:
    """Return the tables that a file defines or imports, in order, all with names."""
    waiting = list(own)
    variables: dict[int, str] = {}
    ordered: list[Table] = []
    for variable, value in namespace.items():
        if not isinstance(value, Table) or id(value) in variables:
            continue
        variables[id(value)] = variable
        number = next((n for n, each in enumerate(waiting) if each is value), None)
        if number is not None:
            ordered += waiting[: number + 1]
            del waiting[: number + 1]
        elif not any(each is value for each in own):
            ordered.append(value)
    ordered += waiting
    for each in ordered:
        if not each.name and id(each) not in variables:
            raise InvalidDefinition(
                f"{_position(each, file)}: this table has no name, as no variable holds it; assign "
                "it to a variable of its own, or give it a name: p.sql(..., name=...)"
            )
    return [
        each if each.name else msgspec.structs.replace(each, name=variables[id(each)])
        for each in ordered
    ]


def _executed(file: Path) -> _Module:
    # Spark pickles functions of modules that it cannot import by value: this one is no package.
    spec = importlib.util.spec_from_file_location("__mainstem_pipeline__", file.resolve())
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # At the end: what lies beside the file shall not stand before what others import.
    sys.path.append(str(file.parent.resolve()))
    try:
        spec.loader.exec_module(module)
    except InvalidDefinition as error:
        raise InvalidDefinition(f"{_place(file, error)}: {error}") from error
    except (Exception, SystemExit) as error:
        # Whatever a user's file does wrong is an error of that file, told with its place.
        reason = str(error) or "Spark is not there yet: make columns inside of functions"
        told = f"{_place(file, error)}: {type(error).__name__}: {reason}"
        raise InvalidDefinition(told) from error
    finally:
        sys.path.remove(str(file.parent.resolve()))
    return module


def _place(file: Path, error: BaseException) -> str:
    if isinstance(error, SyntaxError):
        return f"{error.filename}:{error.lineno}"
    lines = [
        frame.lineno
        for frame in inspect.getinnerframes(error.__traceback__)  # type: ignore[arg-type]
        if Path(frame.filename) == file.resolve()
    ]
    return f"{file}:{lines[-1]}" if lines else str(file)


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
            f"table {table_name!r} has no source; name a topic or a table above it: source='orders'"
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


def _usual_output(sink: Sink) -> Literal["append", "update"]:
    return "update" if sink.key else "append"


def _check_name(kind: str, name: str, file: Path) -> None:
    if not _NAME.fullmatch(name):
        raise InvalidDefinition(
            f"{file}: {name!r} cannot name a {kind}: use letters, digits, _ and -, at most 100, "
            "beginning with a letter"
        )


def _position(each: Table, file: Path) -> str:
    """Return file and line of a table, as the person named the file."""
    named = file if not each.file or each.file == str(file.resolve()) else each.file
    return f"{named}:{each.line}" if each.line else str(named)


def _where(each: Table, file: Path) -> str:
    return f"{_position(each, file)}: table {each.name!r}"


def _check_table(each: Table, before: Sequence[Table], file: Path) -> None:
    where = _where(each, file)
    _check_name("table", each.name, file)
    twin = next((other for other in before if other.name == each.name), None)
    if twin is not None:
        raise InvalidDefinition(
            f"{where} is there twice, before at {_position(twin, file)}; give one of them another "
            "name (name=...)"
        )
    if not each.sources:
        raise InvalidDefinition(f"{where} has no source; name a topic or a table above it")
    if len({source.name for source in each.sources}) < len(each.sources) and isinstance(
        each.query, str
    ):
        raise InvalidDefinition(f"{where} names a source twice, so SQL could not tell them apart")
    _check_arguments(each, where)
    if each.output == "update" and not each.sink.key:
        raise InvalidDefinition(
            f"{where}: rows that are updated need a sink with a key, such as "
            "p.delta(path, key='minute'); or use output='append'"
        )
    for source in each.sources:
        _check_source(source, next((t for t in before if t.name == source.name), None), where)


def _check_arguments(each: Table, where: str) -> None:
    if isinstance(each.query, str):
        return
    try:
        inspect.signature(each.query).bind(*each.sources)
    except TypeError as error:
        raise InvalidDefinition(
            f"{where} has {len(each.sources)} sources, and its function does not take as many "
            f"DataFrames: {error}"
        ) from None


def _check_source(source: Source, table_above: Table | None, where: str) -> None:
    if source.format not in FORMATS:
        raise InvalidDefinition(
            f"{where}: format {source.format!r} is not known; there are {', '.join(FORMATS)}"
        )
    if source.epoch not in EPOCHS:
        raise InvalidDefinition(
            f"{where}: epoch {source.epoch!r} is not known; there are {', '.join(EPOCHS)}"
        )
    if table_above is not None:
        if source.schema is not None or source.format != "json" or source.registry:
            raise InvalidDefinition(
                f"{where}: {source.name!r} is a table of this file and has its own schema; "
                "leave schema, format and registry out"
            )
        return
    try:
        check_topic(source.name)
    except InvalidName as error:
        raise InvalidDefinition(f"{where}: {error}") from None
    if source.format in ("json", "avro") and source.schema is None and not source.registry:
        raise InvalidDefinition(
            f"{where}: {source.name!r} is no table above this one, so it is a topic, and "
            f"{source.format} needs a schema: DDL such as 'id string, at timestamp', a JSON "
            "Schema, or 'infer'"
        )
    if source.format in ("text", "raw") and source.schema is not None:
        raise InvalidDefinition(f"{where}: format {source.format!r} has a fixed schema")

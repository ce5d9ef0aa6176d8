"""Loads a pipeline file: finds its tables in order, names them, and checks each of them.

Every definition is recorded as it is made while the file runs (``discovery.py``); tables that the
file imports are found in its namespace. All that can be checked without Spark is checked here; the
rest is checked when Spark's plan is built, before any batch.
"""

import importlib.machinery
import importlib.util
import inspect
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgspec

from mainstem.core.errors import InvalidName
from mainstem.core.names import check_topic
from mainstem.pipelines.definitions.conflicts import check_cycles, check_dead_letters, check_sinks
from mainstem.pipelines.definitions.discovery import recording_definitions
from mainstem.pipelines.definitions.table import EPOCHS, FORMATS, Pipeline, Source, Table
from mainstem.pipelines.errors import InvalidDefinition

if TYPE_CHECKING:
    from types import CodeType

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,99}")


class _FromSource(importlib.machinery.SourceFileLoader):
    """Imports a pipeline file by compiling it at every load.

    Python's bytecode cache would not notice a change of the same length within the same second.
    """

    def get_code(self, fullname: str) -> "CodeType":
        return self.source_to_code(self.get_data(self.path), self.path)


class _Module(Protocol):
    __dict__: dict[str, object]


def load(file: Path, name: str | None = None) -> Pipeline:
    """Load a pipeline file; raises InvalidDefinition, which says file and line."""
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
    check_cycles(tables, where)
    check_dead_letters(tables, found.dead_topic(), where)
    return found


def _named(own: Sequence[Table], namespace: Mapping[str, object], file: Path) -> list[Table]:
    """Return the tables that a file defines or imports, in order, each with its name set."""
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
                f"{_position(each, file)}: this table has no name; assign it to a variable, or "
                "give it one: p.sql(..., name=...)"
            )
    return [
        each if each.name else msgspec.structs.replace(each, name=variables[id(each)])
        for each in ordered
    ]


def _executed(file: Path) -> _Module:
    # Not a name that can be imported, so that cloudpickle sends its functions by value.
    path, name = str(file.resolve()), "__mainstem_pipeline__"
    loader = _FromSource(name, path)
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    # Appended: modules beside the file must not shadow installed ones.
    sys.path.append(str(file.parent.resolve()))
    try:
        loader.exec_module(module)
    except InvalidDefinition as error:
        raise InvalidDefinition(f"{_place(file, error)}: {error}") from error
    except (Exception, SystemExit) as error:
        # The user's code may raise anything; report it with file and line.
        reason = str(error) or "Spark is not started yet: create columns inside of functions"
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


def _check_name(kind: str, name: str, file: Path) -> None:
    if not _NAME.fullmatch(name):
        raise InvalidDefinition(
            f"{file}: {name!r} cannot name a {kind}: use letters, digits, _ and -, at most 100, "
            "beginning with a letter"
        )


def _position(each: Table, file: Path) -> str:
    """Return a table's file and line, with the path as the user gave it."""
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
            f"{where} is defined twice, first at {_position(twin, file)}; rename one of them "
            "(name=...)"
        )
    if not each.sources:
        raise InvalidDefinition(f"{where} has no source; name a topic or an earlier table")
    if len({source.name for source in each.sources}) < len(each.sources) and isinstance(
        each.query, str
    ):
        raise InvalidDefinition(f"{where} names a source twice, which is ambiguous in SQL")
    _check_arguments(each, where)
    wanted = [one.name for source in each.sources for one in source.expectations]
    if len(set(wanted)) < len(wanted):
        raise InvalidDefinition(f"{where} has two expectations of one name; rename one (name=...)")
    if each.bad == "stop" and any(
        one.on_fail == "dead" for source in each.sources for one in source.expectations
    ):
        raise InvalidDefinition(
            f"{where} has bad='stop', so no event becomes a dead letter; say on_fail='stop' or "
            "'drop' in p.expect"
        )
    if each.output == "update" and not each.sink.key:
        raise InvalidDefinition(
            f"{where}: output='update' needs a sink with a key, such as "
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
            f"{where} has {len(each.sources)} sources, but its function does not take as many "
            f"DataFrames: {error}"
        ) from None


def _check_source(source: Source, table_above: Table | None, where: str) -> None:
    if source.format not in FORMATS:
        raise InvalidDefinition(
            f"{where}: format {source.format!r} is unknown; use one of {', '.join(FORMATS)}"
        )
    if source.epoch not in EPOCHS:
        raise InvalidDefinition(
            f"{where}: epoch {source.epoch!r} is unknown; use one of {', '.join(EPOCHS)}"
        )
    if table_above is not None:
        if source.expectations:
            raise InvalidDefinition(
                f"{where}: {source.name!r} is a table of this file; expect what it must fulfil of "
                "the events that it reads"
            )
        if source.schema is not None or source.format != "json" or source.registry:
            raise InvalidDefinition(
                f"{where}: {source.name!r} is a table of this file and has a schema already; "
                "remove schema, format and registry"
            )
        return
    try:
        check_topic(source.name)
    except InvalidName as error:
        raise InvalidDefinition(f"{where}: {error}") from None
    if (
        source.format in ("json", "avro", "changes")
        and source.schema is None
        and not source.registry
    ):
        raise InvalidDefinition(
            f"{where}: {source.name!r} is not an earlier table, so it is a topic, and "
            f"{source.format} needs a schema: DDL such as 'id string, at timestamp', a JSON "
            "Schema, or 'infer'"
        )
    if source.format in ("text", "raw") and source.schema is not None:
        raise InvalidDefinition(f"{where}: format {source.format!r} has a fixed schema")

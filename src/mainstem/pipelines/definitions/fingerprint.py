"""The part of a definition that its checkpoint depends on, to detect changes that need a replay.

A checkpoint holds the offsets of the sources, by their order, and the state of stateful operators:
aggregations, stream-stream joins, deduplication, transformWithState. Filters, projections and
functions without state may change at any time, so they are not part of the fingerprint.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
from pyspark.sql import DataFrame, is_remote

from mainstem.pipelines.definitions.table import Table
from mainstem.pipelines.state.table_state import StateDirectory

_FILE = "definition.json"
_STATEFUL = ("Aggregate", "Deduplicate", "DeduplicateWithinWatermark", "Distinct", "Join")
_OWN_STATE = re.compile("TransformWithState|GroupsWithState|GroupsInPandasWithState")
_NUMBERS = re.compile(r"#\d+L?|-T\d+ms|, numPartitions=\d+")
"""Matches Spark's column ids and other numbers in plans that may change."""


_COLUMN = re.compile(r"\w+#\d+")
_ALIAS = re.compile(r"(?P<expression>.*) AS (?P<name>\w+#\d+)L?(-T\d+ms)?", re.DOTALL)
_VARIABLE = re.compile(r"\b([xyz])_\d+\b")
"""Matches the names that PySpark gives to the arguments of lambdas."""
_SOURCE = re.compile(r"CollectMetrics source\d")
_MARK = "~"
"""Spark's prefix of streaming operators in a printed plan."""


class Fingerprint(msgspec.Struct, frozen=True):
    """The parts of a table on which its checkpoint depends: sources, output mode, operators."""

    sources: tuple[str, ...]
    output: str
    stateful: tuple[str, ...]
    """The stateful operators of the plan with their keys, as Spark prints them."""


def fingerprint(table: Table, frame: DataFrame) -> Fingerprint | None:
    """Return a table's fingerprint; None over Spark Connect, which does not expose plans."""
    if is_remote():
        return None
    return Fingerprint(
        tuple(source.name for source in table.sources), table.output, tuple(_steps(frame))
    )


def _steps(frame: DataFrame) -> Iterator[str]:
    found, defined = list[str](), dict[str, str]()
    waiting = [frame._jdf.queryExecution().analyzed()]
    while waiting:
        node = waiting.pop(0)
        name, text = node.nodeName(), str(node.simpleString(10_000)).removeprefix(_MARK)
        if name == "CollectMetrics" and _SOURCE.match(text):
            # What is below it reads and decodes the events of a source, without state.
            continue
        children = node.children()
        inputs = [children.apply(number) for number in range(children.size())]
        waiting += inputs
        if name == "Project":
            columns = node.projectList()
            for number in range(columns.size()):
                column = _ALIAS.fullmatch(columns.apply(number).toString())
                if column is not None:
                    defined[column["name"]] = column["expression"]
        elif _is_stateful(name) and all(each.isStreaming() for each in inputs):
            found.append(text)
    for each in found:
        yield _VARIABLE.sub(r"\1", _NUMBERS.sub("", "; ".join(_with_columns(each, defined))))


def _is_stateful(name: str) -> bool:
    return name in _STATEFUL or _OWN_STATE.search(name) is not None


def _with_columns(step: str, defined: Mapping[str, str]) -> Iterator[str]:
    """Yield the text of an operator, then how each column that it uses is computed."""
    yield step
    seen, waiting = set[str](), _COLUMN.findall(step)
    while waiting:
        column = waiting.pop(0)
        if column in defined and column not in seen:
            seen.add(column)
            yield f"{column} = {defined[column]}"
            waiting += _COLUMN.findall(defined[column])


def saved_fingerprint(directory: Path) -> Fingerprint | None:
    """Return the fingerprint saved with a checkpoint; None if there is none."""
    file = directory / _FILE
    return msgspec.json.decode(file.read_bytes(), type=Fingerprint) if file.exists() else None


def save_fingerprint(state_dir: StateDirectory, wanted: Fingerprint) -> None:
    """Save the fingerprint, unless a checkpoint exists that has one already."""
    file = state_dir.directory / _FILE
    if not file.exists() or not state_dir.checkpoint.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        draft = file.with_name(f".{_FILE}")
        draft.write_bytes(msgspec.json.encode(wanted))
        draft.rename(file)


def incompatible_change(state_dir: StateDirectory, wanted: Fingerprint) -> str | None:
    """Return which change of the definition makes its checkpoint unusable; None if none does."""
    old = saved_fingerprint(state_dir.directory)
    if old is None or old == wanted or not state_dir.checkpoint.exists():
        return None
    if old.sources != wanted.sources:
        what = f"it read {', '.join(old.sources)} and now reads {', '.join(wanted.sources)}"
    elif old.stateful != wanted.stateful:
        gone = [each for each in old.stateful if each not in wanted.stateful]
        new = [each for each in wanted.stateful if each not in old.stateful]
        what = f"its state was made by {_listed(gone)}, and now needs {_listed(new)}"
    elif old.stateful:
        what = f"its output was {old.output}, and now is {wanted.output}"
    else:
        return None
    return (
        f"the definition has changed since its checkpoint was made: {what}; replay it "
        "(--replay --into NAME), compare and swap"
    )


def _listed(steps: list[str]) -> str:
    return " and ".join(f"{each[:200]!r}" for each in steps) or "no such step"

"""Compares tables with their replayed copies, and replaces the tables by the copies."""

import shutil
from collections import Counter
from pathlib import Path

import msgspec

from mainstem.pipelines.definitions.table import Pipeline
from mainstem.pipelines.errors import RunRefused, UnknownPipeline
from mainstem.pipelines.sinks.statements import text_of
from mainstem.pipelines.sinks.topic import TopicSink
from mainstem.pipelines.state.one_off_range import range_of
from mainstem.pipelines.state.table_state import StateDirectory, pipeline_directory, run_lock

_SHOWN = 5


class Difference(msgspec.Struct, frozen=True):
    """How many rows a table and its copy have in common, and how many only one of them has."""

    table: str
    rows: int
    """Number of rows of the table."""
    same: int
    only_here: int
    only_there: int
    examples: list[str]
    """Some rows that are only in the table ("-") or only in the copy ("+")."""

    @property
    def equal(self) -> bool:
        """Whether table and copy have the same rows, duplicates counted."""
        return not self.only_here and not self.only_there


def compare(pipeline: Pipeline, into: str) -> list[Difference]:
    """Return how each table differs from its copy; tables that cannot be read back are left out."""
    found = []
    for table in pipeline.tables:
        here, there = table.sink.read(), table.sink.beside(into).read()
        if here is None and there is None:
            continue
        old = Counter(map(text_of, here.to_pylist() if here else ()))
        new = Counter(map(text_of, there.to_pylist() if there else ()))
        gone, added = old - new, new - old
        examples = [f"- {row}" for row in list(gone)[:_SHOWN]]
        examples += [f"+ {row}" for row in list(added)[:_SHOWN]]
        found.append(
            Difference(
                table.name,
                rows=old.total(),
                same=(old & new).total(),
                only_here=gone.total(),
                only_there=added.total(),
                examples=examples,
            )
        )
    if not found:
        raise UnknownPipeline(
            f"neither the tables of {pipeline.name!r} nor copies {into!r} of them can be read; run "
            f"the pipeline, then run it with --replay --into {into}"
        )
    return found


def swap(pipeline: Pipeline, into: str, state: Path) -> None:
    """Replace the tables by their copies, and their state directory by that of the replay.

    The old tables are kept beside them. Every step can be repeated and the state is moved last, so
    after a crash the whole swap is just repeated.
    """
    old, new = (
        pipeline_directory(state, pipeline.name),
        pipeline_directory(state, pipeline.name, into),
    )
    kept = state / f"{pipeline.name}@before-{into}"
    with run_lock(old):
        _check(pipeline, into, old, new, kept)
        with run_lock(new):
            for table in pipeline.tables:
                table.sink.swap(into)
            if _has_run(old):
                old.rename(kept)
            else:
                # The old directory has only the lock file: nothing ever ran, or a crash came
                # between the two renames.
                shutil.rmtree(old)
            new.rename(old)


def _check(pipeline: Pipeline, into: str, old: Path, new: Path, kept: Path) -> None:
    if not new.is_dir():
        raise UnknownPipeline(
            f"there is no replay of {pipeline.name!r} into {into!r}; make one with --replay "
            f"--into {into}"
        )
    if (only := range_of(new)) is not None:
        raise RunRefused(
            f"the copies {into!r} hold only what was published {only}; only a "
            f"replay can replace a table: --replay --into NAME"
        )
    if kept.exists() and _has_run(old):
        raise RunRefused(
            f"{kept} exists from an earlier swap; remove it, or replay under another name"
        )
    for table in pipeline.tables:
        if isinstance(table.sink, TopicSink):
            table.sink.swap(into)
        status = StateDirectory(new / table.name).status()
        if status is None or status.state not in ("stopped", "complete"):
            state = "never ran" if status is None else status.state
            raise RunRefused(
                f"table {table.name!r} of the run into {into!r} {state}; let it run to its end"
            )


def _has_run(directory: Path) -> bool:
    return any(directory.glob("*/identity"))

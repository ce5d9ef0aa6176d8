"""Pipeline files that a test writes into its directory, and what their sinks hold."""

from pathlib import Path
from textwrap import dedent
from typing import Any

from mainstem import pipelines as p


def written_pipeline(text: str) -> p.Pipeline:
    """Write a pipeline file and load it, as it is loaded for a run."""
    Path("shop.py").write_text(dedent(text))
    return p.load(Path("shop.py"))


def column_of_first(pipeline: p.Pipeline, name: str) -> list[Any]:
    """Return a column of the first table."""
    rows = pipeline.tables[0].sink.read()
    assert rows is not None
    return [row[name] for row in rows.to_pylist()]

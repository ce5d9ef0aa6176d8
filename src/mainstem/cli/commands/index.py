"""``mainstem index``: list and search the search indexes that pipelines write."""

from collections.abc import Iterator
from pathlib import Path

import click

from mainstem.cli.arguments.options import limit_option
from mainstem.cli.help import Group
from mainstem.cli.output.tables import Format, chosen, format_option, print_json, print_rows
from mainstem.cli.pipelines.pipeline_options import state_option
from mainstem.pipelines.errors import RunRefused
from mainstem.pipelines.sinks.search import columns_of_index, place_of, search_index
from mainstem.pipelines.state.table_state import table_statuses


@click.group(
    cls=Group,
    epilog="""
    mainstem index ls
    mainstem index search articles "event log"
    mainstem index search tables/articles "title:log OR body:queue"
    """,
)
def index() -> None:
    """Search the indexes that pipelines write (p.search)."""


@index.command(
    "ls",
    epilog="""
    mainstem index ls
    mainstem index ls --format json
    """,
)
@state_option
@format_option
def list_indexes(state: Path, form: Format | None) -> None:
    """List the search indexes of all pipelines that ran with this --state directory."""
    rows = []
    for pipeline, table, path in _known(state):
        columns = columns_of_index(path)
        text = ", ".join(columns.text) if columns else None
        rows.append({"pipeline": pipeline, "table": table, "path": str(path), "searches": text})
    print_rows(rows, form, empty=f"no pipeline in {state} keeps a search index")


@index.command(
    epilog="""
    mainstem index search articles "event log"
    mainstem index search articles 'title:log AND NOT body:queue' --limit 3
    """,
)
@click.argument("name")
@click.argument("query")
@limit_option(10, "Number of rows.")
@state_option
@format_option
def search(name: str, query: str, limit: int, state: Path, form: Format | None) -> None:
    """Print the rows that match a query best.

    NAME is a table (or PIPELINE.TABLE) whose sink is a search index, or the directory of an index.
    QUERY has words, "phrases", column:word, AND, OR, NOT and parentheses.
    """
    found = search_index(_directory(name, state), query, limit)
    rows = [{"score": round(each.score, 3)} | each.row for each in found]
    if chosen(form) == "table":
        print_rows([{key: str(each[key]) for key in each} for each in rows], form, empty="no match")
        return
    if chosen(form) == "json":
        print_json(rows)
        return
    for row in rows:
        print_json(row)


def _directory(name: str, state: Path) -> Path:
    if columns_of_index(Path(name)) is not None:
        return Path(name)
    known = list(_known(state))
    found = {path for pipeline, table, path in known if name in (table, f"{pipeline}.{table}")}
    if len(found) == 1:
        return found.pop()
    names = ", ".join(f"{pipeline}.{table}" for pipeline, table, _ in known) or "none"
    what = "several search indexes are" if found else "no search index is"
    raise RunRefused(f"{what} named {name!r}; {state} knows {names}; or give its directory")


def _known(state: Path) -> Iterator[tuple[str, str, Path]]:
    for pipeline, table, status in table_statuses(state):
        path = place_of(status.sink)
        if path is not None:
            yield pipeline, table, path

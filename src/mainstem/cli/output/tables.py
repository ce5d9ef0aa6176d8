"""Prints lists of rows: aligned columns on a terminal, JSON lines in a pipe."""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypeVar

import click
import msgspec

from mainstem.cli.arguments.units import human_bytes, human_ms
from mainstem.cli.output.terminal_escapes import shown, shown_json

Row = Mapping[str, object]
Format = Literal["table", "json", "jsonl"]
Decorated = TypeVar("Decorated", bound=Callable[..., object])


def format_option(command: Decorated) -> Decorated:
    """Add ``--format`` to a command that prints a list."""
    return click.option(
        "--format",
        "form",
        type=click.Choice(["table", "json", "jsonl"]),
        help="json: one document; jsonl: one line each.  "
        "[default: table on a terminal, jsonl in a pipe]",
    )(command)


def chosen(form: Format | None) -> Format:
    """Return the format asked for; by default a table on a terminal, and JSON lines in a pipe."""
    return form or ("table" if sys.stdout.isatty() else "jsonl")


def print_rows(rows: Sequence[Row], form: Format | None, *, empty: str = "") -> None:
    """Print rows; if there are none, a table prints the text ``empty`` instead."""
    form = chosen(form)
    if form == "json":
        print_json(rows)
    elif form == "jsonl":
        for row in rows:
            print_json(row)
    elif rows:
        click.echo(table(rows))
    elif empty:
        click.echo(f"mainstem: {empty}", err=True)


def print_json(document: Row | Sequence[Row]) -> None:
    """Print one JSON document on one line."""
    data = msgspec.json.encode(document)
    click.echo(shown_json(data) if sys.stdout.isatty() else data)


def print_as_json(answer: msgspec.Struct, form: Format | None) -> bool:
    """Print an answer as JSON, unless the format is a table; return whether it was printed."""
    if chosen(form) == "table":
        return False
    print_json(msgspec.to_builtins(answer))
    return True


def table(rows: Sequence[Row]) -> str:
    """Format rows as aligned columns; names ending in ``_bytes`` or ``_ms`` give the unit."""
    names = list(rows[0])
    titles = [_title(name) for name in names]
    cells = [[cell(name, row[name]) for name in names] for row in rows]
    widths = [max(map(len, column)) for column in zip(titles, *cells, strict=True)]
    numeric = [
        all(isinstance(row[name], int) or row[name] is None for row in rows) for name in names
    ]
    lines = []
    for line in (titles, *cells):
        padded = (
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(line, widths, numeric, strict=True)
        )
        lines.append("  ".join(padded).rstrip())
    return "\n".join(lines)


def cell(name: str, value: object) -> str:
    """Format the value of column ``name`` for a table, with control characters escaped."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and name.endswith("_bytes"):
        return human_bytes(value)
    if isinstance(value, int) and name.endswith("_ms"):
        return human_ms(value)
    return f"{value:,}" if isinstance(value, int) else shown(str(value))


def _title(name: str) -> str:
    return name.removesuffix("_bytes").removesuffix("_ms").replace("_", " ").upper()

"""Prints the Arrow batches of a query result: as a table, JSON, CSV or an Arrow stream."""

import csv
import io
import sys
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, time
from decimal import Decimal
from itertools import chain
from uuid import UUID

import click
import pyarrow as pa

from mainstem.cli.output.terminal_escapes import shown, shown_json
from mainstem.sql.rows import rows_of, text_of, to_json

_CHANGE = "_change"
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""How a text begins that a spreadsheet takes for a formula, and runs."""


def print_result(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch], form: str | None, *, raw: bool = False
) -> None:
    """Print a result; by default a table on a terminal, and JSON lines in a pipe.

    ``raw`` leaves CSV cells as they are that a spreadsheet would take for formulas.
    """
    form = form or ("table" if sys.stdout.isatty() else "jsonl")
    match form:
        case "arrow":
            _print_arrow(schema, batches)
        case "csv":
            _print_csv(schema.names, rows_of(batches), raw=raw)
        case "json":
            rows = [dict(zip(schema.names, row, strict=True)) for row in rows_of(batches)]
            _write(to_json(rows) + b"\n")
        case "jsonl":
            for row in rows_of(batches):
                _write(json_line(schema.names, row))
        case _:
            click.echo(table(schema, list(rows_of(batches))))


class ChangeOutput:
    """Prints the changes of a result: removed rows with -, added rows with +."""

    def __init__(self, form: str | None, *, raw: bool = False) -> None:
        self._form = form or ("table" if sys.stdout.isatty() else "jsonl")
        self._raw = raw
        self._names: list[str] | None = None

    def print(
        self,
        schema: pa.Schema,
        removed: list[tuple[object, ...]],
        added: list[tuple[object, ...]],
    ) -> None:
        """Print the removed rows, then the added ones."""
        names = [_CHANGE, *schema.names]
        rows = [("-", *row) for row in removed] + [("+", *row) for row in added]
        match self._form:
            case "jsonl":
                for row in rows:
                    _write(json_line(names, row))
            case "csv":
                # The column names are printed first, and again if they change.
                _print_csv(names if names != self._names else None, rows, raw=self._raw, signs=1)
                self._names = names
            case _:
                if rows:
                    fields = [pa.field(_CHANGE, pa.string()), *schema]
                    click.echo(table(pa.schema(fields), rows))
        sys.stdout.flush()


def json_line(names: list[str], row: tuple[object, ...]) -> bytes:
    """Return a row as one line of JSON, with a line end."""
    found = dict(zip(names, row, strict=True))
    return to_json(found) + b"\n"


def table(schema: pa.Schema, rows: list[tuple[object, ...]]) -> str:
    """Return rows as aligned columns, numbers to the right, and the number of rows below."""
    cells = [[_cell(value) for value in row] for row in rows]
    right = [_is_number(field.type) for field in schema]
    titles = [shown(name) for name in schema.names]
    columns = zip(titles, *cells, strict=True)
    widths = [max(map(len, column)) for column in columns]
    lines = [
        "  ".join(
            text.rjust(width) if is_right else text.ljust(width)
            for text, width, is_right in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in (titles, *cells)
    ]
    count = "1 row" if len(rows) == 1 else f"{len(rows):,} rows"
    return "\n".join([*lines, f"({count})"])


def _print_arrow(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
    if sys.stdout.isatty():
        raise click.UsageError("an Arrow stream is not for a terminal: write it to a file or pipe")
    with pa.ipc.new_stream(sys.stdout.buffer, schema) as out:
        for batch in batches:
            out.write_batch(batch)


def _print_csv(
    names: list[str] | None, rows: Iterable[tuple[object, ...]], *, raw: bool, signs: int = 0
) -> None:
    """Print rows as CSV; the first ``signs`` columns are our own + and -, and not escaped."""
    text = io.StringIO()
    # The csv module quotes only cells with characters of the line terminator; readers take both CR
    # and LF for line ends, so both must be quoted.
    writer = csv.writer(text, lineterminator="\r\n")
    cell = _csv_text if raw else _inert
    for row in chain([names] if names else [], rows):
        writer.writerow([*row[:signs], *map(cell, row[signs:])])
        _write((text.getvalue().removesuffix("\r\n") + "\n").encode(errors="replace"))
        text.seek(0)
        text.truncate()


def _csv_text(value: object) -> str:
    return "" if value is None else _text(value)


def _inert(value: object) -> str:
    """Return a cell's text, with ' before it if a spreadsheet would take it for a formula."""
    text = _csv_text(value)
    # Only texts can be meant as formulas; a number may be negative.
    if isinstance(value, str | bytes) and text.startswith(_FORMULA):
        return "'" + text
    return text


def _write(data: bytes) -> None:
    if sys.stdout.isatty():
        sys.stdout.write(shown_json(data).decode())
    else:
        sys.stdout.buffer.write(data)


def _cell(value: object) -> str:
    return "-" if value is None else shown(_text(value))


_TEXT: dict[type, Callable[[object], str]] = {
    bool: lambda value: "true" if value else "false",
    float: repr,
    bytes: lambda value: text_of(value if isinstance(value, bytes) else b""),
}


def _text(value: object) -> str:
    if isinstance(value, datetime):
        moment = value.astimezone(UTC) if value.tzinfo else value
        return moment.isoformat(sep=" ").replace("+00:00", "Z")
    if isinstance(value, dict | list | tuple):
        return to_json(value).decode()
    if isinstance(value, str | int | date | time | Decimal | UUID) and not isinstance(value, bool):
        return str(value)
    return _TEXT.get(type(value), str)(value)


def _is_number(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    )

"""``mainstem pipeline diff``: compares tables with their copies, or with a source database."""

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from mainstem.cli.arguments.units import parse_ms
from mainstem.cli.exit_codes import Exit, say
from mainstem.cli.help import Command
from mainstem.cli.output.tables import Format, Row, chosen, format_option, print_rows
from mainstem.cli.pipelines.pipeline_options import file_argument, name_option

if TYPE_CHECKING:
    from mainstem.pipelines.running.replay import Difference
    from mainstem.pipelines.running.source_comparison import SourceDifference


class Compared(NamedTuple):
    """One comparison as it is printed."""

    row: Row
    examples: list[str]
    equal: bool


@click.command(
    cls=Command,
    epilog="""
    mainstem pipeline diff shop.py fixed
    mainstem pipeline diff shop.py --source postgres://reader@db/shop --wait 10s
    mainstem pipeline diff shop.py fixed --source postgres://reader@db/shop
    mainstem pipeline diff shop.py --source sqlite:///var/lib/shop/shop.db
    """,
)
@file_argument
@click.argument("into", metavar="[NAME]", required=False)
@click.option(
    "--source",
    metavar="URL",
    help="Compare tables of apply_changes with this PostgreSQL, MariaDB, MySQL or SQLite, too. "
    "Give the password by PGPASSWORD or a password file, or by MYSQL_PWD.",
)
@click.option(
    "--wait",
    metavar="DURATION",
    default="0s",
    show_default=True,
    help="With --source: report only rows that differ during all of this time, as both sides "
    "may change.",
)
@name_option
@format_option
@click.pass_context
def diff(
    ctx: click.Context,
    *,
    file: Path,
    into: str | None,
    source: str | None,
    wait: str,
    name: str | None,
    form: Format | None,
) -> None:
    """Compare tables with their copies, row by row, or with the source database.

    With --source and NAME, the copies NAME are compared with the database; with --source alone, the
    tables themselves. Exit code 1 if something differs.
    """
    from mainstem.pipelines.definitions.load import load  # noqa: PLC0415
    from mainstem.pipelines.running.replay import compare  # noqa: PLC0415 - only what is used
    from mainstem.pipelines.running.source_comparison import compare_with_source  # noqa: PLC0415

    if into is None and source is None:
        raise click.UsageError("say with what to compare: the NAME of copies, --source URL or both")
    loaded = load(file, name)
    found: list[list[Compared]] = []
    if into is not None:
        found.append([_compared(each, into) for each in compare(loaded, into)])
    if source is not None:
        there = compare_with_source(loaded, source, into, parse_ms(wait) / 1000)
        found.append([_compared_with_source(each) for each in there])
    if chosen(form) == "table":
        for several in found:
            _print_table(several)
    else:
        whole = [each for several in found for each in several]
        print_rows([{**each.row, "examples": each.examples} for each in whole], form)
    if not all(each.equal for several in found for each in several):
        ctx.exit(Exit.ERROR)


def _compared(found: "Difference", into: str) -> Compared:
    row = {
        "table": found.table,
        "rows": found.rows,
        "same": found.same,
        "only_in_table": found.only_here,
        f"only_in_{into}": found.only_there,
    }
    return Compared(row, found.examples, found.equal)


def _compared_with_source(found: "SourceDifference") -> Compared:
    row = {
        "table": found.table,
        "rows_in_database": found.rows,
        "different": found.different,
        "missing": found.missing,
        "extra": found.extra,
    }
    return Compared(row, found.examples, found.equal)


def _print_table(found: list[Compared]) -> None:
    print_rows([each.row for each in found], "table")
    for each in found:
        for example in each.examples:
            say(f"{each.row['table']}: {example}")

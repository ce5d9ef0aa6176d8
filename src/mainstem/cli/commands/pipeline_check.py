"""``mainstem pipeline check``: checks a pipeline file without running it."""

from pathlib import Path

import click
import msgspec

from mainstem.cli.exit_codes import Exit, say
from mainstem.cli.help import Command
from mainstem.cli.output.tables import Format, Row, chosen, format_option, print_rows
from mainstem.cli.pipelines.pipeline_options import file_argument, name_option, state_option
from mainstem.cli.pipelines.spark_session import start_spark
from mainstem.pipelines.spark.requirements import MissingJava, MissingSpark, find_java, find_spark
from mainstem.pipelines.state.table_state import StateDirectory, pipeline_directory


@click.command(
    cls=Command,
    epilog="""
    mainstem pipeline check shop.py
    mainstem pipeline check shop.py --no-spark --format json
    """,
)
@file_argument
@click.option("--no-spark", is_flag=True, help="Check only what does not need Spark.")
@name_option
@state_option
@format_option
@click.pass_context
def check(
    ctx: click.Context,
    *,
    file: Path,
    no_spark: bool,
    name: str | None,
    state: Path,
    form: Format | None,
) -> None:
    """Check a pipeline file: names, sources, sinks, and with Spark the plan of each table.

    This reads no topic and needs no server. It warns of definitions that no longer match their
    checkpoints. Exit code 1 on errors.
    """
    from mainstem.core.errors import MainstemError  # noqa: PLC0415 - only what is used
    from mainstem.pipelines.definitions.load import load  # noqa: PLC0415

    try:
        loaded = load(file, name)
    except MainstemError as error:
        _print([{"table": None, "error": str(error)}], form)
        ctx.exit(Exit.ERROR)
    if not no_spark:
        try:
            find_spark()
            find_java()
        except (MissingJava, MissingSpark) as missing:
            say(f"checked without Spark: {missing}")
            no_spark = True
    rows: list[Row] = [
        {
            "table": each.name,
            "sink": each.sink.place,
            "output": each.output,
            "columns": None,
            "stateful": None,
            "error": None,
            "warning": None,
        }
        for each in loaded.tables
    ]
    if not no_spark:
        from mainstem.pipelines.session import end_session  # noqa: PLC0415

        spark = start_spark("local[1]")
        from mainstem.pipelines.planning.check import check_table  # noqa: PLC0415 - needs Spark

        directory = pipeline_directory(state, loaded.name)
        try:
            rows = [
                msgspec.to_builtins(
                    check_table(spark, loaded, each, StateDirectory(directory / each.name))
                )
                for each in loaded.tables
            ]
        finally:
            end_session(spark)
    _print(rows, form)
    if any(row["error"] for row in rows):
        ctx.exit(Exit.ERROR)


def _print(rows: list[Row], form: Format | None) -> None:
    if chosen(form) != "table":
        print_rows(rows, form)
        return
    for row in rows:
        if row["error"]:
            say(str(row["error"]))
        if row.get("warning"):
            say(f"warning: table {row['table']!r}: {row['warning']}")
    shown = ("table", "sink", "output", "columns")
    good = [
        {name: row[name] for name in shown} | {"stateful": bool(row["stateful"])}
        for row in rows
        if not row["error"]
    ]
    print_rows(good, form)

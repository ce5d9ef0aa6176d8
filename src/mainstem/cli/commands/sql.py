"""``mainstem sql``: runs an SQL query over the events of topics."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mainstem.cli.arguments.options import number_or
from mainstem.cli.arguments.units import SECONDS, parse_bytes
from mainstem.cli.connection import at_option, server_address
from mainstem.cli.exit_codes import say
from mainstem.cli.help import Command
from mainstem.cli.pipelines.pipeline_options import state_option

if TYPE_CHECKING:
    import pyarrow as pa

    from mainstem.remote.cluster import Cluster
    from mainstem.sql.avro import AvroValues
    from mainstem.sql.query import Query
    from mainstem.sql.snapshot import Snapshot

_TIMEOUT_S = 30.0
_FOLLOWED_ROWS = 100_000
"""Rows of a result that is followed, which are all kept in memory, unless --rows says more."""


def _bytes(_context: click.Context, _parameter: click.Parameter, text: str) -> int:
    try:
        return parse_bytes(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.command(
    cls=Command,
    epilog="""
    mainstem sql 'select user, sum(amount) from orders group by user'
    mainstem sql 'select * from orders where _timestamp > now() - interval 1 hour'
    mainstem sql 'select o.id, c.name from orders o join customers c on o.customer = c._key'
    mainstem sql --follow 'select user, count(*) from orders group by user'
    mainstem sql --as-of SNAPSHOT 'select count(*) from orders'     as it was then
    mainstem sql 'describe orders'                                  columns and types
    mainstem sql 'select * from shop.revenue order by day'          a table of pipeline shop
    """,
)
@click.argument("query")
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "json", "jsonl", "csv", "arrow"]),
    help="json: one document; jsonl: one line for each row; arrow: an Arrow IPC stream.  "
    "[default: table on a terminal, jsonl in a pipe]",
)
@click.option(
    "--as-of",
    metavar="SNAPSHOT",
    help="Read the events of this snapshot, as printed with an earlier result.",
)
@click.option(
    "--follow",
    is_flag=True,
    help="Do not end: evaluate the query again as events are published, and print the changes: "
    "rows with _change + were added, rows with - removed.",
)
@click.option(
    "-c", "--count", type=click.IntRange(1), help="With --follow: stop after this many changes."
)
@click.option("--rows", type=click.IntRange(1), help="Refuse a result with more rows.")
@click.option("--time", "seconds", type=SECONDS, metavar="SECONDS", help="Stop after this time.")
@click.option(
    "--memory",
    callback=_bytes,
    default="1GiB",
    show_default=True,
    metavar="BYTES",
    help="Memory for the query, such as 512MiB.",
)
@click.option(
    "--sample",
    default="1000",
    show_default=True,
    metavar="N|all",
    help="How many of the newest events of each partition are sampled to find the fields.",
)
@click.option(
    "--schema",
    "schemas",
    metavar="TOPIC=FILE",
    multiple=True,
    help="The Avro schema (.avsc) of a topic's values (repeatable).",
)
@state_option
@click.option(
    "--raw",
    is_flag=True,
    help="With --format csv: write texts that begin with = + - @, a tab or a carriage return as "
    "they are, not with ' before them; a spreadsheet takes them for formulas.",
)
@click.option("-q", "--quiet", is_flag=True, help="Print the result and errors only.")
@at_option
def sql(
    *,
    query: str,
    form: str | None,
    as_of: str | None,
    follow: bool,
    count: int | None,
    rows: int | None,
    seconds: float | None,
    memory: int,
    sample: str,
    schemas: tuple[str, ...],
    state: Path,
    raw: bool,
    quiet: bool,
    at: str | None,
) -> None:
    """Query the events of topics in SQL.

    A topic is a table; the fields of its JSON values are columns, and so are _key, _value,
    _headers, _partition, _offset and _timestamp. Each result is printed with its snapshot, the
    offsets that were read: a query with --as-of reads the same events again. Tables that pipelines
    keep in Delta, Parquet or SQLite are tables, too, if there is no topic of that name.
    """
    from mainstem.sql.requirements import check_installed  # noqa: PLC0415 - only what is used

    check_installed()
    from mainstem.remote.cluster import Cluster  # noqa: PLC0415 - slow to load
    from mainstem.sql.evaluation import Limits  # noqa: PLC0415
    from mainstem.sql.query import Query  # noqa: PLC0415
    from mainstem.sql.snapshot import parse  # noqa: PLC0415

    if follow and (as_of or form in ("json", "arrow")):
        raise click.UsageError("--follow goes with --format jsonl, csv or table, not with --as-of")
    given = None if as_of is None else parse(as_of)
    cluster = Cluster(server_address(at, "queries"), timeout_s=_TIMEOUT_S, settings={})
    cluster.check_reachable()
    rows = rows or (_FOLLOWED_ROWS if follow else None)
    limits = Limits(memory_bytes=memory, seconds=seconds, rows=rows)
    with Query(
        cluster,
        query,
        limits=limits,
        sample=number_or("all", sample, f"--sample is a number of events, or all, not {sample!r}"),
        stored=lambda name: _stored_table(state, name),
        schemas=_schemas(schemas),
    ) as asked:
        if follow and (asked.stored_tables or not asked.topics):
            raise click.UsageError("--follow waits for events: give a query that reads topics only")
        if follow:
            _follow(cluster, asked, form, count, raw=raw, quiet=quiet)
            return
        snapshot = asked.snapshot() if given is None else given
        if given is not None:
            asked.check(given)
        _answer(asked, snapshot, form, raw=raw, quiet=quiet)


def _stored_table(state: Path, name: str) -> "pa.Table | None":
    from mainstem.pipelines.stored_rows import stored_rows  # noqa: PLC0415 - only what is used

    return stored_rows(state, name)


def _schemas(given: tuple[str, ...]) -> "dict[str, AvroValues]":
    from mainstem.sql.avro import AvroValues  # noqa: PLC0415 - needs pyarrow

    found = {}
    for each in given:
        topic, sign, file = each.partition("=")
        if not topic or not sign or not Path(file).is_file():
            raise click.UsageError(f"--schema is TOPIC=FILE with a file that exists, not {each!r}")
        found[topic] = AvroValues.of(Path(file).read_bytes(), file)
    return found


def _answer(
    asked: "Query", snapshot: "Snapshot", form: str | None, *, raw: bool, quiet: bool
) -> None:
    from mainstem.cli.output.results import print_result  # noqa: PLC0415 - needs pyarrow

    result = asked.run(snapshot)
    print_result(result.schema, result.batches, form, raw=raw)
    sys.stdout.flush()
    if not quiet:
        for notice in asked.notices:
            say(notice)
        if asked.stored_tables and asked.topics:
            say(f"{', '.join(asked.stored_tables)}: as of now, and not in the snapshot")
        if snapshot.topics:
            click.echo(f"snapshot: {snapshot}", err=True)


def _follow(
    cluster: "Cluster",
    asked: "Query",
    form: str | None,
    count: int | None,
    *,
    raw: bool,
    quiet: bool,
) -> None:
    from mainstem.cli.output.results import ChangeOutput  # noqa: PLC0415 - needs pyarrow
    from mainstem.sql.changes import follow  # noqa: PLC0415

    out, printed, snapshot = ChangeOutput(form, raw=raw), 0, None
    try:
        for changes in follow(cluster, asked):
            snapshot = changes.snapshot
            out.print(changes.schema, changes.removed, changes.added)
            printed += len(changes.removed) + len(changes.added)
            if count is not None and printed >= count:
                return
    finally:
        if snapshot is not None and not quiet:
            click.echo(f"snapshot: {snapshot}", err=True)

"""``mainstem connector``: defines and controls connectors, which publish changes of databases."""

import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path

import click
import msgspec

from mainstem import __version__
from mainstem.cli.admin_port import ServerAdmin
from mainstem.cli.arguments.options import choice_option
from mainstem.cli.connection import at_option
from mainstem.cli.help import Group
from mainstem.cli.output.tables import Format, cell, format_option, print_as_json, print_rows
from mainstem.cli.server_logging import start_logging
from mainstem.cli.signals import stop_signals
from mainstem.connectors import complete
from mainstem.connectors.settings import ConnectorSettings, Decimals, SnapshotMode
from mainstem.connectors.settings import Format as EventFormat
from mainstem.core.errors import InvalidSetting
from mainstem.node import connector_operations as operations
from mainstem.node.connector_operations import ConnectorInfo

_NEEDS = "mainstem serve"
_LISTS = frozenset(
    each.name
    for each in msgspec.structs.fields(ConnectorSettings)
    if isinstance(each.default, tuple)
)
"""The settings that are lists."""


@click.group(
    cls=Group,
    epilog="""
    mainstem connector add shop postgres://app@db.internal/shop --tables public.orders
    mainstem connector ls
    mainstem sub shop.public.orders
    """,
)
def connector() -> None:
    """Capture the changes of databases as events, one topic for each table.

    Connectors run in a server; the commands call its admin port. docs/guides/cdc.md says what each
    database needs, and what the events contain.
    """


def _words(text: str | None) -> tuple[str, ...]:
    return tuple(each.strip() for each in (text or "").split(",") if each.strip())


@connector.command(
    epilog="""
    mainstem connector add shop postgres://app@db.internal/shop --tables public.orders
    mainstem connector add shop postgres://app@db/shop --tables 'public.*' --exclude public.log
    mainstem connector add shop postgres://app@db/shop --mask-columns public.users.email \\
        --password-env MAINSTEM_SECRET_SHOP
    mainstem connector add shop sqlite:///var/lib/shop/shop.db --tables orders,users
    """,
)
@click.argument("name")
@click.argument("url")
@click.option(
    "--tables",
    metavar="LIST",
    help="Tables to capture: schema.table, separated by commas; * and ? are wildcards. SQLite: "
    "also without schema.",
)
@click.option(
    "--exclude", metavar="LIST", help="Tables that are not captured although --tables matches."
)
@click.option(
    "--exclude-columns", metavar="LIST", help="Columns to leave out: schema.table.column."
)
@click.option("--mask-columns", metavar="LIST", help="Columns published as asterisks.")
@click.option(
    "--outbox",
    metavar="LIST",
    help="Outbox tables: each new row is published as the event that it describes.",
)
@click.option(
    "--password-env",
    metavar="NAME",
    help="Variable of the server's environment with the password: MAINSTEM_SECRET_….",
)
@click.option(
    "--password-file",
    metavar="FILE",
    help="File with the password, in the directory of the server's setting connectors.secrets_dir.",
)
@choice_option(
    "--events",
    "event_format",
    default=EventFormat.JSON,
    meaning="Format of the events: Debezium's envelope without or with its schema, only the rows, "
    "or CloudEvents.",
)
@choice_option("--decimals", default=Decimals.PRECISE, meaning="How exact numbers are written.")
@choice_option(
    "--snapshot",
    default=SnapshotMode.INITIAL,
    meaning="Whether to read all rows before following.",
)
@click.option(
    "--own-process",
    is_flag=True,
    help="Only mainstem connector run runs the connector, never the server.",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="Another setting of docs/guides/cdc.md, such as partitions=4.",
)
@format_option
@at_option
def add(
    name: str,
    url: str,
    tables: str | None,
    exclude: str | None,
    exclude_columns: str | None,
    mask_columns: str | None,
    outbox: str | None,
    password_env: str | None,
    password_file: str | None,
    event_format: str,
    decimals: str,
    snapshot: str,
    own_process: bool,
    settings: tuple[str, ...],
    form: Format | None,
    at: str | None,
) -> None:
    """Capture the changes of the database at URL; topic names begin with NAME.

    The URL must not have a password. The command connects first, and prints which tables are
    captured.
    """
    given: dict[str, object] = {
        "name": name,
        "url": url,
        "tables": _words(tables),
        "exclude": _words(exclude),
        "exclude_columns": _words(exclude_columns),
        "mask_columns": _words(mask_columns),
        "outbox": _words(outbox),
        "password_env": password_env or "",
        "password_file": password_file or "",
        "format": event_format,
        "decimals": decimals,
        "snapshot": snapshot,
        "own_process": own_process,
    }
    for each in settings:
        field, equals, value = each.partition("=")
        if not equals:
            raise click.UsageError(f"--set {each}: say NAME=VALUE")
        given[field] = _words(value) if field in _LISTS else value
    try:
        asked = msgspec.convert(given, ConnectorSettings, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidSetting(str(error)) from None
    asked = complete(asked)
    server = ServerAdmin(at, needs=_NEEDS)
    added = server.change(operations.ADD, operations.AddConnector(asked), operations.Added)
    if print_as_json(added, form):
        return
    click.echo(f"{cell('connector', name)} captures {len(added.tables)} tables:")
    for table in added.tables:
        click.echo(f"  {table}")


@connector.command(
    epilog="""
    mainstem connector run shop
    MAINSTEM_SECRET_SHOP=… mainstem connector run shop --at db1.internal:9092
    """
)
@click.argument("name")
@click.option(
    "--secrets-dir",
    metavar="DIR",
    default="",
    help="Where --password-file is; otherwise the setting connectors.secrets_dir.",
)
@at_option
def run(name: str, secrets_dir: str, at: str | None) -> None:
    """Run a connector in this process instead of in the server, until it is stopped.

    Events and progress are published through the server's admin port, in one append each, so each
    change is published once, even after kill -9. If another process runs the connector, this one
    waits until that ends. When this process ends, the server's thread continues, unless the
    connector was added with --own-process.
    """
    # Only this command runs a connector, so only this one imports it.
    from mainstem.cli.connector_process import AdminServer  # noqa: PLC0415
    from mainstem.connectors.running.own_process import OwnProcess  # noqa: PLC0415
    from mainstem.connectors.running.worker import task_of  # noqa: PLC0415
    from mainstem.connectors.secrets import Secrets  # noqa: PLC0415
    from mainstem.node.config import load_config  # noqa: PLC0415

    start_logging("text")
    directory = secrets_dir or load_config(None, os.environ, {}).connectors.secrets_dir
    secrets = Secrets(Path(directory), os.environ)
    process = OwnProcess(
        name,
        lambda: AdminServer(ServerAdmin(at, needs=_NEEDS)),
        lambda settings, target, duties: task_of(
            settings, target, duties, secrets, __version__, time.time_ns
        ),
        lambda text: click.echo(text, err=True),
    )
    before = {
        each: signal.signal(each, lambda _number, _frame: process.stop()) for each in stop_signals()
    }
    try:
        process.run()
    finally:
        for each, action in before.items():
            signal.signal(each, action)


@connector.command("ls", epilog="mainstem connector ls")
@format_option
@at_option
def list_connectors(form: Format | None, at: str | None) -> None:
    """List all connectors; LAG is how much log the database keeps for a connector."""
    found = ServerAdmin(at, needs=_NEEDS).read(operations.LIST, {}, list[ConnectorInfo])
    print_rows([_row(each) for each in found], form)


@connector.command(epilog="mainstem connector show shop")
@click.argument("name")
@format_option
@at_option
def show(name: str, form: Format | None, at: str | None) -> None:
    """Show a connector: its phase, its last error, and its settings."""
    found = ServerAdmin(at, needs=_NEEDS).read(operations.SHOW, {"name": name}, ConnectorInfo)
    if print_as_json(found, form):
        return
    click.echo(f"{cell('connector', found.name)} ({found.kind}): {found.phase}")
    for title, text in (("error", found.error), ("alarm", found.alarm), ("note", found.note)):
        if text:
            click.echo(f"{title}: {cell(title, text)}")
    if found.phase == "not running":
        click.echo(f"start mainstem connector run {cell('connector', found.name)}")
    elif found.runs_in not in ("server", ""):
        click.echo(f"runs in {cell('process', found.runs_in)}")
    click.echo(f"published: {found.published} events; the database keeps {found.lag_bytes} bytes")
    if found.pending:
        click.echo(f"still to read: {', '.join(found.pending)}")
    for field, value in msgspec.to_builtins(found.settings).items():
        if value not in ("", [], ()):
            click.echo(f"  {field} = {cell(field, value)}")


@connector.command(epilog="mainstem connector pause shop")
@click.argument("name")
@at_option
def pause(name: str, at: str | None) -> None:
    """Stop following until resume; the database's log grows meanwhile, on its disk."""
    _change(at, operations.PAUSE, operations.ConnectorName(name))


@connector.command(epilog="mainstem connector resume shop")
@click.argument("name")
@at_option
def resume(name: str, at: str | None) -> None:
    """End a pause; the connector continues where it was."""
    _change(at, operations.RESUME, operations.ConnectorName(name))


@connector.command(
    epilog="""
    mainstem connector restart shop
    mainstem connector restart shop --snapshot
    """
)
@click.argument("name")
@click.option("--snapshot", is_flag=True, help="Forget the position, and read all tables again.")
@at_option
def restart(name: str, snapshot: bool, at: str | None) -> None:
    """Stop and start a connector, for example after the cause of an error was removed."""
    _change(at, operations.RESTART, operations.RestartConnector(name, snapshot))


@connector.command(
    epilog="""
    mainstem connector snapshot shop public.orders
    """
)
@click.argument("name")
@click.argument("tables", nargs=-1)
@at_option
def snapshot(name: str, tables: tuple[str, ...], at: str | None) -> None:
    """Read tables again while following; without TABLES, all with a primary key."""
    _change(at, operations.SNAPSHOT, operations.SnapshotTables(name, tables))


@connector.command(
    epilog="""
    mainstem connector rm shop
    mainstem connector rm shop --keep
    """
)
@click.argument("name")
@click.option("--keep", is_flag=True, help="Leave its slot and publication in the database.")
@at_option
def rm(name: str, keep: bool, at: str | None) -> None:
    """Stop and delete a connector; its topics stay."""
    _change(at, operations.REMOVE, operations.RemoveConnector(name, keep))


def _change(at: str | None, operation: str, asked: msgspec.Struct) -> None:
    ServerAdmin(at, needs=_NEEDS).change(operation, asked, operations.Done)


def _row(it: ConnectorInfo) -> Mapping[str, object]:
    return {
        "name": it.name,
        "kind": it.kind,
        "phase": it.phase,
        "published": it.published,
        "lag": it.lag_bytes,
        "error": it.error,
    }

"""``mainstem webhook source``: defines the sources from which the server receives webhooks."""

from collections.abc import Mapping

import click

from mainstem.cli.admin_port import WEBHOOKS, ServerAdmin
from mainstem.cli.arguments.options import choice_option
from mainstem.cli.arguments.units import parse_ms
from mainstem.cli.confirmation import confirm, yes_option
from mainstem.cli.connection import at_option
from mainstem.cli.help import Group
from mainstem.cli.output.tables import Format, cell, format_option, print_as_json, print_rows
from mainstem.heads.webhooks.operations import (
    ADD_SOURCE,
    LIST_SOURCES,
    REMOVE_SOURCE,
    SHOW_SOURCE,
    AddSource,
    NameSource,
    SourceAdded,
    SourceInfo,
)
from mainstem.heads.webhooks.sources import Scheme


@click.group(
    cls=Group,
    epilog="""
    mainstem webhook source add github builds --scheme github
    mainstem webhook source ls
    """,
)
def source() -> None:
    """Receive webhooks: verified, without duplicates, as events of a topic.

    The sender posts them to http://ADDRESS/hooks/NAME, where ADDRESS is that of --webhooks.
    """


@source.command(
    epilog="""
    mainstem webhook source add github builds --scheme github --secret env:WEBHOOK_SECRET_GITHUB
    mainstem webhook source add meters readings --scheme hmac --header X-Sign --id-header X-Id
    """,
)
@click.argument("name")
@click.argument("topic")
@choice_option("--scheme", default=Scheme.STANDARD, meaning="How its requests are verified.")
@click.option(
    "--secret",
    "secrets",
    multiple=True,
    metavar="REF",
    help="file:NAME or env:NAME; may be repeated while a secret is replaced; without it, one is "
    "generated.",
)
@click.option("--header", default="", metavar="NAME", help="hmac, token: header to verify.")
@click.option("--id-header", default="", metavar="NAME", help="hmac, token: header with the id.")
@click.option(
    "--tolerance",
    default="5m",
    show_default=True,
    metavar="DURATION",
    help="How old a request may be, if its scheme has a timestamp.",
)
@click.option(
    "--window",
    default="24h",
    show_default=True,
    metavar="DURATION",
    help="How long ids are remembered, to find duplicates.",
)
@click.option("--replace", is_flag=True, help="Replace the definition of this source.")
@format_option
@at_option
def add(
    name: str,
    topic: str,
    scheme: str,
    secrets: tuple[str, ...],
    header: str,
    id_header: str,
    tolerance: str,
    window: str,
    replace: bool,
    form: Format | None,
    at: str | None,
) -> None:
    """Receive webhooks from a source, as events of a topic."""
    asked = AddSource(
        name=name,
        topic=topic,
        scheme=Scheme(scheme),
        secrets=secrets,
        header=header,
        id_header=id_header,
        tolerance_ms=_ms("--tolerance", tolerance),
        window_ms=_ms("--window", window),
        replace=replace,
    )
    done = ServerAdmin(at, needs=WEBHOOKS).change(ADD_SOURCE, asked, SourceAdded)
    if print_as_json(done, form):
        return
    click.echo(f"{cell('url', done.source.url)} receives events for {cell('topic', topic)}")
    if done.secret:
        click.echo(f"secret, shown only now:  {done.secret}")


@source.command("ls", epilog="\n    mainstem webhook source ls\n    ")
@format_option
@at_option
def list_sources(form: Format | None, at: str | None) -> None:
    """List all sources."""
    found = ServerAdmin(at, needs=WEBHOOKS).read(LIST_SOURCES, {}, list[SourceInfo])
    print_rows([_row(each) for each in found], form, empty="no sources yet")


@source.command(epilog="\n    mainstem webhook source show github\n    ")
@click.argument("name")
@format_option
@at_option
def show(name: str, form: Format | None, at: str | None) -> None:
    """Show a source; of secrets only the references."""
    found = ServerAdmin(at, needs=WEBHOOKS).read(SHOW_SOURCE, {"name": name}, SourceInfo)
    if print_as_json(found, form):
        return
    print_rows([_row(found)], form)


@source.command(epilog="\n    mainstem webhook source rm github\n    ")
@click.argument("name")
@yes_option
@at_option
def rm(name: str, yes: bool, at: str | None) -> None:
    """Remove a source; its topic and events stay."""
    confirm(f"refuse all further webhooks of source {name}", yes=yes)
    ServerAdmin(at, needs=WEBHOOKS).change(REMOVE_SOURCE, NameSource(name=name), object)
    click.echo(f"removed {cell('source', name)}")


def _ms(option: str, text: str) -> int:
    try:
        return parse_ms(text)
    except ValueError as error:
        raise click.UsageError(f"{option}: {error}") from None


def _row(it: SourceInfo) -> Mapping[str, object]:
    return {
        "name": it.name,
        "topic": it.topic,
        "scheme": it.scheme,
        "url": it.url,
        "secrets": ", ".join(each.reference for each in it.secrets),
    }

"""``mainstem group``: list and show groups and their lag, set their offsets, delete them."""

from collections.abc import Iterable

import click

from mainstem.cli.arguments.positions import MEANING, WORDS, Where, in_topic, one_of
from mainstem.cli.arguments.units import PARTITION
from mainstem.cli.confirmation import confirm, yes_option
from mainstem.cli.connection import at_option, open_target
from mainstem.cli.exit_codes import say
from mainstem.cli.help import Group
from mainstem.cli.output import tables
from mainstem.client.info import GroupInfo, Lag


@click.group(
    cls=Group,
    epilog="""
    mainstem group ls
    mainstem group lag billing
    mainstem group seek billing orders --to beginning --dry-run
    mainstem group rm billing --yes
    """,
)
def group() -> None:
    """List and show groups and their lag, move their cursors, delete them."""


@group.command(
    "ls",
    epilog="""
    mainstem group ls
    mainstem group ls | jq 'select(.lag > 1000)'
    """,
)
@tables.format_option
@at_option
def list_groups(form: tables.Format | None, at: str | None) -> None:
    """List the groups that have members or cursors."""
    with open_target(at, reads=True) as stem:
        groups = stem.groups.list()
    rows = [
        {
            "group": each.name,
            "state": each.state,
            "members": len(each.members),
            "topics": sorted({lag.topic for lag in each.lags}),
            "lag": each.lag,
            "behind_ms": _ms(each.behind_s()),
        }
        for each in groups
    ]
    if tables.chosen(form) == "table":
        rows = [row | {"topics": ", ".join(map(str, _names(row["topics"])))} for row in rows]
    tables.print_rows(rows, form, empty="no groups here; mainstem sub TOPIC -g NAME makes one")


def _names(value: object) -> Iterable[object]:
    assert isinstance(value, list)
    return value


@group.command(epilog="mainstem group show billing")
@click.argument("name")
@tables.format_option
@at_option
def show(name: str, form: tables.Format | None, at: str | None) -> None:
    """Show a group: its members, cursors and lag."""
    with open_target(at, reads=True) as stem:
        info = stem.groups.show(name)
    if tables.chosen(form) != "table":
        tables.print_json(_document(info))
        return
    click.echo(
        f"{tables.cell('group', info.name)}: {info.state}, {len(info.members)} members, "
        f"lag {info.lag:,}\n"
    )
    tables.print_rows([_row(lag) for lag in info.lags], form, empty="no cursors yet")


@group.command(
    epilog="""
    mainstem group lag billing
    mainstem group lag
    mainstem group lag billing --format json | jq 'map(.lag) | add'
    """,
)
@click.argument("name", required=False)
@tables.format_option
@at_option
def lag(name: str | None, form: tables.Format | None, at: str | None) -> None:
    """Show the lag of a group, or of every group, by partition.

    BEHIND is the age of the first unread event (behind_ms in JSON).
    """
    with open_target(at, reads=True) as stem:
        groups = (stem.groups.show(name),) if name else stem.groups.list()
    rows = [_row(each) for info in groups for each in info.lags]
    tables.print_rows(rows, form, empty="no cursors here; mainstem sub TOPIC -g NAME stores some")


@group.command(
    epilog="""
    mainstem group seek billing orders --to beginning --dry-run
    mainstem group seek billing orders --to @2026-11-15T08:00:00Z
    mainstem group seek billing orders --to -100 -p 0 --yes
    """,
)
@click.argument("name")
@click.argument("topic")
@click.option(
    "--to", "where", metavar=WORDS, required=True, callback=one_of(WORDS), help=f"{MEANING}."
)
@click.option("--partition", "-p", type=PARTITION, help="Only this partition.")
@click.option("--dry-run", is_flag=True, help="Show where the cursors would move to; move nothing.")
@yes_option
@tables.format_option
@at_option
def seek(
    *,
    name: str,
    topic: str,
    where: Where,
    partition: int | None,
    dry_run: bool,
    yes: bool,
    form: tables.Format | None,
    at: str | None,
) -> None:
    """Move the cursors of a group on a topic; the group must have no members."""
    with open_target(at, reads=dry_run) as stem:
        to = in_topic(where, stem.topics.show(topic))
        lags = stem.groups.seek(name, topic, to, partition=partition, dry_run=True)
        rows = [_row(each) for each in lags]
        if not dry_run:
            if not yes and tables.chosen(form) == "table" and rows:
                click.echo(tables.table(rows), err=True)
            total = sum(each.lag for each in lags)
            confirm(f"move {name} on {topic} to where {total:,} events are unread", yes=yes)
            lags = stem.groups.seek(name, topic, to, partition=partition)
            rows = [_row(each) for each in lags]
    if dry_run:
        say("dry run: nothing was moved")
    tables.print_rows(rows, form)


@group.command("rm", epilog="mainstem group rm billing --yes")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@yes_option
@at_option
def remove(names: tuple[str, ...], yes: bool, at: str | None) -> None:
    """Delete groups and their cursors; they must have no members."""
    with open_target(at) as stem:
        groups = [stem.groups.show(name) for name in names]
        for info in groups:
            confirm(f"forget group {info.name} and its {len(info.lags)} cursors", yes=yes)
            stem.groups.delete(info.name)


def _row(lag: Lag) -> tables.Row:
    return {
        "group": lag.group,
        "topic": lag.topic,
        "partition": lag.partition,
        "cursor": lag.cursor,
        "tail": lag.tail,
        "lag": lag.lag,
        "behind_ms": _ms(lag.behind_s()),
        "missed": lag.missed,
        "member": lag.member,
    }


def _ms(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1000)


def _document(info: GroupInfo) -> tables.Row:
    return {
        "group": info.name,
        "state": info.state,
        "members": {
            member: [{"topic": topic, "partition": number} for topic, number in owned]
            for member, owned in info.members.items()
        },
        "lag": info.lag,
        "behind_ms": _ms(info.behind_s()),
        "lags": [_row(each) for each in info.lags],
    }

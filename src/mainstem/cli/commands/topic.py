"""``mainstem topic``: list, create, show, alter, remove and trim topics."""

import click
import msgspec

from mainstem.cli.arguments.positions import MEANING, WORDS, Where, in_topic, one_of
from mainstem.cli.arguments.topic_options import FIELDS, given, settings_options, short
from mainstem.cli.arguments.units import PARTITION
from mainstem.cli.confirmation import confirm, yes_option
from mainstem.cli.connection import at_option, open_target
from mainstem.cli.exit_codes import say
from mainstem.cli.help import Group
from mainstem.cli.output.tables import (
    Format,
    cell,
    chosen,
    format_option,
    print_json,
    print_rows,
    table,
)
from mainstem.client.info import TopicInfo


@click.group(
    cls=Group,
    epilog="""
    mainstem topic create orders --partitions 4 --retention 7d
    mainstem topic ls
    mainstem topic show orders
    mainstem topic rm orders --yes
    """,
)
def topic() -> None:
    """List, create, show, alter, remove and trim topics."""


@topic.command(
    "ls",
    epilog="""
    mainstem topic ls
    mainstem topic ls 'orders.*'
    mainstem topic ls | jq -r .topic
    """,
)
@click.argument("pattern", default="*")
@click.option("--internal", is_flag=True, help="Show mainstem's own topics, too.")
@format_option
@at_option
def list_topics(pattern: str, internal: bool, form: Format | None, at: str | None) -> None:
    """List topics.

    PATTERN is a name in which * stands for anything.
    """
    with open_target(at, reads=True) as stem:
        topics = stem.topics.list(pattern, internal=internal)
    rows = [
        {
            "topic": each.name,
            "partitions": len(each.partitions),
            "events": each.events,
            "size_bytes": each.size_bytes,
            "durability": each.settings.durability,
            "retention_ms": each.settings.retention_ms,
            "compact": each.settings.compact,
        }
        for each in topics
    ]
    print_rows(rows, form, empty="no topics here; mainstem topic create NAME makes one")


@topic.command(
    epilog="""
    mainstem topic create orders
    mainstem topic create orders --partitions 4 --durability disk --retention 7d
    mainstem topic create state --compact
    mainstem topic create feed --overload drop=oldest --max-backlog 100000
    """,
)
@click.argument("name")
@click.option("--if-not-exists", is_flag=True, help="Succeed if the topic is there already.")
@settings_options
@format_option
@at_option
def create(
    name: str,
    if_not_exists: bool,
    assignments: tuple[str, ...],
    form: Format | None,
    at: str | None,
    **options: object,
) -> None:
    """Create a topic.

    Durations are such as 250ms, 90s, 12h, 7d; sizes such as 64KiB, 64MiB, 10GB.
    """
    settings = given(assignments, options)
    with open_target(at, create=True) as stem:
        info = stem.topics.create(name, exist_ok=if_not_exists, **settings)
    _print_topic(info, form)


@topic.command(
    epilog="""
    mainstem topic show orders
    mainstem topic show orders --format json | jq .settings
    """,
)
@click.argument("name")
@format_option
@at_option
def show(name: str, form: Format | None, at: str | None) -> None:
    """Show a topic: its settings, its partitions, and its overload counters."""
    with open_target(at, reads=True) as stem:
        info = stem.topics.show(name)
    _print_topic(info, form)


@topic.command(
    epilog="""
    mainstem topic alter orders --retention 30d
    mainstem topic alter orders --retention none --partitions 8
    mainstem topic alter orders --set segment_bytes=64MiB
    """,
)
@click.argument("name")
@lambda command: settings_options(command, defaults=False)
@format_option
@at_option
def alter(
    name: str, assignments: tuple[str, ...], form: Format | None, at: str | None, **options: object
) -> None:
    """Change a topic's settings; settings that are not given stay unchanged.

    With more partitions, keys may map to other partitions from then on.
    """
    settings = given(assignments, options)
    if not settings:
        raise click.UsageError("name at least one setting to change")
    with open_target(at) as stem:
        info = stem.topics.alter(name, **settings)
    _print_topic(info, form)


@topic.command(
    "rm",
    epilog="""
    mainstem topic rm orders
    mainstem topic rm orders clicks --yes
    """,
)
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@yes_option
@at_option
def remove(names: tuple[str, ...], yes: bool, at: str | None) -> None:
    """Remove topics and all their events."""
    with open_target(at) as stem:
        topics = [stem.topics.show(name) for name in names]
        for info in topics:
            confirm(f"delete topic {info.name} with {_extent(info)}", yes=yes)
            stem.topics.delete(info.name)


@topic.command(
    epilog="""
    mainstem topic trim orders --before @-7d
    mainstem topic trim orders --before -1000      keep the last 1000 of each partition
    mainstem topic trim orders --before 500 -p 0
    mainstem topic trim orders --before end        delete all events, keep the topic
    """,
)
@click.argument("name")
@click.option("--before", metavar=WORDS, required=True, callback=one_of(WORDS), help=f"{MEANING}.")
@click.option("--partition", "-p", type=PARTITION, help="Only this partition.")
@yes_option
@format_option
@at_option
def trim(
    *,
    name: str,
    before: Where,
    partition: int | None,
    yes: bool,
    form: Format | None,
    at: str | None,
) -> None:
    """Delete a topic's oldest events, up to an offset or a time."""
    with open_target(at) as stem:
        info = stem.topics.show(name)
        where = f"partition {partition} of topic {name}" if partition is not None else name
        confirm(f"delete events of {where}, which has {_extent(info)}", yes=yes)
        trimmed = stem.topics.trim(name, in_topic(before, info), partition=partition)
    say(f"deleted {info.events - trimmed.events:,} events of {name}")
    _print_topic(trimmed, form)


def _extent(info: TopicInfo) -> str:
    size = "" if info.size_bytes is None else f" ({cell('size_bytes', info.size_bytes)})"
    return f"{info.events:,} events{size}"


def _print_topic(info: TopicInfo, form: Format | None) -> None:
    partitions = [msgspec.to_builtins(each) for each in info.partitions]
    settings = {name: getattr(info.settings, name) for name in FIELDS}
    kept = info.settings.kept
    if chosen(form) != "table":
        print_json(
            {
                "topic": info.name,
                "id": info.id,
                "events": info.events,
                "size_bytes": info.size_bytes,
                "settings": settings | ({"kept": kept} if kept else {}),
                "partitions": partitions,
                "counters": info.counters,
            }
        )
        return
    click.echo(f"{cell('topic', info.name)}: {_extent(info)}, id {info.id}\n")
    width = max(len(short(name)) for name in FIELDS)
    for name, value in settings.items():
        changed = "" if value == FIELDS[name].default else "  (set)"
        click.echo(f"  {short(name).ljust(width)}  {cell(name, value)}{changed}")
    for name, text in kept.items():
        click.echo(f"  {name.ljust(width)}  {text}  (kept for Kafka's tools; changes nothing)")
    # These count since the log was opened.
    for name, count in info.counters.items():
        if count:
            click.echo(f"  {name.removesuffix('_ms').ljust(width)}  {cell(name, count)}")
    click.echo(f"\n{table(partitions)}")

"""``mainstem queue``: list and show queues, look into them, forget them."""

import click
import msgspec

from mainstem.cli.confirmation import confirm, yes_option
from mainstem.cli.connection import at_option, open_target
from mainstem.cli.event_format import envelope
from mainstem.cli.help import Group
from mainstem.cli.table_output import Format, cell, chosen, format_option, print_json, print_rows
from mainstem.client.info import QueueInfo
from mainstem.core.event import Event

_SHOWN = 60


@click.group(
    cls=Group,
    epilog="""
    mainstem queue ls
    mainstem queue show orders emails
    mainstem queue peek orders emails -n 3
    """,
)
def queue() -> None:
    """List, show, peek into and delete queues.

    A queue is made by stem.queue("orders", name="emails") in Python; every share group of Kafka
    clients is one, too. A server that runs is asked at its admin port.
    """


@queue.command(
    "ls",
    epilog="""
    mainstem queue ls
    mainstem queue ls | jq 'select(.ready > 1000)'
    """,
)
@format_option
@at_option
def list_queues(form: Format | None, at: str | None) -> None:
    """List all queues; READY events can be delivered, OUT events are with consumers."""
    with open_target(at, reads=True) as stem:
        queues = stem.queues.list()
    print_rows(
        [_row(each) for each in queues],
        form,
        empty='no queues here; stem.queue("orders", name="emails") makes one',
    )


@queue.command(epilog="mainstem queue show orders emails")
@click.argument("topic")
@click.argument("name")
@format_option
@at_option
def show(topic: str, name: str, form: Format | None, at: str | None) -> None:
    """Show a queue: its settings, consumers, and progress in each partition."""
    with open_target(at, reads=True) as stem:
        info = stem.queues.show(topic, name)
    partitions = [msgspec.structs.asdict(each) for each in info.partitions]
    if chosen(form) != "table":
        print_json(_row(info) | {"consumers": info.consumers, "partitions": partitions})
        return
    deliveries = info.max_deliveries or "any number of"
    click.echo(
        f"{cell('queue', info.name)} of {cell('topic', info.topic)}: {info.ready:,} ready, "
        f"{info.out:,} out; locked for {info.lock_s:g} s, {deliveries} deliveries, "
        f"order {info.order}"
    )
    for consumer, count in sorted(info.consumers.items()):
        click.echo(f"  {cell('consumer', consumer)} has {count:,}")
    click.echo()
    print_rows(partitions, form)


@queue.command(
    epilog="""
    mainstem queue peek orders emails
    mainstem queue peek orders emails -n 100 | jq .payload
    """,
)
@click.argument("topic")
@click.argument("name")
@click.option("--count", "-n", type=click.IntRange(1), default=10, show_default=True)
@format_option
@at_option
def peek(topic: str, name: str, count: int, form: Format | None, at: str | None) -> None:
    """Show the first unsettled events without taking them."""
    with open_target(at, reads=True) as stem:
        found = stem.queues.peek(topic, name, count)
    rows = [
        event_row(each.event, form) | {"deliveries": each.deliveries, "consumer": each.consumer}
        for each in found
    ]
    print_rows(rows, form, empty="everything is settled")


@queue.command("rm", epilog="mainstem queue rm orders emails --yes")
@click.argument("topic")
@click.argument("name")
@yes_option
@at_option
def remove(topic: str, name: str, yes: bool, at: str | None) -> None:
    """Delete a queue; its events stay in the topic."""
    with open_target(at) as stem:
        info = stem.queues.show(topic, name)
        left = info.ready + info.out
        confirm(f"forget queue {name} of {topic} with {left:,} events not settled", yes=yes)
        stem.queues.delete(topic, name)


def event_row(event: Event, form: Format | None) -> dict[str, object]:
    """Return an event as a row: its envelope for programs, the beginning of it for people."""
    if chosen(form) != "table":
        row: dict[str, object] = msgspec.to_builtins(envelope(event))
        return row
    return {
        "partition": event.partition,
        "offset": event.offset,
        "key": None if event.key is None else _short(event.key),
        "value": None if event.value is None else _short(event.value),
    }


def _short(data: bytes) -> str:
    text = data[: _SHOWN * 4].decode("utf-8", "replace")
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _row(info: QueueInfo) -> dict[str, object]:
    return {
        "topic": info.topic,
        "queue": info.name,
        "ready": info.ready,
        "out": info.out,
        "consumers": len(info.consumers),
        "missed": info.missed,
        "lock_ms": round(info.lock_s * 1000),
        "max_deliveries": info.max_deliveries,
        "order": info.order,
    }

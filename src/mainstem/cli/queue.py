"""``mainstem queue``: list and show queues, look into them, forget them."""

import click
import msgspec

from mainstem.cli.asking import confirm, yes_option
from mainstem.cli.formats import envelope
from mainstem.cli.help import Group
from mainstem.cli.rows import Format, cell, chosen, format_option, print_json, print_rows
from mainstem.cli.target import admin_of, at_option, open_target
from mainstem.client.queues import QueueInfo
from mainstem.core.errors import UnknownSubscription
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
    """List and show queues, look into them, forget them.

    A queue is made by stem.queue("orders", name="emails") in Python; every share group of Kafka
    clients is one, too. Of a server that runs, those of its data directory are listed and shown.
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
    """List the queues of every topic: READY to be delivered, and OUT with consumers."""
    queues = _queues(at)
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
    """Show a queue: its settings, its consumers, and how it stands in each partition."""
    info = _queue(at, topic, name)
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
    """Show the first events that are not settled, and take none of them."""
    with open_target(at) as stem:
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
    """Forget a queue; the events stay in the topic."""
    with open_target(at) as stem:
        info = stem.queues.show(topic, name)
        left = info.ready + info.out
        confirm(f"forget queue {name} of {topic} with {left:,} events not settled", yes=yes)
        stem.queues.delete(topic, name)


def _queues(at: str | None) -> tuple[QueueInfo, ...]:
    admin = admin_of(at)
    if admin is not None:
        return _served(admin)
    with open_target(at) as stem:
        return stem.queues.list()


def _queue(at: str | None, topic: str, name: str) -> QueueInfo:
    admin = admin_of(at)
    if admin is None:
        with open_target(at) as stem:
            return stem.queues.show(topic, name)
    for each in _served(admin):
        if (each.topic, each.name) == (topic, name):
            return each
    raise UnknownSubscription(topic, name)


def _served(admin: str) -> tuple[QueueInfo, ...]:
    # The log is only loaded when it is used.
    from mainstem.client.looked_after import queues_at  # noqa: PLC0415

    return queues_at(admin)


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

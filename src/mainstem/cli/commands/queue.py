"""``mainstem queue``: list and show queues, look into them, empty, move and delete them."""

import click
import msgspec

from mainstem.cli.arguments.queue_names import find_queue, find_topic, queue_argument, vhost_option
from mainstem.cli.confirmation import confirm, yes_option
from mainstem.cli.connection import at_option, open_target
from mainstem.cli.events.event_format import envelope
from mainstem.cli.help import Group
from mainstem.cli.output.progress import Progress
from mainstem.cli.output.tables import Format, cell, chosen, format_option, print_json, print_rows
from mainstem.client.info import QueueInfo
from mainstem.core.event import Event

_SHOWN = 60
_AT_ONCE = 1_000
"""Number of events that are moved in one append."""


@click.group(
    cls=Group,
    epilog="""
    mainstem queue ls
    mainstem queue show orders emails
    mainstem queue peek celery@host -n 3
    mainstem queue move failed orders --max 100
    """,
)
def queue() -> None:
    """List, show, peek into, purge, move and delete queues.

    In Python, stem.queue("orders", name="emails") creates a queue; every share group of Kafka
    clients and every AMQP queue is one, too. If a server runs on the directory, the command calls
    its admin port.

    Give the topic and the queue, or only the queue if it has its topic's name, or if no other topic
    has a queue of that name. AMQP queues can be given by the names that their clients use:
    celery@host, and with --vhost shop those of another virtual host. A topic or queue with exactly
    the given name takes precedence.
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


@queue.command(
    epilog="""
    mainstem queue show orders emails
    mainstem queue show orders --vhost shop
    """,
)
@queue_argument
@format_option
@at_option
def show(names: tuple[str, ...], vhost: str | None, form: Format | None, at: str | None) -> None:
    """Show a queue: its settings, consumers, and progress in each partition."""
    with open_target(at, reads=True) as stem:
        info = stem.queues.show(*find_queue(stem, names, vhost))
    partitions = [msgspec.structs.asdict(each) for each in info.partitions]
    if chosen(form) != "table":
        limits = {
            "ttl_ms": round(info.ttl_s * 1000),
            "max_length": info.max_length,
            "max_bytes": info.max_bytes,
        }
        more = {"consumers": info.consumers, "partitions": partitions}
        print_json(_row(info) | limits | more)
        return
    deliveries = info.max_deliveries or "any number of"
    click.echo(
        f"{cell('queue', info.name)} of {cell('topic', info.topic)}: {info.ready:,} ready, "
        f"{info.out:,} out; locked for {info.lock_s:g} s, {deliveries} deliveries, "
        f"order {info.order}{_limits(info)}"
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
@queue_argument
@click.option("--count", "-n", type=click.IntRange(1), default=10, show_default=True)
@format_option
@at_option
def peek(
    names: tuple[str, ...], vhost: str | None, count: int, form: Format | None, at: str | None
) -> None:
    """Show the first unsettled events without delivering them."""
    with open_target(at, reads=True) as stem:
        found = stem.queues.peek(*find_queue(stem, names, vhost), count)
    rows = [
        event_row(each.event, form)
        | _headers(each.event, form)
        | {"deliveries": each.deliveries, "consumer": each.consumer}
        for each in found
    ]
    print_rows(rows, form, empty="everything is settled")


@queue.command(
    epilog="""
    mainstem queue purge orders emails
    mainstem queue purge celery --vhost shop --yes
    """,
)
@queue_argument
@yes_option
@format_option
@at_option
def purge(
    names: tuple[str, ...], vhost: str | None, yes: bool, form: Format | None, at: str | None
) -> None:
    """Settle all waiting events, so that no consumer gets them.

    Events that consumers are processing stay with them. In topics with delete_acked, such as those
    of AMQP queues, settled events are deleted; elsewhere they stay in the topic.
    """
    with open_target(at) as stem:
        topic, name = find_queue(stem, names, vhost)
        ready = stem.queues.show(topic, name).ready
        confirm(f"settle {ready:,} events that wait in queue {name} of {topic}", yes=yes)
        count = stem.queues.purge(topic, name)
    if chosen(form) != "table":
        print_json({"topic": topic, "queue": name, "purged": count})
        return
    click.echo(f"purged {cell('events', count)} from queue {cell('queue', name)}")


@queue.command(
    epilog="""
    mainstem queue move orders.dead orders
    mainstem queue move orders emails archive --max 1000
    """,
)
@click.argument("names", nargs=-1, required=True, metavar="[TOPIC] QUEUE DESTINATION")
@vhost_option
@click.option("--max", "most", type=click.IntRange(1), help="Move at most this many events.")
@yes_option
@format_option
@at_option
def move(
    names: tuple[str, ...],
    vhost: str | None,
    most: int | None,
    yes: bool,
    form: Format | None,
    at: str | None,
) -> None:
    """Move the waiting events to another topic, or to an AMQP queue.

    They keep their order, key, headers and timestamp. Every 1,000 events are published and settled
    in one append: if the command is stopped or killed, each event is in exactly one place, and the
    same command moves the rest. Events that arrive meanwhile stay. Times to live start again.
    """
    *queue_names, destination = names
    moved = 0
    with open_target(at) as stem:
        topic, name = find_queue(stem, tuple(queue_names), vhost)
        to = find_topic(stem, destination, vhost)
        ready = stem.queues.show(topic, name).ready
        count = ready if most is None else min(ready, most)
        confirm(f"move {count:,} events from queue {name} of {topic} to {to}", yes=yes)
        progress = Progress("moved", quiet=False)
        try:
            while moved < count:
                done = stem.queues.move(topic, name, to, limit=min(_AT_ONCE, count - moved))
                moved += done
                progress.add(done)
                if not done:
                    # Any other events are with consumers by now, or delayed.
                    break
        finally:
            # Printed also if the command was stopped, as moved events stay moved.
            progress.done()
            _print_moved(form, topic, name, to, moved)


def _print_moved(form: Format | None, topic: str, name: str, to: str, moved: int) -> None:
    if chosen(form) != "table":
        print_json({"topic": topic, "queue": name, "to": to, "moved": moved})
        return
    click.echo(
        f"moved {cell('events', moved)} from queue {cell('queue', name)} to {cell('topic', to)}"
    )


@queue.command(
    "rm",
    epilog="""
    mainstem queue rm orders emails --yes
    mainstem queue rm celery@host
    """,
)
@queue_argument
@yes_option
@at_option
def remove(names: tuple[str, ...], vhost: str | None, yes: bool, at: str | None) -> None:
    """Delete a queue; its events stay in the topic, unless it is an AMQP queue.

    A queue that AMQP clients have declared is deleted with its bindings and its own topic; its
    consumers are cancelled.
    """
    with open_target(at) as stem:
        topic, name = find_queue(stem, names, vhost)
        info = stem.queues.show(topic, name)
        left = info.ready + info.out
        confirm(f"forget queue {name} of {topic} with {left:,} events not settled", yes=yes)
        stem.queues.delete(topic, name)


def _headers(event: Event, form: Format | None) -> dict[str, object]:
    """Return the column of headers for a table; empty in other formats, whose envelope has them."""
    if chosen(form) != "table":
        return {}
    shown = ((name, None if value is None else _short(value)) for name, value in event.headers)
    return {"headers": " ".join(f"{name}={value or ''}" for name, value in shown)}


def event_row(event: Event, form: Format | None) -> dict[str, object]:
    """Return an event as a row: for JSON kcat's complete envelope, for a table a short form."""
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


def _limits(info: QueueInfo) -> str:
    """Return a queue's limits on waiting events as text; empty if there are none."""
    ttl = f", time to live {info.ttl_s:g} s" if info.ttl_s else ""
    length = f", at most {info.max_length:,} events" if info.max_length else ""
    return ttl + length + (f", at most {info.max_bytes:,} bytes" if info.max_bytes else "")


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

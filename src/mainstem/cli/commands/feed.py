"""``mainstem feed``: publish topics as multicast feeds, and receive them."""

from collections.abc import Iterator
from functools import partial
from itertools import islice

import click
import msgspec

from mainstem.cli.admin_port import ServerAdmin
from mainstem.cli.arguments.options import number_or
from mainstem.cli.connection import at_option
from mainstem.cli.help import Group
from mainstem.cli.output.tables import Format, cell, chosen, format_option, print_json, print_rows
from mainstem.client.feeds.multicast import MulticastFeed, replayed
from mainstem.client.feeds.reassembly import Message
from mainstem.heads.moldudp64.operations import (
    END,
    LIST,
    REMOVE,
    SEQUENCE,
    SERVE,
    FeedInfo,
    NameFeed,
    SequenceInfo,
    ServeFeed,
)

_Admin = partial(ServerAdmin, needs="mainstem serve --moldudp64 127.0.0.1:30002")
_requests_option = click.option(
    "--requests", metavar="HOST:PORT", help="Where requests for lost messages are sent."
)


@click.group(
    cls=Group,
    epilog="""
    mainstem feed serve trades --session TRADES --group 239.255.77.1:30001
    mainstem feed listen 239.255.77.1:30001 --requests 127.0.0.1:30002
    mainstem feed replay TRADES 100 200 --requests 127.0.0.1:30002
    """,
)
def feed() -> None:
    """Publish topics as multicast feeds (MoldUDP64), and receive them.

    A server that runs with --moldudp64 publishes the feeds; docs/guides/multicast.md has the rules.
    """


@feed.command("ls", epilog="mainstem feed ls")
@format_option
@at_option
def list_feeds(form: Format | None, at: str | None) -> None:
    """List the feeds of a server."""
    found = _Admin(at).read(LIST, {}, list[FeedInfo])
    print_rows([msgspec.to_builtins(each) for each in found], form, empty="no feeds")


@feed.command(
    epilog="""
    mainstem feed serve trades --session TRADES --group 239.255.77.1:30001
    mainstem feed serve trades --session T2 --partition 1 --group 239.1.1.1:5 --group 239.1.1.2:5
    """
)
@click.argument("topic")
@click.option(
    "--session", metavar="NAME", required=True, help="Its name: 1 to 10 letters or digits."
)
@click.option(
    "--group",
    "groups",
    metavar="HOST:PORT",
    required=True,
    multiple=True,
    help="Multicast group; a second one gets the same packets.",
)
@click.option("--partition", type=click.IntRange(0), default=0, show_default=True)
@format_option
@at_option
def serve(
    topic: str,
    session: str,
    groups: tuple[str, ...],
    partition: int,
    form: Format | None,
    at: str | None,
) -> None:
    """Publish a partition of a topic as a feed, from now on, also after restarts of the server."""
    if len(groups) > 2:
        raise click.UsageError("--group: give one group, or two")
    second = groups[1] if len(groups) > 1 else ""
    asked = ServeFeed(session, topic, groups[0], partition, second)
    _show(_Admin(at).change(SERVE, asked, FeedInfo), form)


@feed.command(epilog="mainstem feed end TRADES")
@click.argument("session")
@format_option
@at_option
def end(session: str, form: Format | None, at: str | None) -> None:
    """End a session after the events that the topic has now; requests are still answered."""
    _show(_Admin(at).change(END, NameFeed(session), FeedInfo), form)


@feed.command("rm", epilog="mainstem feed rm TRADES")
@click.argument("session")
@at_option
def remove(session: str, at: str | None) -> None:
    """Stop publishing a feed and delete its session; the topic stays."""
    _Admin(at).change(REMOVE, NameFeed(session), object)
    click.echo(f"removed {cell('session', session)}", err=True)


@feed.command(epilog="mainstem feed sequence TRADES 1200")
@click.argument("session")
@click.argument("offset", type=click.IntRange(0))
@format_option
@at_option
def sequence(session: str, offset: int, form: Format | None, at: str | None) -> None:
    """Show the number of the first message at or after an offset of the topic.

    If you have a snapshot of all events before that offset, listen --from that number to miss
    nothing.
    """
    asked = {"session": session, "offset": str(offset)}
    _show(_Admin(at).read(SEQUENCE, asked, SequenceInfo), form)


@feed.command(
    epilog="""
    mainstem feed listen 239.255.77.1:30001 --requests 127.0.0.1:30002
    mainstem feed listen 239.1.1.1:5 239.1.1.2:5 --requests 127.0.0.1:30002 --from now
    """
)
@click.argument("groups", metavar="HOST:PORT...", nargs=-1, required=True)
@_requests_option
@click.option("--session", metavar="NAME", default="", help="Only this session.")
@click.option(
    "--from",
    "start",
    metavar="NUMBER|now",
    default="1",
    show_default=True,
    help="First message; now for the next one that is sent.",
)
@click.option("--count", "-n", type=click.IntRange(1), help="End after this many messages.")
@click.option("--interface", metavar="IP", default="127.0.0.1", show_default=True)
@format_option
def listen(
    groups: tuple[str, ...],
    requests: str | None,
    session: str,
    start: str,
    count: int | None,
    interface: str,
    form: Format | None,
) -> None:
    """Print a feed's messages in order, each once; request lost ones from the server.

    At the end of the session, or after --count messages, a report of what was requested is printed
    to stderr.
    """
    first = number_or("now", start, f"--from {start}: give a sequence number from 1 on, or now")
    received = MulticastFeed(
        groups, requests=requests, session=session, start=first, interface=interface
    )
    with received:
        try:
            _print(islice(received, count), form)
        finally:
            click.echo(msgspec.json.encode(received.report()).decode(), err=True)


@feed.command(epilog="mainstem feed replay TRADES 100 200 --requests 127.0.0.1:30002")
@click.argument("session")
@click.argument("first", type=click.IntRange(1))
@click.argument("last", type=click.IntRange(1))
@click.option(
    "--requests", metavar="HOST:PORT", required=True, help="The server's address for requests."
)
@format_option
def replay(session: str, first: int, last: int, requests: str, form: Format | None) -> None:
    """Print messages of a session again, which the server sends from the log by unicast."""
    _print(replayed(requests, session, first, last), form)


def _print(messages: Iterator[Message], form: Format | None) -> None:
    as_json = chosen(form) != "table"
    for message in messages:
        text = message.data.decode("utf-8", "backslashreplace")
        if as_json:
            print_json({"sequence": message.sequence, "data": text})
        else:
            click.echo(f"{message.sequence}\t{cell('data', text)}")


def _show(info: FeedInfo | SequenceInfo, form: Format | None) -> None:
    print_rows([msgspec.to_builtins(info)], form)

"""``mainstem sub``: prints events of topics to stdout."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from datetime import datetime

import click

from mainstem.cli.arguments.options import delimiter_option, number_option
from mainstem.cli.arguments.positions import FromEnd, Until, Where, in_topic, several_of
from mainstem.cli.arguments.units import PARTITION, SECONDS
from mainstem.cli.connection import at_option, open_target
from mainstem.cli.events.event_format import (
    Render,
    as_json,
    by_delimiter,
    by_template,
    delimiter_of,
)
from mainstem.cli.events.event_processes import SPARE_S, EventProcesses
from mainstem.cli.events.exec_process import exec_process
from mainstem.cli.events.printing import Printing
from mainstem.cli.exit_codes import NotFound, TimedOut, say
from mainstem.cli.help import Command
from mainstem.cli.output.terminal_escapes import shown_bytes, shown_json
from mainstem.client.start_positions import Start
from mainstem.client.stem import Queue, Stem
from mainstem.core.event import Event
from mainstem.core.names import is_pattern

WORDS = "beginning|end|stored|N|-N|@TIME|e@TIME"


@click.command(
    cls=Command,
    epilog="""
    mainstem sub orders                             print values and wait for more
    mainstem sub orders -e                          stop at the end
    mainstem sub orders -o -10 -e                   the last 10 of each partition
    mainstem sub orders -o @-1h -f '%T %k %s\\n'     since an hour ago, with time and key
    mainstem sub orders -g billing                  read as a member of a group, from its cursor
    mainstem sub 'orders.*' -J | jq .payload        topics by pattern, as JSON
    mainstem sub orders -g bill --exec ./bill.py    a process that reads them from its stdin
    mainstem sub orders --queue mails --exec-each ./mail.sh   a process for each, acked on exit 0
    """,
)
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC...")
@click.option(
    "-p",
    "--partition",
    "partitions",
    type=PARTITION,
    multiple=True,
    help="Only this partition; may be repeated.",
)
@click.option(
    "-o",
    "--offset",
    "wheres",
    multiple=True,
    metavar=WORDS,
    callback=several_of(WORDS),
    help="Where to begin; e@TIME is where to stop.  [default: beginning, or where the "
    "group stopped]",
)
@click.option("-c", "--count", type=click.IntRange(1), help="Stop after this many events.")
@click.option("-e", "--exit", "end", is_flag=True, help="Stop at the end instead of waiting.")
@click.option("-g", "-G", "--group", help="Read as a member of this group; its cursor is stored.")
@click.option(
    "-f",
    "--template",
    metavar="FORMAT",
    help="%s value, %k key, %h headers, %t topic, %p partition, %o offset, %T time (ms), "
    "%S and %K length of value and key (-1: absent), %R length of value in 4 bytes, %%; "
    "\\n \\t \\x1f.",
)
@click.option(
    "-J",
    "--json",
    "envelopes",
    is_flag=True,
    help="Print each event as a JSON object in a line, with key, headers, position and time. "
    "What is not UTF-8 is base64, as key_encoding, payload_encoding or headers_encoding "
    "says.",
)
@click.option("-K", "--key-delimiter", metavar="DELIM", help="Print key and DELIM before values.")
@delimiter_option("Printed after each event.")
@click.option("-Z", "--null", "nulls", is_flag=True, help="Print NULL for an absent key or value.")
@click.option(
    "--timeout",
    type=SECONDS,
    metavar="SECONDS",
    help="Stop when no event comes for this long; exit code 4 if nothing came at all, or "
    "fewer than --count.",
)
@click.option(
    "--raw",
    is_flag=True,
    help="Do not escape control characters of events on a terminal; in a pipe they are never "
    "escaped.",
)
@click.option(
    "--exec",
    "exec_command",
    metavar="CMD",
    help="Print to the stdin of this shell command instead of stdout, and end when it ends.",
)
@click.option(
    "--exec-each",
    "each_command",
    metavar="CMD",
    help="Run this shell command for each event of --queue: the value is its stdin, EVENT_KEY, "
    "EVENT_TOPIC, EVENT_PARTITION, EVENT_OFFSET, EVENT_TIMESTAMP_MS, EVENT_DELIVERY and "
    "EVENT_HEADER_… its environment; exit code 0 acks the event, others nack it.",
)
@click.option(
    "--queue", metavar="NAME", help="With --exec-each: the queue, created if it does not exist."
)
@number_option(
    "--parallel", default=1, meaning="With --exec-each: how many processes at a time.", most=100
)
@click.option(
    "--time",
    "seconds",
    type=click.FloatRange(1, 86_400),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="With --exec-each: how long a process may take before it is killed, and its event nacked.",
)
@click.option("-q", "--quiet", is_flag=True, help="Print only errors.")
@at_option
def sub(
    *,
    topics: tuple[str, ...],
    partitions: tuple[int, ...],
    wheres: tuple[Where, ...],
    count: int | None,
    end: bool,
    group: str | None,
    template: str | None,
    envelopes: bool,
    key_delimiter: str | None,
    delimiter: str,
    nulls: bool,
    timeout: float | None,
    raw: bool,
    exec_command: str | None,
    each_command: str | None,
    queue: str | None,
    parallel: int,
    seconds: float,
    quiet: bool,
    at: str | None,
) -> None:
    """Print the values of events, one per line, and wait for more.

    Topics are names, or patterns in which * stands for anything. Without a group, nothing is
    stored and everything from the beginning is printed.
    """
    render = _render(
        template=template,
        envelopes=envelopes,
        key_delimiter=key_delimiter,
        delimiter=delimiter,
        nulls=nulls,
        raw=raw or bool(exec_command or each_command),
    )
    begin, until = _span(wheres, group)
    if each_command is not None:
        if group or partitions or until or exec_command:
            raise click.UsageError("--exec-each goes without -g, -p, --exec and -o e@TIME")
        if not (template or key_delimiter or envelopes):
            render = _value
        with _queue(at, topics, queue, begin, seconds, end=end) as deliveries:
            processes = EventProcesses(
                deliveries, each_command, render, parallel=parallel, seconds=seconds, quiet=quiet
            )
            processes.run(count=count, timeout=timeout, end=end)
        ran = processes.acked + processes.failed
        if processes.timed_out and (not ran or count):
            raise TimedOut(f"{ran} processes ran, and then no event came for {timeout:g} s")
        return
    if queue is not None:
        raise click.UsageError("--queue is for --exec-each; -g reads as a group")
    if group and partitions:
        raise click.UsageError("a group assigns the partitions itself: -g or -p, not both")
    with (
        open_target(at, reads=end and group is None, stays=not end) as stem,
        _told_what_is_missing(stem, topics, waits=not end, quiet=quiet),
        stem.subscribe(
            *topics,
            group=group,
            start=_start(stem, begin, topics),
            follow=not end,
            commit="manual",
            partitions=partitions or None,
        ) as subscription,
        nullcontext() if exec_command is None else exec_process(exec_command) as process,
    ):
        printing = Printing(
            subscription,
            render,
            process=process,
            until=until,
            commits=group is not None,
            quiet=quiet,
        )
        printing.run(count=count, timeout=timeout, end=end)
        if subscription.missed and not quiet:
            say(f"{subscription.missed:,} events had been deleted before they could be read")
    if printing.timed_out and (not printing.printed or count):
        raise TimedOut(f"{printing.printed} events came, and then none for {timeout:g} s")


def _value(events: Sequence[Event]) -> bytes:
    return b"".join(each.value or b"" for each in events)


@contextmanager
def _queue(
    at: str | None,
    topics: tuple[str, ...],
    name: str | None,
    begin: Where,
    seconds: float,
    *,
    end: bool,
) -> Iterator[Queue]:
    """Open the queue whose events ``--exec-each`` gets."""
    if name is None:
        raise click.UsageError("--exec-each needs --queue NAME, which keeps what is acked")
    if len(topics) > 1 or is_pattern(topics[0]):
        raise click.UsageError("--exec-each works on the queue of one topic; name just one")
    if isinstance(begin, FromEnd) or (isinstance(begin, int) and begin):
        raise click.UsageError("a queue begins at the beginning, the end or a time (-o @TIME)")
    with (
        open_target(at, stays=not end) as stem,
        stem.queue(
            topics[0],
            name=name,
            start=_start(stem, begin, topics),
            lock_s=seconds + SPARE_S,
            follow=not end,
        ) as deliveries,
    ):
        yield deliveries


def _render(
    *,
    template: str | None,
    envelopes: bool,
    key_delimiter: str | None,
    delimiter: str,
    nulls: bool,
    raw: bool,
) -> Render:
    if sum((template is not None, envelopes, key_delimiter is not None)) > 1:
        raise click.UsageError("give one of -f, -J and -K")
    plain = raw or not sys.stdout.isatty()
    null = b"NULL" if nulls else b""
    if envelopes:
        return as_json if plain else lambda events: shown_json(as_json(events))
    clean = None if plain else shown_bytes
    if template is None and key_delimiter is None:
        return by_delimiter(delimiter_of(delimiter, "-D"), null=null, clean=clean)
    if template is None:
        literal = [text.replace("%", "%%") for text in (key_delimiter or "", delimiter)]
        template = f"%k{literal[0]}%s{literal[1]}"
    try:
        return by_template(template, null=null, clean=clean)
    except ValueError as error:
        option = "-K" if key_delimiter is not None else "-f"
        raise click.UsageError(f"{option}: {error}") from None


@contextmanager
def _told_what_is_missing(
    stem: Stem, topics: tuple[str, ...], *, waits: bool, quiet: bool
) -> Iterator[None]:
    """Print which patterns match no topic; without ``waits``, raise NotFound if none matches."""
    missing = [each for each in topics if is_pattern(each) and not stem.topics.list(each)]
    if missing and not waits and len(missing) == len(topics):
        raise NotFound(f"no topic matches {' '.join(missing)} (mainstem topic ls lists them)")
    if missing and not quiet:
        what = "waiting for one (Ctrl-C ends)" if waits else "mainstem topic ls lists them"
        say(f"no topic matches {' '.join(missing)} yet; {what}")
    yield


def _span(wheres: tuple[Where, ...], group: str | None) -> tuple[Where, datetime | None]:
    begins = [where for where in wheres if not isinstance(where, Until)]
    ends = [where.time for where in wheres if isinstance(where, Until)]
    if len(begins) > 1 or len(ends) > 1:
        raise click.UsageError("give one -o to begin, and at most one -o e@TIME to stop")
    if ends and group:
        raise click.UsageError("-o e@TIME goes without -g: the group would lose what comes after")
    if begins == ["stored"] and not group:
        raise click.UsageError("-o stored needs -g: only a group has a stored cursor")
    return (begins[0] if begins else "earliest"), (ends[0] if ends else None)


def _start(stem: Stem, where: Where, topics: tuple[str, ...]) -> Start:
    if not isinstance(where, FromEnd):
        assert not isinstance(where, Until)
        return "earliest" if where == "stored" else where
    if len(topics) > 1 or is_pattern(topics[0]):
        raise click.UsageError("-o -N counts from the end of one topic; name just one")
    return in_topic(where, stem.topics.show(topics[0]))

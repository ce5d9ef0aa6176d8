"""``mainstem sub``: prints events of topics to stdout."""

import os
import select
import stat
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from threading import Thread

import click

from mainstem.cli.connection import at_option, open_target
from mainstem.cli.event_format import Render, as_json, by_delimiter, by_template, delimiter_of
from mainstem.cli.exit_codes import NotFound, TimedOut, say
from mainstem.cli.help import Command
from mainstem.cli.positions import FromEnd, Until, Where, in_topic, several_of
from mainstem.cli.terminal_escapes import shown_bytes, shown_json
from mainstem.cli.units import PARTITION, SECONDS
from mainstem.client.start_positions import Start
from mainstem.client.stem import Stem, Subscription
from mainstem.core.errors import Closed
from mainstem.core.event import Event
from mainstem.core.names import is_pattern

AT_ONCE = 2000
COMMIT_SECONDS = 1.0
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
    help="Print JSON envelopes with everything, one per line; what is not UTF-8 is "
    "base64, and key_encoding, payload_encoding or headers_encoding says so.",
)
@click.option("-K", "--key-delimiter", metavar="DELIM", help="Print key and DELIM before values.")
@click.option(
    "-D",
    "--delimiter",
    default="\\n",
    metavar="DELIM",
    show_default=True,
    help="Printed after each event.",
)
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
    help="Do not escape control characters of events on a terminal; in a pipe they never are.",
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
        raw=raw,
    )
    if group and partitions:
        raise click.UsageError("a group assigns the partitions itself: -g or -p, not both")
    begin, until = _span(wheres, group)
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
    ):
        printing = Printing(
            subscription, render, until=until, commits=group is not None, quiet=quiet
        )
        printed = printing.run(count=count, timeout=timeout, end=end)
        missed = subscription.missed
    if missed and not quiet:
        say(f"{missed:,} events had been deleted before they could be read")
    if printing.timed_out and (not printed or count):
        raise TimedOut(f"{printed} events came, and then none for {timeout:g} s")


class Printing:
    """One run of ``sub``: prints events, then commits their offsets.

    A group's offsets are committed after the events before them have been written: at least once a
    second while events arrive, and before every wait. So an interrupt never loses an event, and
    repeats none while the command waits.
    """

    def __init__(
        self,
        subscription: Subscription,
        render: Render,
        *,
        until: datetime | None = None,
        commits: bool = False,
        quiet: bool = False,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.timed_out = False
        """Whether printing ended because no event arrived within the timeout."""
        self._subscription = subscription
        self._render = render
        self._until_ms = None if until is None else round(until.timestamp() * 1000)
        self._passed: set[tuple[str, int]] = set()
        self._commits = commits
        self._committed_at = now()
        self._unstored = False
        self._quiet = quiet or not sys.stderr.isatty()
        self._now = now
        self._out = sys.stdout.buffer
        self._reader_left = False

    def run(self, *, count: int | None, timeout: float | None, end: bool) -> int:
        """Print until the end, the count or the timeout is reached, or stdout's reader is gone.

        Return the number of printed events.
        """
        printed = 0
        if not end:
            self._watch_the_reader()
        while count is None or printed < count:
            limit = AT_ONCE if count is None else min(AT_ONCE, count - printed)
            events = self._next(limit, timeout, end=end)
            if not events:
                break
            kept = events if self._until_ms is None else self._before(events, self._until_ms)
            self._out.write(self._render(kept))
            printed += len(kept)
            self._unstored = True
            if self._now() - self._committed_at >= COMMIT_SECONDS:
                self._store()
            if self._passed and self._passed.issuperset(self._subscription.assignment):
                break
        self._store()
        return printed

    def _next(self, limit: int, timeout: float | None, *, end: bool) -> Sequence[Event]:
        try:
            events = self._subscription.poll_many(limit, None if end else 0)
            if events or end:
                return events
            self._store()
            if not self._quiet:
                self._quiet = True
                say("at the end; waiting for more (Ctrl-C ends, -e would have ended here)")
            events = self._subscription.poll_many(limit, timeout)
        except Closed:
            events = []
        if self._reader_left:
            raise BrokenPipeError
        self.timed_out = not events and timeout is not None
        return events

    def _store(self) -> None:
        self._out.flush()
        if self._commits and self._unstored:
            self._subscription.commit()
        self._unstored = False
        self._committed_at = self._now()

    def _before(self, events: Sequence[Event], until_ms: int) -> list[Event]:
        kept = []
        for event in events:
            place = (event.topic, event.partition)
            if event.timestamp_ms >= until_ms:
                self._passed.add(place)
            if place not in self._passed:
                kept.append(event)
        return kept

    def _watch_the_reader(self) -> None:
        # While it waits at the tail, nothing is written, so the end of `| head -1` would go
        # unnoticed.
        try:
            descriptor = self._out.fileno()
        except OSError:
            return
        if not stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            return

        def watch() -> None:
            gone = select.poll()
            gone.register(descriptor, 0)
            gone.poll()
            self._reader_left = True
            self._subscription.close()

        Thread(target=watch, name="mainstem-sub-reader", daemon=True).start()


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
    """Report patterns that match no topic; with ``-e``, raise if no pattern matches."""
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

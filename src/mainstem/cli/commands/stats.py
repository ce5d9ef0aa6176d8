"""``mainstem stats``: shows the metrics that StatsD clients send."""

import shutil
import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import click

from mainstem.cli.arguments.units import parse_ms
from mainstem.cli.connection import at_option, open_target
from mainstem.cli.exit_codes import NotFound, say
from mainstem.cli.help import Command
from mainstem.cli.output.metric_trends import Trends, row_of
from mainstem.cli.output.tables import Format, chosen, format_option, print_json, print_rows, table

if TYPE_CHECKING:
    from mainstem.client.stem import Stem

_HOME, _CLEAR_LINE, _CLEAR_BELOW = "\x1b[H", "\x1b[K", "\x1b[J"
_EMPTY = "no metrics of this name came in that time"


def _duration(_context: click.Context, _parameter: click.Parameter, text: str) -> timedelta:
    try:
        return timedelta(milliseconds=parse_ms(text))
    except (ValueError, OverflowError) as error:
        raise click.BadParameter(str(error)) from None


@click.command(
    cls=Command,
    epilog="""
    mainstem stats                       every metric of the last five minutes
    mainstem stats 'shop.*' --follow     live
    mainstem stats --since 1h --format jsonl | jq 'select(.type == "timer")'
    """,
)
@click.argument("patterns", metavar="[METRIC]...", nargs=-1)
@click.option(
    "--since",
    callback=_duration,
    default="5m",
    show_default=True,
    metavar="TIME",
    help="How far back, such as 30s or 2h.",
)
@click.option(
    "-f", "--follow", is_flag=True, help="Do not end: show each interval when it is over."
)
@click.option(
    "--topic", default="statsd.aggregates", show_default=True, help="Topic of the aggregates."
)
@format_option
@at_option
def stats(
    patterns: tuple[str, ...],
    since: timedelta,
    topic: str,
    form: Format | None,
    at: str | None,
    *,
    follow: bool,
) -> None:
    """Show the metrics that StatsD clients send, and their trends.

    METRIC is a name, or a pattern such as 'shop.*'. The trend covers up to the last 30 intervals.
    It shows the rate of a counter, the value of a gauge, the mean of a timer, and the number of
    members of a set. The server needs --statsd; docs/guides/statsd.md describes what it stores.
    """
    if follow and form == "json":
        raise click.UsageError("--follow goes with --format table or jsonl")
    trends = Trends(patterns)
    with open_target(at, reads=not follow, stays=follow) as stem:
        if not stem.topics.list(topic):
            raise NotFound(
                f"there is no topic {topic}; start a server with --statsd, or name another topic "
                "with --topic"
            )
        start = datetime.now(UTC) - since
        if follow:
            _follow(stem, topic, start, trends, chosen(form))
            return
        with stem.subscribe(topic, start=start, follow=False) as events:
            for event in events:
                trends.add(event.value)
    rows = trends.rows() if chosen(form) == "table" else trends.records()
    print_rows(list(rows), form, empty=_EMPTY)
    for note in _notes(trends):
        say(note)


def _follow(stem: "Stem", topic: str, start: datetime, trends: Trends, form: Format) -> None:
    """Print the metrics of every interval when it ends, until the command is stopped."""
    with stem.subscribe(topic, start=start) as events:
        while True:
            for event in events.poll_many():
                found = trends.add(event.value)
                if found is not None and form != "table":
                    print_json(row_of(found))
            if form == "table":
                _redraw(trends)
            sys.stdout.flush()


def _redraw(trends: Trends) -> None:
    size = shutil.get_terminal_size()
    rows = list(trends.rows())
    lines = table(rows).split("\n") if rows else [_EMPTY]
    notes = _notes(trends)
    room = max(2, size.lines - len(notes) - 1)
    if len(lines) > room:
        notes = [f"{len(lines) - room + 1} more metrics; give a pattern", *notes]
        lines = lines[: room - 1]
    text = "".join(f"{line[: size.columns]}{_CLEAR_LINE}\n" for line in [*lines, *notes])
    click.echo(f"{_HOME}{text}{_CLEAR_BELOW}", nl=False)


def _notes(trends: Trends) -> list[str]:
    notes = [trends.losses()] if trends.losses() else []
    if trends.unreadable:
        notes.append(f"{trends.unreadable:,} events of the topic are not aggregates of StatsD")
    return notes

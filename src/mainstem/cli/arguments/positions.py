"""Start positions on the command line: those of kcat's ``-o``, and some more."""

from collections.abc import Callable
from datetime import datetime
from typing import Literal, NamedTuple

import click

from mainstem.cli.arguments.units import parse_time, whole
from mainstem.client.info import TopicInfo
from mainstem.client.start_positions import Start

WORDS = "beginning|end|N|-N|@TIME"
MEANING = (
    "N is an offset, -N the last N of each partition, "
    "TIME is ms since 1970, a date-time such as 2026-11-15T08:00:00Z, or -1h (ago)"
)


class FromEnd(NamedTuple):
    """A position: ``events`` offsets before the end of each partition."""

    events: int


class Until(NamedTuple):
    """A position: the time at which to stop reading (kcat's ``e@``)."""

    time: datetime


Where = Start | FromEnd | Until | Literal["stored"]


def parse(text: str) -> Where:
    """Parse beginning, end, stored, N, -N, @TIME (kcat: s@TIME), or e@TIME into a position."""
    if text in ("beginning", "earliest"):
        return "earliest"
    if text in ("end", "latest"):
        return "latest"
    if text == "stored":
        return "stored"
    if text.startswith("e@"):
        return Until(parse_time(text[2:]))
    if text.startswith(("@", "s@")):
        return parse_time(text.partition("@")[2])
    if text.isascii() and text.removeprefix("-").isdecimal():
        return FromEnd(whole(text[1:])) if text.startswith("-") else whole(text)
    raise ValueError(f"{text!r:.100} is not a position; write {WORDS}, where {MEANING}")


def one_of(words: str) -> Callable[[click.Context, click.Parameter, str], Where]:
    """Return a click callback that parses a position; ``words`` are those it accepts."""

    def read(ctx: click.Context, param: click.Parameter, text: str) -> Where:
        try:
            where = parse(text)
        except (ValueError, OverflowError) as error:
            raise click.BadParameter(str(error), ctx, param) from None
        word = where if isinstance(where, str) else "e@TIME" if isinstance(where, Until) else ""
        if word in ("stored", "e@TIME") and word not in words:
            raise click.BadParameter(f"{text!r} means nothing here; write {words}", ctx, param)
        return where

    return read


def several_of(
    words: str,
) -> Callable[[click.Context, click.Parameter, tuple[str, ...]], tuple[Where, ...]]:
    """Return a click callback for an option that may be repeated: parses each position."""
    read = one_of(words)
    return lambda ctx, param, texts: tuple(read(ctx, param, text) for text in texts)


def in_topic(where: Where, topic: TopicInfo) -> Start:
    """Convert a position in a topic to a start that the Stem interface accepts."""
    if isinstance(where, FromEnd):
        return {
            each.partition: max(each.start, each.tail - where.events) for each in topic.partitions
        }
    assert not isinstance(where, Until)
    return "earliest" if where == "stored" else where

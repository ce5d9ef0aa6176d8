"""``mainstem pub``: publishes events from arguments, files or a pipe."""

import os
import select
import sys
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path

import click

from mainstem.cli.connection import at_option, open_target
from mainstem.cli.event_format import delimiter_of, from_json
from mainstem.cli.exit_codes import say
from mainstem.cli.help import Command
from mainstem.cli.progress import Progress
from mainstem.cli.stream_splitter import StreamSplitter
from mainstem.cli.units import PARTITION
from mainstem.client.info import TopicInfo
from mainstem.client.stem import Stem
from mainstem.core.errors import EventTooLarge, InvalidEvent, MainstemError, UnknownTopic
from mainstem.core.event import Event, Headers

Shaped = list[bytes | Event | None]
Shape = Callable[[list[bytes]], Shaped]
"""Turns pieces of input into values or events to publish."""


@click.command(
    cls=Command,
    epilog="""
    mainstem pub orders '{"id": 1}' -k customer-7      one event with a key
    seq 1000000 | mainstem pub numbers                  one event per line
    mainstem pub orders -K: < keyed.txt                 lines such as key:value
    mainstem pub photos --file a.jpg --file b.jpg       a file is an event
    mainstem sub orders -e -J | mainstem pub copy -J    copy with keys, headers, times
    """,
)
@click.argument("topic")
@click.argument("values", nargs=-1, metavar="[VALUE]...")
@click.option(
    "-l",
    "--lines",
    "line_files",
    multiple=True,
    type=click.Path(exists=True),
    metavar="FILE",
    help="Publish the lines of a file.",
)
@click.option(
    "--file",
    "files",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="Publish a whole file as one event.",
)
@click.option("-k", "--key", help="The key of every event.")
@click.option(
    "-K",
    "--key-delimiter",
    metavar="DELIM",
    help="Separates the key from the value in each line; \\t and \\x1f are understood.",
)
@click.option(
    "-D",
    "--delimiter",
    default="\\n",
    metavar="DELIM",
    show_default=True,
    help="Separates events in the input.",
)
@click.option(
    "-H",
    "--header",
    "headers",
    multiple=True,
    metavar="NAME=VALUE",
    help="A header of every event; may be repeated.",
)
@click.option(
    "-p", "--partition", type=PARTITION, help="The partition.  [default: by key, or in turn]"
)
@click.option(
    "-J",
    "--json",
    "envelopes",
    is_flag=True,
    help="Lines are JSON envelopes as printed by sub -J (their topic, partition and "
    "offset are not used).",
)
@click.option(
    "-Z",
    "--null",
    "nulls",
    is_flag=True,
    help="Publish an empty value as null: a tombstone in a compacted topic.",
)
@click.option("-c", "--count", type=click.IntRange(1), help="Stop after this many events.")
@click.option(
    "--create/--no-create",
    default=True,
    help="Create the topic if it does not exist, with default settings.  [default: create]",
)
@click.option("-q", "--quiet", is_flag=True, help="Print only errors.")
@at_option
def pub(
    *,
    topic: str,
    values: tuple[str, ...],
    line_files: tuple[str, ...],
    files: tuple[str, ...],
    key: str | None,
    key_delimiter: str | None,
    delimiter: str,
    headers: tuple[str, ...],
    partition: int | None,
    envelopes: bool,
    nulls: bool,
    count: int | None,
    create: bool,
    quiet: bool,
    at: str | None,
) -> None:
    """Publish events: from arguments, files or a pipe.

    Each VALUE is an event. Without VALUE, --lines and --file, events are read from stdin, one per
    line. The command returns when all events are as durable as the topic's setting says.
    """
    if envelopes and (key is not None or key_delimiter is not None or headers or nulls):
        raise click.UsageError("-J takes key, headers and value from the envelope: no -k -K -H -Z")
    if key is not None and key_delimiter is not None:
        raise click.UsageError("give -k (one key for all) or -K (a key in each line), not both")
    shape = _shape(key, key_delimiter, headers, nulls, envelopes)
    ends = delimiter_of(delimiter, "-D")
    from_stdin = values == ("-",) or not (values or files or line_files)
    if from_stdin and not (files or line_files):
        _await_input()
    with open_target(at, create=create) as stem:
        info = _topic(stem, topic, create, quiet)
        publishing = Publishing(stem, info, partition, count, Progress("published", quiet=quiet))
        try:
            if values and values != ("-",):
                publishing.pieces(shape, [os.fsencode(value) for value in values])
            for file in files:
                publishing.pieces(shape, [Path(file).read_bytes()])
            for source in line_files:
                with Path(source).open("rb") as lines:
                    publishing.stream(shape, lines.fileno(), ends)
            if from_stdin:
                publishing.stream(shape, _stdin(quiet), ends)
        except MainstemError:
            publishing.tell_before_error()
            raise
        finally:
            publishing.done()


class Publishing:
    """One run of ``pub``: publishes to one topic, and stops at ``--count``."""

    def __init__(
        self,
        stem: Stem,
        topic: TopicInfo,
        partition: int | None,
        count: int | None,
        progress: Progress,
    ) -> None:
        self._stem, self._topic, self._partition = stem, topic, partition
        self._left = count
        self._progress = progress
        self._published = 0

    def pieces(self, shape: Shape, pieces: list[bytes]) -> None:
        """Publish pieces of input that are already in memory."""
        self._publish(shape, iter([pieces]))

    def stream(self, shape: Shape, descriptor: int, delimiter: bytes) -> None:
        """Publish the input from a file descriptor: all that is available at a time."""
        limit = self._topic.settings.max_batch_bytes
        splitter = StreamSplitter(descriptor, delimiter, limit)
        while not splitter.ended and self._left != 0:
            self._publish(shape, splitter.burst())
        if splitter.too_large:
            raise EventTooLarge(self._topic.name, splitter.too_large, limit)

    def tell_before_error(self) -> None:
        """Report what was published before the command failed; a failed batch is not counted."""
        if self._published:
            say(f"at least {self._published:,} events were published before this error:")

    def done(self) -> None:
        """Report how many events were published, also after an error."""
        self._progress.count = self._published
        durability = self._topic.settings.durability
        self._progress.done(f" to {self._topic.name} ({durability}, 1 copy)")

    def _publish(self, shape: Shape, lists: Iterator[list[bytes]]) -> None:
        shaped = (shape(pieces) for pieces in self._counted(lists))
        self._published += self._stem.publish_many(
            self._topic.name, chain.from_iterable(shaped), partition=self._partition
        )

    def _counted(self, lists: Iterator[list[bytes]]) -> Iterator[list[bytes]]:
        for pieces in lists:
            allowed = pieces if self._left is None else pieces[: self._left]
            yield allowed
            self._progress.add(len(allowed))
            if self._left is not None:
                self._left -= len(allowed)
                if not self._left:
                    return


def _topic(stem: Stem, name: str, create: bool, quiet: bool) -> TopicInfo:
    try:
        return stem.topics.show(name)
    except UnknownTopic:
        if not create:
            raise
    info = stem.topics.create(name, exist_ok=True)
    if not quiet:
        count, durability = len(info.partitions), info.settings.durability
        partitions = "1 partition" if count == 1 else f"{count} partitions"
        say(f"created topic {name} ({partitions}, {durability}; mainstem topic alter changes it)")
    return info


def _await_input() -> None:
    """Wait for input before the data directory is locked: the program at the pipe may need it."""
    if not sys.stdin.isatty():
        select.select([sys.stdin], [], [])


def _stdin(quiet: bool) -> int:
    if sys.stdin.isatty() and not quiet:
        say("reading events from the terminal, one per line; Ctrl-D ends")
    return sys.stdin.fileno()


def _shape(
    key: str | None,
    key_delimiter: str | None,
    headers: tuple[str, ...],
    nulls: bool,
    envelopes: bool,
) -> Shape:
    if envelopes:
        return _enclosed
    if key is None and key_delimiter is None and not headers:
        return _nulled if nulls else list
    fixed: Headers = tuple(_header(text) for text in headers)
    every = None if key is None else os.fsencode(key)
    if key_delimiter is None:
        return lambda pieces: [
            Event(value=None if nulls and not piece else piece, key=every, headers=fixed)
            for piece in pieces
        ]
    ends = delimiter_of(key_delimiter, "-K")
    if not ends:
        raise click.UsageError("-K needs a delimiter of at least one character")

    def keyed(piece: bytes) -> Event:
        head, found, value = piece.partition(ends)
        if not found:
            head, value = b"", piece
        none = not found or (nulls and not head)
        return Event(
            value=None if nulls and not value else value,
            key=None if none else head,
            headers=fixed,
        )

    return lambda pieces: [keyed(piece) for piece in pieces]


def _nulled(pieces: list[bytes]) -> Shaped:
    return [piece or None for piece in pieces]


def _enclosed(pieces: list[bytes]) -> Shaped:
    events: Shaped = []
    for piece in pieces:
        if not piece.strip():
            continue
        try:
            events.append(from_json(piece))
        except ValueError as error:
            raise InvalidEvent(
                f"{piece[:80]!r} is not an envelope as printed by sub -J: {error}"
            ) from None
    return events


def _header(text: str) -> tuple[str, bytes | None]:
    name, equals, value = text.partition("=")
    if not name:
        raise click.UsageError(f"-H {text!r} lacks a name; write -H NAME=VALUE")
    return name, os.fsencode(value) if equals else None

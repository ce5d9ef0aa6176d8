"""``mainstem pub``: publishes events from arguments, files or a pipe."""

import os
import select
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import click

from mainstem.cli.arguments.options import delimiter_option
from mainstem.cli.arguments.units import PARTITION
from mainstem.cli.connection import at_option, open_target
from mainstem.cli.events.event_format import delimiter_of
from mainstem.cli.events.event_shapes import Shape, Shaped, shape_of
from mainstem.cli.events.line_listener import LineListener
from mainstem.cli.events.stream_splitter import StreamSplitter
from mainstem.cli.exit_codes import say
from mainstem.cli.help import Command
from mainstem.cli.output.progress import Progress
from mainstem.client.info import TopicInfo
from mainstem.client.stem import Stem
from mainstem.core import errors

_BATCH_BYTES = 4096
"""Space in a batch beside the value: its header, a key, headers."""


@click.command(
    cls=Command,
    epilog="""
    mainstem pub orders '{"id": 1}' -k customer-7      one event with a key
    seq 1000000 | mainstem pub numbers                  one event per line
    mainstem pub orders -K: < keyed.txt                 lines such as key:value
    mainstem pub photos --file a.jpg --file b.jpg       a file is an event
    mainstem pub logs --listen 127.0.0.1:9999           lines of many TCP senders
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
@click.option(
    "--listen",
    metavar="HOST:PORT",
    help="Publish the lines that any number of senders write to this TCP port; port 0 takes a "
    "free one.",
)
@click.option("-k", "--key", help="The key of every event.")
@click.option(
    "-K",
    "--key-delimiter",
    metavar="DELIM",
    help="Separates the key from the value in each line; \\t and \\x1f are understood.",
)
@delimiter_option("Separates events in the input.")
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
    help="Each line is an event as a JSON object, as printed by sub -J (topic, partition and "
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
    listen: str | None,
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
    line. The command returns when all events are as durable as the topic's durability setting says.
    """
    if listen and (values or files or line_files):
        raise click.UsageError("--listen goes without VALUE, --file and --lines")
    shape = shape_of(key, key_delimiter, headers, nulls, envelopes)
    ends = delimiter_of(delimiter, "-D")
    from_stdin = values == ("-",) or not (values or files or line_files or listen)
    place = None if listen is None else _place(listen)
    if from_stdin and not (files or line_files):
        _await_input()
    with open_target(at, create=create, stays=place is not None) as stem:
        info = _topic(stem, topic, create, quiet)
        publishing = Publishing(
            stem, info, partition, count, Progress("published", quiet=quiet or place is not None)
        )
        try:
            if place is not None:
                publishing.listen(shape, place, ends, quiet=quiet)
            else:
                publishing.given(shape, values, files)
                publishing.lines(shape, line_files, ends)
            if from_stdin:
                publishing.stream(shape, _stdin(quiet), ends)
        except errors.MainstemError:
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
        """Publish pieces of input; ``shape`` turns them into events."""
        self._publish(shape, iter([pieces]))

    def given(self, shape: Shape, values: tuple[str, ...], files: tuple[str, ...]) -> None:
        """Publish values from the command line, and files, each as one value."""
        if values and values != ("-",):
            self.pieces(shape, [os.fsencode(value) for value in values])
        for file in files:
            self.pieces(shape, [Path(file).read_bytes()])

    def lines(self, shape: Shape, files: tuple[str, ...], delimiter: bytes) -> None:
        """Publish the lines of files."""
        for source in files:
            with Path(source).open("rb") as lines:
                self.stream(shape, lines.fileno(), delimiter)

    def stream(self, shape: Shape, descriptor: int, delimiter: bytes) -> None:
        """Publish what can be read from a file descriptor, in batches of what is available."""
        limit = self._topic.settings.max_batch_bytes
        splitter = StreamSplitter(descriptor, delimiter, limit)
        while not splitter.ended and self._left != 0:
            self._publish(shape, splitter.burst())
        if splitter.too_large:
            raise errors.EventTooLarge(self._topic.name, splitter.too_large, limit)

    def listen(
        self, shape: Shape, place: tuple[str, int], delimiter: bytes, *, quiet: bool
    ) -> None:
        """Publish the lines that programs send over TCP, until a signal or ``--count``."""
        limit = self._topic.settings.max_batch_bytes - _BATCH_BYTES
        listener = LineListener(*place, delimiter, limit)
        try:
            with listener.stopping_by_signal():
                if not quiet:
                    say(f"listening on {listener.address} for lines; Ctrl-C ends")
                for lines in listener.turns():
                    self._publish(_sound(shape), iter([lines]))
                    if self._left == 0:
                        break
        finally:
            listener.close()
            if not quiet:
                say(f"published {self._published:,} events to {self._topic.name}")
        if listener.stopped_by is not None:
            raise SystemExit(128 + listener.stopped_by)

    def tell_before_error(self) -> None:
        """Print how many events were published before an error; a failed batch does not count."""
        if self._published:
            say(f"at least {self._published:,} events were published before this error:")

    def done(self) -> None:
        """Print how many events were published, also after an error."""
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


def _sound(shape: Shape) -> Shape:
    """Return ``shape``, changed so that it skips lines that are no events, and reports them."""

    def shaped(lines: list[bytes]) -> Shaped:
        try:
            return shape(lines)
        except errors.InvalidEvent:
            found: Shaped = []
            for line in lines:
                try:
                    found += shape([line])
                except errors.InvalidEvent as error:
                    say(f"a line was not published: {error}")
            return found

    return shaped


def _place(address: str) -> tuple[str, int]:
    from mainstem.remote.cluster import host_and_port  # noqa: PLC0415 - slow to load

    try:
        return host_and_port(address)
    except errors.InvalidSetting as error:
        raise click.BadParameter(str(error), param_hint="--listen") from None


def _topic(stem: Stem, name: str, create: bool, quiet: bool) -> TopicInfo:
    try:
        return stem.topics.show(name)
    except errors.UnknownTopic:
        if not create:
            raise
    info = stem.topics.create(name, exist_ok=True)
    if not quiet:
        count, durability = len(info.partitions), info.settings.durability
        partitions = "1 partition" if count == 1 else f"{count} partitions"
        say(f"created topic {name} ({partitions}, {durability}; mainstem topic alter changes it)")
    return info


def _await_input() -> None:
    """Wait for input before the directory is opened: the program at the pipe may need it."""
    if not sys.stdin.isatty():
        select.select([sys.stdin], [], [])


def _stdin(quiet: bool) -> int:
    if sys.stdin.isatty() and not quiet:
        say("reading events from the terminal, one per line; Ctrl-D ends")
    return sys.stdin.fileno()

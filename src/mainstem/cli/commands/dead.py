"""``mainstem dead``: list dead letters with their reasons, publish them again, delete them.

How this works: a redrive (publishing dead letters again) is a consumer of a queue on the
dead-letter topic. A letter is acknowledged after its event was published, so an interruption can
repeat an event but never lose it.
"""

import time
from collections import Counter
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from itertools import count, islice
from math import isnan

import click

from mainstem.cli.commands.queue import event_row
from mainstem.cli.confirmation import confirm, yes_option
from mainstem.cli.connection import at_option, open_target
from mainstem.cli.exit_codes import NotFound, Refused, say
from mainstem.cli.help import Group
from mainstem.cli.output.tables import Format, Row, format_option, print_rows
from mainstem.client.info import QueueInfo
from mainstem.client.stem import Delivery, Stem
from mainstem.core.dead_letters import SUFFIX, origin_of, revived, topic_of
from mainstem.core.errors import (
    Closed,
    DamagedLog,
    MainstemError,
    StorageFailed,
    StorageFull,
    UnknownPartition,
    UnknownQueue,
    Unreachable,
)
from mainstem.core.event import Event, Position
from mainstem.core.names import check_topic

QUEUE = "mainstem.redrive"
"""The queue on a dead-letter topic that stores which letters were redriven."""
_NOTHING_LEFT = "no unsettled dead letters here"
_LOCK_S = 30.0
_MIN_RATE, _MAX_RATE = 0.0001, 1_000_000.0
_AT_ONCE = 100
"""Number of dead letters held in memory at a time."""
_SAID = 10
"""Number of dead letters that could not be published and are reported with the reason."""
_NOTHING_GOES = (Closed, DamagedLog, StorageFailed, StorageFull, Unreachable)
"""Errors after which no other dead letter can be published either."""


@click.group(
    cls=Group,
    epilog="""
    mainstem dead ls
    mainstem dead show orders
    mainstem dead redrive orders --dry-run
    mainstem dead redrive orders --rate 100
    """,
)
def dead() -> None:
    """List dead letters, publish them again, or delete them.

    The dead letters of orders are in the topic orders.dead; either name works.
    """


@dead.command(
    "ls",
    epilog="""
    mainstem dead ls
    mainstem dead ls | jq 'select(.letters > 0)'
    """,
)
@format_option
@at_option
def list_letters(form: Format | None, at: str | None) -> None:
    """List dead-letter topics, and how many letters are unsettled in each."""
    with open_target(at, reads=True) as stem:
        rows = [
            {"topic": info.name, "letters": _left(stem, info.name), "of": info.events}
            for info in stem.topics.list(f"*{SUFFIX}")
        ]
    print_rows(rows, form, empty="no dead letters here")


@dead.command(
    epilog="""
    mainstem dead show orders
    mainstem dead show orders -n 100 | jq .reason
    """,
)
@click.argument("topic")
@click.option("--count", "-n", type=click.IntRange(1), default=10, show_default=True)
@format_option
@at_option
def show(topic: str, count: int, form: Format | None, at: str | None) -> None:
    """Show the first unsettled dead letters, each with its reason."""
    with open_target(at, reads=True) as stem:
        name = _dead(stem, topic)
        letters = list(islice(_letters(stem, name, min(count, _AT_ONCE)), count))
    rows = [_row(letter, form) for letter in letters]
    print_rows(rows, form, empty=_NOTHING_LEFT)


@dead.command(
    epilog="""
    mainstem dead redrive orders --dry-run
    mainstem dead redrive orders
    mainstem dead redrive orders --to orders.retry --rate 100
    """,
)
@click.argument("topic")
@click.option(
    "--to", metavar="TOPIC", help="Publish to this topic.  [default: the topic of origin]"
)
@click.option(
    "--rate", type=click.FloatRange(_MIN_RATE, _MAX_RATE), help="Events per second at most."
)
@click.option(
    "--dry-run", is_flag=True, help="Show what would be published where; publish nothing."
)
@format_option
@at_option
def redrive(
    *,
    topic: str,
    to: str | None,
    rate: float | None,
    dry_run: bool,
    form: Format | None,
    at: str | None,
) -> None:
    """Publish dead letters again, unchanged, to the topics they came from.

    Every reader of such a topic gets the events again. After an interruption, the next redrive
    continues where this one stopped; at most one event is published twice, and none is lost. A
    letter that cannot be published stays, and the others are redriven.
    """
    if to is not None:
        check_topic(to)
    if rate is not None and isnan(rate):
        raise click.BadParameter("nan is not a number of letters", param_hint="--rate")
    tally = _Tally()
    with open_target(at, reads=dry_run) as stem:
        name = _dead(stem, topic)
        try:
            if dry_run:
                for letter in _letters(stem, name):
                    with tally.one(letter):
                        tally.done[_target(letter, to)] += 1
            else:
                _redrive(stem, name, to, rate, tally)
        finally:
            # Print the result of an interrupted redrive, too.
            if dry_run:
                say("dry run: nothing was published")
            rows = [{"to": each, "letters": count} for each, count in sorted(tally.done.items())]
            print_rows(rows, form, empty="" if tally.seen else _NOTHING_LEFT)
        if tally.left:
            raise Refused(
                f"{len(tally.left):,} dead letters cannot be redriven like this and stay; "
                f"{_left(stem, name):,} in {name} are not settled now"
            )


class _Tally:
    """Counts a redrive: events published by topic, and the letters that could not be published."""

    def __init__(self) -> None:
        self.done: Counter[str] = Counter()
        self.left: set[Position] = set()
        self.seen = 0

    @contextmanager
    def one(self, letter: Event) -> Iterator[None]:
        """Count a letter; if publishing its event in the block fails, report it and continue."""
        self.seen += 1
        try:
            yield
        except _NOTHING_GOES:
            say(f"stopped at the dead letter {_place(letter)}, which was not redriven")
            raise
        except (MainstemError, Refused) as error:
            self.left.add(letter.position)
            if len(self.left) <= _SAID:
                say(f"the dead letter {_place(letter)} was not redriven: {error}")


def _redrive(stem: Stem, name: str, to: str | None, rate: float | None, tally: _Tally) -> None:
    expected = _left(stem, name) if rate is not None else 0
    with closing(_taken(stem, name, _tails(stem, name))) as taken:
        for delivery in _paced(taken, rate, expected):
            letter = delivery.event
            # A letter that could not be published stays in flight until its lock expires; then the
            # queue delivers it again, and it is skipped.
            if letter.position in tally.left:
                continue
            is_published = False
            with tally.one(letter):
                tally.done[_publish(stem, letter, to)] += 1
                is_published = True
            if is_published:
                delivery.ack()


@dead.command(epilog="mainstem dead drop orders --yes")
@click.argument("topic")
@yes_option
@at_option
def drop(topic: str, yes: bool, at: str | None) -> None:
    """Delete all dead letters of a topic, including redriven ones."""
    with open_target(at) as stem:
        name = _dead(stem, topic)
        # Taken before the question, so that letters that arrive later are not deleted.
        tails = _tails(stem, name)
        confirm(f"delete {_left(stem, name):,} unsettled dead letters", yes=yes)
        with closing(_taken(stem, name, tails)) as taken:
            for delivery in taken:
                with delivery:
                    pass
        stem.topics.trim(name, tails)


def _dead_name(topic: str) -> str:
    return topic if topic.endswith(SUFFIX) else topic_of(topic)


def _dead(stem: Stem, topic: str) -> str:
    """Return the dead-letter topic of ``topic``, or ``topic`` if it is one; raises NotFound."""
    name = _dead_name(topic)
    if not stem.topics.list(name):
        raise NotFound(f"there are no dead letters of {topic}: no topic {name}")
    return name


def _left(stem: Stem, name: str) -> int:
    info = _queue(stem, name)
    return stem.topics.show(name).events if info is None else info.ready + info.out


def _queue(stem: Stem, name: str) -> QueueInfo | None:
    try:
        return stem.queues.show(name, QUEUE)
    except UnknownQueue:
        return None


def _letters(stem: Stem, name: str, at_once: int = _AT_ONCE) -> Iterator[Event]:
    """Yield the unsettled dead letters of a topic, without delivering them to a consumer."""
    if _queue(stem, name) is None:
        yield from stem.subscribe(name, follow=False)
        return
    after: Position | None = None
    while found := stem.queues.peek(name, QUEUE, at_once, after=after):
        yield from (each.event for each in found)
        after = found[-1].event.position


def _tails(stem: Stem, name: str) -> dict[int, int]:
    """Return the end offset of each partition now; letters from there on arrived later."""
    return {each.partition: each.tail for each in stem.topics.show(name).partitions}


def _taken(stem: Stem, name: str, tails: Mapping[int, int]) -> Generator[Delivery]:
    """Yield deliveries of the dead letters before ``tails``, an offset per partition."""
    with stem.queue(name, name=QUEUE, max_deliveries=0, lock_s=_LOCK_S, follow=False) as queue:
        for delivery in queue:
            if delivery.event.offset < tails.get(delivery.event.partition, 0):
                yield delivery


def _paced(deliveries: Iterator[Delivery], rate: float | None, expected: int) -> Iterator[Delivery]:
    """Yield deliveries, at most ``rate`` per second for the first ``expected`` ones.

    Waits before it takes a delivery from the queue, because its lock starts then.
    """
    begun = time.monotonic()
    for number in count():
        if rate is not None and number < expected:
            time.sleep(max(0.0, begun + number / rate - time.monotonic()))
        delivery = next(deliveries, None)
        if delivery is None:
            return
        yield delivery


def _publish(stem: Stem, letter: Event, to: str | None) -> str:
    """Publish a letter's event to its old topic and partition, or to ``to``; return the topic."""
    target, event = _target(letter, to), _sent(letter, to)
    origin = origin_of(letter) if to is None else None
    publish = partial(stem.publish, target, event.value, key=event.key, headers=event.headers)
    try:
        # Name the partition, as the producer may have chosen it with another partitioner.
        publish(partition=None if origin is None else origin.partition)
    except UnknownPartition:
        publish()
    return target


def _target(letter: Event, to: str | None) -> str:
    if to is not None:
        return to
    origin = origin_of(letter)
    if origin is None:
        raise Refused("its topic of origin is unknown; give a topic with --to")
    return origin.topic


def _sent(letter: Event, to: str | None) -> Event:
    """Return the event to publish for a letter.

    If ``to`` is a dead-letter topic, it is the letter with its headers, so that its origin stays
    known.
    """
    event = revived(letter)
    is_letter = to is not None and to.endswith(SUFFIX) and origin_of(event) is None
    return letter if is_letter else event


def _place(letter: Event) -> str:
    return f"{letter.topic}[{letter.partition}]@{letter.offset}"


def _row(letter: Event, form: Format | None) -> Row:
    origin = origin_of(letter)
    if origin is None:
        story = dict.fromkeys(("from", "queue", "deliveries", "reason"))
        return event_row(letter, form) | story
    return event_row(letter, form) | {
        "from": f"{origin.topic}[{origin.partition}]@{origin.offset}",
        "queue": origin.queue,
        "deliveries": origin.deliveries,
        "reason": origin.reason,
    }

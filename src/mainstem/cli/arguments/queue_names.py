"""Finds a queue by its topic and name, by one name for both, or by its name among AMQP clients."""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import click

from mainstem.cli.exit_codes import NotFound, Refused
from mainstem.core.errors import InvalidName, UnknownTopic
from mainstem.core.names import check_topic

if TYPE_CHECKING:
    from mainstem.client.stem import Stem

Decorated = TypeVar("Decorated", bound=Callable[..., object])
_SHOWN = 5

Place = tuple[str, str]
"""The topic and name of a queue."""


vhost_option = click.option(
    "--vhost",
    metavar="NAME",
    help="The virtual host of an AMQP queue; names are then those that its clients use.",
)


def queue_argument(command: Decorated) -> Decorated:
    """Add to a command the arguments that name a queue, and ``--vhost``."""
    named = click.argument("names", nargs=-1, required=True, metavar="[TOPIC] QUEUE")
    return named(vhost_option(command))


def find_queue(stem: "Stem", names: tuple[str, ...], vhost: str | None) -> Place:
    """Return the topic and the name of a queue; raises NotFound, or Refused if ambiguous."""
    if len(names) == 2:
        if vhost is not None:
            raise click.UsageError("with --vhost give one name, as AMQP clients spell it")
        return names[0], names[1]
    if len(names) != 1:
        raise click.UsageError("name a queue, or a topic and a queue on it")
    (name,) = names
    known = [(each.topic, each.name) for each in stem.queues.list()]
    for spelling in _spellings(name, vhost):
        if (spelling, spelling) in known:
            return spelling, spelling
        places = [place for place in known if place[1] == spelling]
        if len(places) == 1:
            return places[0]
        if places:
            topics = _some([topic for topic, _ in places])
            raise Refused(f"queue {name} is on several topics ({topics}): name topic and queue")
    on_topic = [queue for topic, queue in known if topic == name]
    hint = f"; topic {name} has {_some(on_topic)}: name topic and queue" if on_topic else ""
    where = "" if vhost is None else f" in virtual host {vhost}"
    raise NotFound(f"there is no queue {name}{where}{hint or '; mainstem queue ls lists all'}")


def find_topic(stem: "Stem", name: str, vhost: str | None) -> str:
    """Return the topic called ``name``, or that of the AMQP queue ``name``; raises NotFound."""
    for spelling in _spellings(name, vhost):
        try:
            check_topic(spelling)
            return stem.topics.show(spelling).name
        except (UnknownTopic, InvalidName):
            continue
    where = "" if vhost is None else f" in virtual host {vhost}"
    raise NotFound(
        f"there is no topic {name}{where}, nor a queue with a topic of its own of that name"
    )


def _spellings(name: str, vhost: str | None) -> list[str]:
    """Return the topic names that ``name`` may mean; with ``vhost`` only those of AMQP queues."""
    # Imported here, as most commands do not need AMQP.
    from mainstem.heads.amqp091.adapter.topology.names import (  # noqa: PLC0415
        DEFAULT_VHOST,
        topic_of,
    )

    escaped = topic_of(DEFAULT_VHOST if vhost is None else vhost, name)
    return [escaped] if vhost is not None else list(dict.fromkeys((name, escaped)))


def _some(names: list[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")

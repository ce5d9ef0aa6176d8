"""Tables of one file that would spoil one another: one place for two tables, and circles."""

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING

from mainstem.pipelines.errors import InvalidDefinition
from mainstem.pipelines.sinks.identity import identity
from mainstem.pipelines.sinks.topic import TopicSink

if TYPE_CHECKING:
    from mainstem.pipelines.definitions.table import Table

Where = Callable[["Table"], str]
"""Names a table with its file and line."""


def check_sinks(tables: Sequence["Table"], where: Where) -> None:
    """Raise InvalidDefinition if two tables write to one place: their rows would mix."""
    taken: dict[Hashable, Table] = {}
    for each in tables:
        place = identity(each.sink)
        if place is None:
            continue
        if place in taken:
            raise InvalidDefinition(
                f"{where(each)} and {where(taken[place])} write to the same place "
                f"({each.sink.place}), and their rows would mix; give each a sink of its own"
            )
        taken[place] = each


def check_circles(tables: Sequence["Table"], where: Where) -> None:
    """Raise InvalidDefinition if a table reads what it wrote, itself or by way of others."""
    writers: dict[str, list[Table]] = {}
    for each in tables:
        if isinstance(each.sink, TopicSink) and not each.sink.address:
            writers.setdefault(each.sink.topic, []).append(each)
    above: dict[str, list[Table]] = {}
    known: dict[str, Table] = {}
    for each in tables:
        above[each.name] = [
            writer
            for source in each.sources
            for writer in (
                [known[source.name]] if source.name in known else writers.get(source.name, [])
            )
        ]
        known[each.name] = each
    for each in tables:
        circle = _way_back(each, above)
        if circle:
            others = ", which reads ".join(
                f"what {where(other)} writes" if other is not each else "what it writes"
                for other in circle
            )
            raise InvalidDefinition(
                f"{where(each)} reads {others}: its own rows would come back to it without end, "
                "and no replay would give the same table; write to a topic that none of them reads"
            )


def _way_back(start: "Table", above: dict[str, list["Table"]]) -> list["Table"]:
    """Return the tables on a way from a table up to itself, itself at the end; none if none."""
    ways = [[each] for each in above[start.name]]
    seen = set[str]()
    while ways:
        way = ways.pop(0)
        last = way[-1]
        if last.name == start.name:
            return way
        if last.name not in seen:
            seen.add(last.name)
            ways += [[*way, each] for each in above[last.name]]
    return []


def check_dead_letters(tables: Sequence["Table"], dead_topic: str, where: Where) -> None:
    """Raise InvalidDefinition if a table would bury what it reads in the topic that it reads."""
    for each in tables:
        if each.bad == "dead" and any(source.name == dead_topic for source in each.sources):
            raise InvalidDefinition(
                f"{where(each)} reads {dead_topic!r}, where its own bad events go, so that they "
                "would come back to it without end; give it bad='stop'"
            )

"""Checks the tables of a file: no two may write to one sink, none may read its own output."""

from collections.abc import Callable, Hashable, Sequence

from mainstem.pipelines.definitions.table import Table
from mainstem.pipelines.errors import InvalidDefinition
from mainstem.pipelines.sinks.identity import identity
from mainstem.pipelines.sinks.topic import TopicSink

Where = Callable[[Table], str]
"""Returns a table's name with file and line, for a message."""


def check_sinks(tables: Sequence[Table], where: Where) -> None:
    """Raise InvalidDefinition if two tables write to the same sink: their rows would mix."""
    taken: dict[Hashable, Table] = {}
    for each in tables:
        place = identity(each.sink)
        if place is None:
            continue
        if place in taken:
            raise InvalidDefinition(
                f"{where(each)} and {where(taken[place])} write to the same place "
                f"({each.sink.place}), so their rows would mix; give each its own sink"
            )
        taken[place] = each


def check_cycles(tables: Sequence[Table], where: Where) -> None:
    """Raise InvalidDefinition if a table reads its own output, directly or through others."""
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
        circle = _cycle(each, above)
        if circle:
            others = ", which reads ".join(
                f"what {where(other)} writes" if other is not each else "what it writes"
                for other in circle
            )
            raise InvalidDefinition(
                f"{where(each)} reads {others}: an endless loop, "
                "and no replay would give the same table; write to a topic that none of them reads"
            )


def _cycle(start: Table, above: dict[str, list[Table]]) -> list[Table]:
    """Return the tables of a cycle through ``start``, which comes last; empty if there is none.

    ``above`` has the tables that each table reads.
    """
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


def check_dead_letters(tables: Sequence[Table], dead_topic: str, where: Where) -> None:
    """Raise InvalidDefinition if a table reads the topic to which it writes its dead letters."""
    for each in tables:
        if each.bad == "dead" and any(source.name == dead_topic for source in each.sources):
            raise InvalidDefinition(
                f"{where(each)} reads {dead_topic!r}, to which its own bad events go: "
                "an endless loop; set bad='stop'"
            )

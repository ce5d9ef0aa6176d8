"""Finds what must not happen in a history of transactional clients, after Jepsen's definitions.

How this works: a first pass over the history gathers the facts: who has sent each event, who has
read it, which transactions have committed, and what each offset holds. An operation of unknown
outcome has committed if anything that it has sent was read, and then all of it must be there. Each
kind of anomaly is then a few lines over those facts. The history must end with somebody who reads
everything from the first offset to the last, or else what was not read yet would count as lost.

Two kinds are cycles: if every operation points to those that must come after it, none may come
after itself.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

from tests.checker.history import History, Operation, Outcome, Place, Read, Sent

Written = tuple[Place, str]
Edges = Mapping[int, set[int]]
"""From an operation, by its number, to those that come before it."""


class Kind(StrEnum):
    """What can be wrong."""

    LOST_WRITE = "lost write"
    """An event was acknowledged, or is part of what was seen, and is not there."""
    DUPLICATE = "duplicate"
    """An event is at two offsets."""
    INCONSISTENT_OFFSETS = "inconsistent offsets"
    """Two events are at one offset."""
    UNEXPECTED = "unexpected"
    """An event was read that nobody has sent."""
    ABORTED_READ = "aborted read (G1a)"
    """An event of an aborted transaction was read."""
    PRECOMMITTED_READ = "precommitted read"
    """A transaction has read what it has sent itself."""
    INTERNAL_POLL_SKIP = "internal poll skip"
    """A poll leaves out an event between two others."""
    POLL_SKIP = "poll skip"
    """A consumer leaves out an event between two polls."""
    INTERNAL_NONMONOTONIC_POLL = "internal non-monotonic poll"
    """A poll goes back."""
    NONMONOTONIC_POLL = "non-monotonic poll"
    """A consumer goes back from one poll to the next."""
    NONMONOTONIC_SEND = "non-monotonic send"
    """What a producer has sent is in another order."""
    PROCESSED_TWICE = "processed twice"
    """Two transactions that have committed moved a group's cursor past the same event."""
    PROCESSED_NEVER = "processed never"
    """A group's cursor has moved past an event that no transaction has read."""
    G0 = "write cycle (G0)"
    """Each of some transactions has an event after one of another of them, all around."""
    G0_IN_TIME = "write cycle in real time (G0)"
    """An event is before one of a transaction that had ended before its own began."""
    G1C = "circular reads (G1c)"
    """Each of some transactions has read what another of them has sent, all around."""


ALLOWED = frozenset({Kind.G0})
"""Events of transactions that are open at the same time stand in any order in Kafka's logs."""


class Anomaly(NamedTuple):
    """One thing that is wrong."""

    kind: Kind
    what: str


class Facts:
    """What a history says, by event and by offset."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.operations = [each for each in history if isinstance(each, Operation)]
        self.writers: dict[Written, int] = {}
        self.readers: defaultdict[Written, set[int]] = defaultdict(set)
        for number, operation in enumerate(self.operations):
            for step in operation.steps:
                written = (step.place, step.value)
                if isinstance(step, Sent):
                    self.writers[written] = number
                else:
                    self.readers[written].add(number)
        self.committed = {
            number for number, each in enumerate(self.operations) if self._has_committed(each)
        }
        self.values: defaultdict[Place, dict[int, set[str]]] = defaultdict(dict)
        """What was found at each offset, by whoever saw it there."""
        self.offsets_of: defaultdict[Written, set[int]] = defaultdict(set)
        for number, operation in enumerate(self.operations):
            for step in operation.steps:
                if isinstance(step, Read) or number in self.committed:
                    self._note(step)
        self.offsets = {place: sorted(found) for place, found in self.values.items()}

    def between(self, place: Place, first: int, last: int) -> int:
        """Return how many offsets that hold something are between two others."""
        known = self.offsets[place]
        return bisect_left(known, last) - bisect_right(known, first)

    def in_order(self, place: Place) -> Iterator[tuple[str, int]]:
        """Yield the events of a partition by offset, each with the operation that has sent it."""
        for offset in self.offsets[place]:
            for value in sorted(self.values[place][offset]):
                if (writer := self.writers.get((place, value))) is not None:
                    yield value, writer

    def _has_committed(self, operation: Operation) -> bool:
        if operation.outcome is Outcome.UNKNOWN:
            return any((each.place, each.value) in self.readers for each in operation.sent)
        return operation.outcome is Outcome.OK

    def _note(self, step: Sent | Read) -> None:
        if step.offset is not None:
            self.values[step.place].setdefault(step.offset, set()).add(step.value)
            self.offsets_of[step.place, step.value].add(step.offset)


def check(history: History) -> list[Anomaly]:
    """Return everything that is wrong, also what is allowed."""
    facts = Facts(history)
    found = (_events, _offsets, _own_reads, _polls, _sends, _groups, _cycles, _times)
    return [anomaly for find in found for anomaly in find(facts)]


def forbidden(anomalies: Iterable[Anomaly]) -> list[Anomaly]:
    """Return what no Kafka may do."""
    return [each for each in anomalies if each.kind not in ALLOWED]


def _events(facts: Facts) -> Iterator[Anomaly]:
    for written, writer in facts.writers.items():
        operation = facts.operations[writer]
        is_read = written in facts.readers
        if writer in facts.committed and not is_read:
            yield Anomaly(Kind.LOST_WRITE, f"{written} of {_named(operation)}")
        if operation.outcome is Outcome.ABORTED and is_read:
            yield Anomaly(Kind.ABORTED_READ, f"{written} of {_named(operation)}")
    for written in facts.readers.keys() - facts.writers.keys():
        yield Anomaly(Kind.UNEXPECTED, f"{written}")


def _offsets(facts: Facts) -> Iterator[Anomaly]:
    for place, found in facts.values.items():
        for offset, values in found.items():
            if len(values) > 1:
                yield Anomaly(Kind.INCONSISTENT_OFFSETS, f"{place} {offset}: {sorted(values)}")
    for written, offsets in facts.offsets_of.items():
        if len(offsets) > 1:
            yield Anomaly(Kind.DUPLICATE, f"{written} at {sorted(offsets)}")


def _own_reads(facts: Facts) -> Iterator[Anomaly]:
    for operation in facts.operations:
        sent = {(each.place, each.value) for each in operation.sent}
        for each in operation.read:
            if (each.place, each.value) in sent:
                yield Anomaly(Kind.PRECOMMITTED_READ, f"{each} by {_named(operation)}")


def _polls(facts: Facts) -> Iterator[Anomaly]:
    """Follow each process in each partition, from where it was assigned it or has sought to."""
    latest: dict[tuple[str, Place], tuple[int, int]] = {}
    for number, each in enumerate(facts.history):
        if not isinstance(each, Operation):
            for place in each.places:
                latest.pop((each.process, place), None)
            continue
        for read in each.read:
            at, before = latest.get((each.process, read.place), (number, read.offset - 1))
            latest[each.process, read.place] = (number, read.offset)
            what = f"{_named(each)} read {read.offset} after {before} in {read.place}"
            if read.offset <= before:
                inside, outside = Kind.INTERNAL_NONMONOTONIC_POLL, Kind.NONMONOTONIC_POLL
            elif facts.between(read.place, before, read.offset):
                inside, outside = Kind.INTERNAL_POLL_SKIP, Kind.POLL_SKIP
            else:
                continue
            yield Anomaly(inside if at == number else outside, what)


def _sends(facts: Facts) -> Iterator[Anomaly]:
    latest: dict[tuple[str, Place], int] = {}
    for number, operation in enumerate(facts.operations):
        if number not in facts.committed:
            continue
        for sent in operation.sent:
            key = (operation.process, sent.place)
            for offset in facts.offsets_of.get((sent.place, sent.value), ()):
                if offset < latest.get(key, -1):
                    what = f"{sent.value} of {_named(operation)} is at {offset} in {sent.place}"
                    yield Anomaly(Kind.NONMONOTONIC_SEND, f"{what}, before {latest[key]}")
                latest[key] = offset


def _groups(facts: Facts) -> Iterator[Anomaly]:
    processed: defaultdict[tuple[str, Place], list[int]] = defaultdict(list)
    for number in facts.committed:
        operation = facts.operations[number]
        if operation.group:
            for read in operation.read:
                processed[operation.group, read.place].append(read.offset)
    for (group, place), offsets in processed.items():
        offsets.sort()
        # Groups begin at the first event.
        for before, offset in zip([-1, *offsets], offsets, strict=False):
            if offset == before:
                yield Anomaly(Kind.PROCESSED_TWICE, f"{place} {offset} by {group}")
            elif left_out := facts.between(place, before, offset):
                what = f"{left_out} in {place} after {before} by {group}"
                yield Anomaly(Kind.PROCESSED_NEVER, what)


def _cycles(facts: Facts) -> Iterator[Anomaly]:
    writes: defaultdict[int, set[int]] = defaultdict(set)
    for place in facts.offsets:
        before: int | None = None
        for _, writer in facts.in_order(place):
            if before is not None and before != writer:
                writes[writer].add(before)
            before = writer
    yield from _cycle(facts, writes, Kind.G0)
    reads: defaultdict[int, set[int]] = defaultdict(set)
    for written, readers in facts.readers.items():
        for reader in readers:
            if (sender := facts.writers.get(written)) is not None and sender != reader:
                reads[reader].add(sender)
    yield from _cycle(facts, reads, Kind.G1C)


def _cycle(facts: Facts, edges: Edges, kind: Kind) -> Iterator[Anomaly]:
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        yield Anomaly(kind, "; ".join(_named(facts.operations[each]) for each in error.args[1]))


def _times(facts: Facts) -> Iterator[Anomaly]:
    for place in facts.offsets:
        latest = -1
        for value, number in facts.in_order(place):
            writer = facts.operations[number]
            if writer.ended < latest:
                what = f"{value} of {_named(writer)} in {place}, after one begun at {latest}"
                yield Anomaly(Kind.G0_IN_TIME, what)
            latest = max(latest, writer.began)


def _named(operation: Operation) -> str:
    return f"{operation.process} ({operation.outcome}, {operation.began} to {operation.ended})"

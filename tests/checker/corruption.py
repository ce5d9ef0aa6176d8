"""Corrupts a history in one way per kind of anomaly, to test that each is detected."""

from collections.abc import Callable, Iterator
from random import Random

import msgspec
from tests.checker.anomalies import Facts, Kind, Written
from tests.checker.history import History, Moved, Operation, Outcome, Read, Sent

Corruption = Callable[["Corrupted"], None]


class Corrupted:
    """A history that is no longer what happened."""

    def __init__(self, history: History, rng: Random) -> None:
        self.history = list(history)
        self.rng = rng

    def find(self, fits: Callable[[Operation], bool]) -> int:
        """Return where an operation is that fits, by chance."""
        begin = self.rng.randrange(len(self.history))
        for step in range(len(self.history)):
            number = (begin + step) % len(self.history)
            each = self.history[number]
            if isinstance(each, Operation) and fits(each):
                return number
        raise ValueError("the history has no operation that can be corrupted like this")

    def operation(self, number: int) -> Operation:
        """Return an operation by its place."""
        found = self.history[number]
        assert isinstance(found, Operation)
        return found

    def replace(self, number: int, **changes: object) -> None:
        """Put another operation in the place of one."""
        self.history[number] = msgspec.structs.replace(self.operation(number), **changes)

    def rewrite(self, change: Callable[[Sent | Read], Sent | Read | None]) -> None:
        """Change every step, or leave it out."""
        for number, each in enumerate(self.history):
            if isinstance(each, Operation):
                steps = tuple(new for old in each.steps if (new := change(old)) is not None)
                if steps != each.steps:
                    self.replace(number, steps=steps)


def _is_sure(operation: Operation) -> bool:
    return operation.outcome is Outcome.OK and bool(operation.sent)


def _read_several(operation: Operation) -> bool:
    return bool(_neighbours(operation))


def _neighbours(operation: Operation) -> list[int]:
    """Return the places of steps that read from the same partition as the two before them."""
    steps = operation.steps
    return [
        number
        for number in range(2, len(steps))
        if all(isinstance(step, Read) for step in steps[number - 2 : number + 1])
        and len({step.place for step in steps[number - 2 : number + 1]}) == 1
    ]


def lose(it: Corrupted) -> None:
    """Let nobody read an event that was acknowledged."""
    sent = it.rng.choice(it.operation(it.find(_is_sure)).sent)
    it.rewrite(
        lambda step: None if isinstance(step, Read) and step.value == sent.value else step,
    )


def repeat(it: Corrupted) -> None:
    """Let an event be read at an offset after the last one, too."""
    number = it.find(lambda each: bool(each.read))
    last = it.operation(number).read[-1]
    again = last._replace(offset=10**9)
    it.replace(number, steps=(*it.operation(number).steps, again))


def confuse(it: Corrupted) -> None:
    """Let another event be read at an offset."""
    number = it.find(lambda each: bool(each.read))
    *steps, last = it.operation(number).read
    it.replace(number, steps=(*steps, last._replace(value="confused")))


def abort(it: Corrupted) -> None:
    """Let a transaction that has committed have been aborted."""
    it.replace(it.find(_is_sure), outcome=Outcome.ABORTED)


def read_own(it: Corrupted) -> None:
    """Let a transaction read what it has sent."""
    number = it.find(lambda each: any(sent.offset is not None for sent in each.sent))
    sent = next(each for each in it.operation(number).sent if each.offset is not None)
    read = Read(sent.place, sent.value, sent.offset or 0)
    it.replace(number, steps=(*it.operation(number).steps, read))


def skip(it: Corrupted) -> None:
    """Leave an event out of a poll."""
    number = it.find(_read_several)
    steps = list(it.operation(number).steps)
    del steps[_neighbours(it.operation(number))[0] - 1]
    it.replace(number, steps=tuple(steps))


def turn_back(it: Corrupted) -> None:
    """Let a poll read two events in the wrong order."""
    number = it.find(_read_several)
    steps = list(it.operation(number).steps)
    at = _neighbours(it.operation(number))[0]
    steps[at - 1], steps[at] = steps[at], steps[at - 1]
    it.replace(number, steps=tuple(steps))


def _following(it: Corrupted) -> tuple[int, int]:
    """Return two polls of a process in one partition, with nothing between that explains a gap."""
    latest: dict[tuple[str, object], int] = {}
    pairs: list[tuple[int, int]] = []
    for number, each in enumerate(it.history):
        if isinstance(each, Moved):
            for place in each.places:
                latest.pop((each.process, place), None)
            continue
        for place in {read.place for read in each.read}:
            before = latest.get((each.process, place))
            if before is not None and len({read.place for read in each.read}) == 1:
                pairs.append((before, number))
            latest[each.process, place] = number
    return it.rng.choice(pairs)


def skip_between(it: Corrupted) -> None:
    """Leave out the first event of a poll that follows another."""
    _, number = _following(it)
    place = it.operation(number).read[0].place
    steps = list(it.operation(number).steps)
    first = steps.index(it.operation(number).read[0])
    # Somebody else goes on to read it, and so does the end of the history.
    del steps[first]
    follower = Read(place, "later", 10**9)
    it.replace(number, steps=tuple(steps) if _reads(steps) else (follower,))


def _reads(steps: list[Sent | Read]) -> bool:
    return any(isinstance(step, Read) for step in steps)


def turn_back_between(it: Corrupted) -> None:
    """Let a poll begin with an event that the one before it had read."""
    before, number = _following(it)
    place = it.operation(number).read[0].place
    again = next(read for read in it.operation(before).read if read.place == place)
    it.replace(number, steps=(again, *it.operation(number).steps))


def send_in_disorder(it: Corrupted) -> None:
    """Exchange two events that a producer has sent to one partition."""
    first: dict[tuple[str, object], Sent] = {}
    facts = Facts(it.history)
    for number in sorted(facts.committed):
        operation = facts.operations[number]
        for sent in operation.sent:
            before = first.setdefault((operation.process, sent.place), sent)
            if before is not sent:
                _exchange(it, before.value, sent.value)
                return
    raise ValueError("no producer has sent two events to one partition")


def _exchange(it: Corrupted, one: str, other: str) -> None:
    exchanged = {one: other, other: one}

    def exchange(step: Sent | Read) -> Sent | Read:
        if isinstance(step, Sent) and step.value in exchanged:
            return Sent(step.place, exchanged[step.value])
        return step

    it.rewrite(exchange)


def process_again(it: Corrupted) -> None:
    """Let a transaction of a group read once more what another has read."""
    number = it.find(lambda each: bool(each.group and each.read and _is_sure(each)))
    done = it.operation(number)
    it.history.append(
        Operation("again", Outcome.OK, tuple(done.read), done.ended, done.ended, done.group)
    )


def process_less(it: Corrupted) -> None:
    """Let a transaction of a group not have read the first event of a partition."""
    number = it.find(
        lambda each: bool(each.group and each.sent and _is_sure(each) and _is_first(it, each))
    )
    it.replace(number, group="")


def _is_first(it: Corrupted, operation: Operation) -> bool:
    """Tell whether others of the group go on where an operation has read."""
    lasts = {read.place: read.offset for read in operation.read}
    return any(
        other.group == operation.group and read.offset > lasts.get(read.place, read.offset)
        for other in it.history
        if isinstance(other, Operation) and other.outcome is Outcome.OK
        for read in other.read
    )


def write_in_a_circle(it: Corrupted) -> None:
    """Let two operations have each an event before one of the other."""
    for process, offsets in (("left", (0, 1)), ("right", (1, 0))):
        sent = [
            Sent((f"circle {number}", 0), f"{process} {number}", offset)
            for number, offset in enumerate(offsets)
        ]
        it.history.append(Operation(process, Outcome.OK, tuple(sent)))


def write_in_the_past(it: Corrupted) -> None:
    """Let an operation begin after those that come after it had ended."""
    facts = Facts(it.history)
    for place in facts.offsets:
        writers = list(dict.fromkeys(number for _, number in facts.in_order(place)))
        if len(writers) > 1:
            operation = facts.operations[writers[0]]
            it.replace(it.history.index(operation), began=10**9, ended=10**9)
            return
    raise ValueError("nobody has written after another")


def read_in_a_circle(it: Corrupted) -> None:
    """Let an operation also have read an event of one that has read an event of its own."""
    facts = Facts(it.history)
    for written, readers in _shuffled(it, facts):
        for reader in sorted(readers):
            operation = facts.operations[reader]
            writer = facts.operations[facts.writers[written]]
            sent = [each for each in operation.sent if each.offset is not None]
            if sent and reader != facts.writers[written]:
                read = Read(sent[0].place, sent[0].value, sent[0].offset or 0)
                place = it.history.index(writer)
                it.replace(place, steps=(*writer.steps, read))
                return
    raise ValueError("no transaction has read what another has sent")


def _shuffled(it: Corrupted, facts: Facts) -> Iterator[tuple[Written, set[int]]]:
    known = [item for item in facts.readers.items() if item[0] in facts.writers]
    it.rng.shuffle(known)
    yield from known


CORRUPTIONS: dict[Kind, Corruption] = {
    Kind.LOST_WRITE: lose,
    Kind.DUPLICATE: repeat,
    Kind.INCONSISTENT_OFFSETS: confuse,
    Kind.UNEXPECTED: confuse,
    Kind.ABORTED_READ: abort,
    Kind.PRECOMMITTED_READ: read_own,
    Kind.INTERNAL_POLL_SKIP: skip,
    Kind.POLL_SKIP: skip_between,
    Kind.INTERNAL_NONMONOTONIC_POLL: turn_back,
    Kind.NONMONOTONIC_POLL: turn_back_between,
    Kind.NONMONOTONIC_SEND: send_in_disorder,
    Kind.PROCESSED_TWICE: process_again,
    Kind.PROCESSED_NEVER: process_less,
    Kind.G0: write_in_a_circle,
    Kind.G0_IN_TIME: write_in_the_past,
    Kind.G1C: read_in_a_circle,
}
"""What brings each kind into a history."""


def corrupted(history: History, kind: Kind, seed: int) -> History:
    """Return a history with an anomaly of a kind, and perhaps others that go with it."""
    it = Corrupted(history, Random(seed))
    CORRUPTIONS[kind](it)
    return it.history

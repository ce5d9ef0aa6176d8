"""Records what a log was asked and has promised, and checks a recovered log against it.

How this works: every deed on a partition becomes a step with the point of the disk's trace at
which it began, and the points from which on it must survive the end of the process or a power cut.
After a crash at some point a partition must look as if its steps had been done up to one of them:
at least to the last that was promised, at most to the last that had begun. Nothing else is right:
no gap, no other content, no event twice, none that was never written.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from mainstem.core.batch import batches, read_header
from mainstem.core.records import events
from mainstem.log.disk import DiskLog
from mainstem.log.port import PartitionId

NEVER = 1 << 60


class Found(NamedTuple):
    """One event, where it stands."""

    offset: int
    key: bytes | None
    value: bytes | None


class Step:
    """One deed on one partition, and what the partition looks like after it."""

    def __init__(self, begun: int, before: "Step | None") -> None:
        self.begun = begun
        self.killproof = self.powerproof = NEVER
        """From which point on this survives the end of the process, and a power cut."""
        self.writes = False
        """Whether the promise is about events (all up to ``end``), or only about the partition."""
        self.exists = True
        self.start: int = before.start if before else 0
        self.end: int = before.end if before else 0
        self.content: list[Found] = before.content if before else []
        """Everything up to ``end``; shared between steps that only add to it."""
        self.refused = NEVER
        """The point at which it was certain that this will never be found."""
        self.thins: bool = before.thins if before else False
        """Whether compaction may have taken out what is outdated."""
        self.unneeded: frozenset[int] = before.unneeded if before else frozenset()
        """The offsets of events that thinning may have taken out."""

    def add(self, events: Iterable[Found]) -> None:
        """Let the step append events."""
        self.content += events
        self.end = self.content[-1].offset + 1
        self.writes = True

    def promised(self, kill: bool) -> int:
        """Return the point from which on this must be found."""
        return min(self.killproof, self.powerproof) if kill else self.powerproof


class Together(NamedTuple):
    """Events that were appended together: there in all of these partitions, or in none."""

    begun: int
    parts: tuple[tuple[PartitionId, int], ...]
    """The partitions that survive a power cut, with the offset of the first event in each."""


class Allowed(NamedTuple):
    """What a partition may look like after a crash."""

    steps: Sequence[Step]
    """It looks as after one of these."""
    may_be_absent: bool
    least_start: int
    most_start: int


class Ledger:
    """The steps of every partition."""

    def __init__(self) -> None:
        self.steps: dict[PartitionId, list[Step]] = {}
        self.refused: dict[PartitionId, list[Step]] = {}
        self.together: list[Together] = []
        self.synced: list[tuple[int, int]] = []
        """Points from which on the write-ahead log is durable up to a sequence number."""
        self._allowed: dict[tuple[PartitionId, int, bool], Allowed] = {}

    def step(self, partition: PartitionId, begun: int) -> Step:
        """Add a step that looks like the last one; the caller makes the difference."""
        steps = self.steps.setdefault(partition, [])
        step = Step(begun, steps[-1] if steps else None)
        steps.append(step)
        return step

    def take_back(self, partition: PartitionId, step: Step) -> None:
        """Forget a step that was refused, and what it would have appended."""
        steps = self.steps[partition]
        steps.remove(step)
        if step.writes:
            end = steps[-1].end
            step.content[:] = [each for each in step.content if each.offset < end]

    def refuse(self, partition: PartitionId, step: Step, at: int) -> None:
        """Forget a step that was refused; a crash before that point may still bring it back."""
        refused = Step(step.begun, step)
        refused.content, refused.refused = list(step.content), at
        self.take_back(partition, step)
        self.refused.setdefault(partition, []).append(refused)

    def promises(self) -> list[int]:
        """Return the points at which something was promised."""
        points = {
            point
            for steps in self.steps.values()
            for step in steps
            for point in (step.killproof, step.powerproof)
        }
        return sorted(points - {NEVER})

    def allowed(self, partition: PartitionId, at: int, kill: bool) -> Allowed:
        """Return what a partition may look like after a crash at a point."""
        known = self._allowed.get((partition, at, kill))
        if known is None:
            known = self._allowed[partition, at, kill] = self._allow(partition, at, kill)
        return known

    def _allow(self, partition: PartitionId, at: int, kill: bool) -> Allowed:
        begun = [step for step in self.steps[partition] if step.begun <= at]
        promised = [n for n, step in enumerate(begun) if step.promised(kill) <= at]
        written = max((n for n in promised if begun[n].writes), default=0)
        deed = max(promised, default=-1)
        absent = deed < 0 or any(not step.exists for step in begun[deed:])
        if deed >= 0 and not begun[deed].exists:
            return Allowed((), True, 0, 0)
        least = max((begun[n].start for n in promised), default=0)
        most = max((step.start for step in begun), default=0)
        steps = [step for step in begun[written:] if step.exists]
        steps += [
            step for step in self.refused.get(partition, ()) if step.begun <= at < step.refused
        ]
        return Allowed(steps, absent, least, most)


class Seen(NamedTuple):
    """What a partition looks like to those who open the log."""

    start: int
    tail: int
    end: int
    found: list[Found]


def look(log: DiskLog, *, piecewise: bool = False) -> dict[PartitionId, Seen]:
    """Return what there is in a log; ``piecewise`` reads batch by batch."""
    max_bytes = 1 if piecewise else 1 << 20
    return {
        each: Seen(*log.bounds(each)[:3], read_all(log, each, max_bytes))
        for each in log._partitions
    }


def check(ledger: Ledger, seen: dict[PartitionId, Seen], at: int, kill: bool) -> list[str]:
    """Return how the log that was found breaks what was promised."""
    wrong: list[str] = []
    ends: dict[PartitionId, int] = {}
    for partition in ledger.steps:
        allowed = ledger.allowed(partition, at, kill)
        name = f"{partition.topic_id[:4]}/{partition.number}"
        if partition not in seen:
            if not allowed.may_be_absent:
                wrong.append(f"{name} is gone")
            continue
        start, tail, end, found = seen[partition]
        if tail != end:
            wrong.append(f"{name}: tail {tail} is not the end {end} after opening")
        ends[partition] = end
        problem = _compare(allowed, start, end, found)
        if problem:
            wrong.append(f"{name}: {problem}")
    wrong += _torn_apart(ledger, ends, at)
    return wrong


def read_all(log: DiskLog, partition: PartitionId, max_bytes: int) -> list[Found]:
    """Read a partition from its start to its tail."""
    offset, tail = log.bounds(partition)[:2]
    found: list[Found] = []
    while offset < tail:
        piece = log.read(partition, offset, max_bytes)
        if not piece.length:
            break
        for batch in batches(piece.tobytes()):
            last, inside = _events_in(bytes(batch))
            found += [each for each in inside if each.offset >= offset]
            offset = max(offset, last + 1)
    return found


@lru_cache(maxsize=20_000)
def _events_in(batch: bytes) -> tuple[int, list[Found]]:
    """Return the last offset and the events of a batch; crashes show the same ones many times."""
    inside = [Found(event.offset, event.key, event.value) for event in events(batch)]
    return read_header(batch).last_offset, inside


def _compare(allowed: Allowed, start: int, end: int, found: list[Found]) -> str | None:
    """Return why the partition looks like none of the steps that it may look like."""
    problem: str | None = "it was deleted, or never created"
    if not allowed.least_start <= start <= allowed.most_start:
        return f"it starts at {start}, not at {allowed.least_start} to {allowed.most_start}"
    if start == end and not found and allowed.steps and allowed.steps[0].end <= end:
        # Nothing before the start counts, so it may begin in the middle of what was lost.
        return None
    for step in reversed(allowed.steps):
        if step.end != end:
            ends = [each.end for each in allowed.steps]
            problem = f"it ends at {end}, not at any of {ends[:5]}..{ends[-1]}"
            continue
        wanted = [each for each in step.content if start <= each.offset < end]
        if step.unneeded:
            there = {each.offset for each in found}
            gone = step.unneeded - there
            wanted = [each for each in wanted if each.offset not in gone]
        if found == wanted:
            return None
        if step.thins:
            problem = _thinned_wrongly(wanted, found)
            if problem is None:
                return None
        else:
            problem = _difference(wanted, found)
    return problem


def _difference(wanted: Sequence[Found], found: Sequence[Found]) -> str:
    for left, right in zip(wanted, found, strict=False):
        if left != right:
            return f"{right} is where {left} was"
    return f"{len(found)} events are there, not {len(wanted)}"


def _thinned_wrongly(wanted: Sequence[Found], found: Sequence[Found]) -> str | None:
    """Return what compaction must not have done: keep wrong events, or lose a key's latest."""
    offsets = {each.offset for each in wanted}
    known = set(wanted)
    strange = [each for each in found if each not in known]
    if strange or sorted(each.offset for each in found) != [each.offset for each in found]:
        return f"{strange[:3]} are not what was written"
    there = {each.offset for each in found}
    latest = {each.key: each for each in wanted}
    for key, last in latest.items():
        if last.offset in there:
            continue
        if last.value is not None:
            return f"the latest event of {key!r}, {last}, is missing"
        if any(each.key == key for each in found):
            return f"{key!r} was deleted, and is back"
    unkeyed = [each for each in wanted if each.key is None and each.offset not in there]
    return f"{unkeyed[:3]} had no key, and are missing" if unkeyed or not offsets >= there else None


def _torn_apart(ledger: Ledger, ends: dict[PartitionId, int], at: int) -> Iterable[str]:
    for together in ledger.together:
        if together.begun > at:
            break
        there = []
        for partition, offset in together.parts:
            later = (step for step in ledger.steps[partition] if together.begun <= step.begun <= at)
            # Cut or deleted since, or perhaps: then it proves nothing.
            if partition not in ends or any(not s.exists or s.end <= offset for s in later):
                continue
            there.append(ends[partition] > offset)
        if len(set(there)) > 1:
            yield f"{together.parts} were appended together, and are torn apart: {there}"

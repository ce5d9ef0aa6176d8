"""Generates every disk state that a crash can leave, from the trace of a simulated disk.

How this works: the trace is walked operation by operation, with two things at hand: what is
durable, and the changes since that are not. Before each operation the machine may stop. If only
the process ends (kill -9), all changes are there. If the power goes, any of them may be: none; all
but one; one alone; names without bytes and bytes without names; random mixtures in which writes
are also torn, by the byte or by the sector. The operation itself may be cut off half-way, too.
"""

from collections.abc import Iterable, Iterator, Sequence
from random import Random
from typing import NamedTuple

from tests.faults.disk.simulated_disk import (
    Change,
    Image,
    MakeDir,
    Name,
    Operation,
    Remove,
    Resize,
    Sync,
    SyncDir,
    Write,
    alter,
    bind,
    join,
    split,
)

SECTOR = 64
"""Smaller than any real one, so that short writes are torn as well."""

Bytes = Write | Resize
Names = Name | Remove | MakeDir


class Crash(NamedTuple):
    """One disk that may be found after a crash."""

    at: int
    """How many operations of the trace had been done."""
    kill: bool
    """Whether only the process ended: what it wrote is all there."""
    what: str
    image: Image


class _Unsynced:
    """What is durable at one point of the trace, and what is not."""

    def __init__(self, base: Image) -> None:
        self.durable = base.copy()
        self.names: list[Names] = []
        self.bytes: dict[int, list[Bytes]] = {}

    def take(self, operation: Operation) -> None:
        match operation:
            case Write() | Resize():
                self.bytes.setdefault(operation.node, []).append(operation)
            case Sync(node):
                self.durable.data[node] = self.content(node, self.bytes.pop(node, []))
            case SyncDir(directory):
                for each in self.names:
                    if each.directory == directory:
                        bind(self.durable.names, self.durable.dirs, each)
                self.names = [each for each in self.names if each.directory != directory]
            case _:
                self.names.append(operation)

    def content(self, node: int, changes: Iterable[Bytes]) -> bytes:
        content = bytearray(self.durable.data.get(node, b""))
        for change in changes:
            alter(content, change)
        return bytes(content)

    def whole(self) -> dict[int, bytes]:
        """Return every file with all that was written to it."""
        return {node: self.content(node, changes) for node, changes in self.bytes.items()}

    def disk(self, names: Iterable[Names], contents: dict[int, bytes]) -> Image:
        """Return the disk with some of the names and contents that were not durable."""
        image = self.durable.copy()
        for each in names:
            bind(image.names, image.dirs, each)
        image.data.update(contents)
        return _reachable(image)


def _reachable(image: Image) -> Image:
    """Leave out what is in directories that are not there, and give every file some bytes."""
    dirs = {""}
    for path in sorted(image.dirs):
        if path and split(path)[0] in dirs:
            dirs.add(path)
    names = {path: node for path, node in image.names.items() if split(path)[0] in dirs}
    data = {node: image.data.get(node, b"") for node in names.values()}
    return Image(names, dirs, data)


def crashes(
    base: Image,
    operations: Sequence[Operation],
    rng: Random,
    *,
    first: int = 0,
    mixtures: int = 6,
    share: float = 1.0,
) -> Iterator[Crash]:
    """Yield disks for a crash before every operation from ``first`` on, and after the last.

    ``share`` of the points are looked at, by chance; each gives all of its kinds of disks.
    """
    unsynced = _Unsynced(base)
    for at in range(len(operations) + 1):
        if at >= first and (share >= 1 or rng.random() < share):
            coming = operations[at] if at < len(operations) else None
            yield from _crashes_at(at, unsynced, coming, rng, mixtures)
        if at < len(operations):
            unsynced.take(operations[at])


def _crashes_at(
    at: int, unsynced: _Unsynced, coming: Operation | None, rng: Random, mixtures: int
) -> Iterator[Crash]:
    names, whole = unsynced.names, unsynced.whole()
    yield Crash(at, True, "killed", unsynced.disk(names, whole))
    if names or whole:
        yield Crash(at, False, "nothing unsynced is kept", unsynced.disk((), {}))
        yield Crash(at, False, "all bytes, no names", unsynced.disk((), whole))
        yield Crash(at, False, "all names, no bytes", unsynced.disk(names, {}))
    if len(names) + sum(map(len, unsynced.bytes.values())) > 1:
        yield from _all_but_one(at, unsynced, names, whole)
        for _ in range(mixtures):
            yield _mixture(at, unsynced, names, unsynced.bytes, rng)
    if isinstance(coming, Write):
        for torn in _torn_ways(coming, rng):
            changes = [*unsynced.bytes.get(coming.node, []), *torn]
            contents = whole | {coming.node: unsynced.content(coming.node, changes)}
            yield Crash(at, True, "killed in a write", unsynced.disk(names, contents))
        later = unsynced.bytes | {
            coming.node: [*unsynced.bytes.get(coming.node, []), *_torn(coming, rng)]
        }
        yield _mixture(at, unsynced, names, later, rng)


def _all_but_one(
    at: int, unsynced: _Unsynced, names: Sequence[Names], whole: dict[int, bytes]
) -> Iterator[Crash]:
    for number, change in enumerate(names):
        path = join(change.directory, change.name)
        others = [*names[:number], *names[number + 1 :]]
        yield Crash(at, False, f"all but the name {path}", unsynced.disk(others, whole))
        yield Crash(at, False, f"only the name {path}", unsynced.disk([change], whole))
    for node, changes in unsynced.bytes.items():
        for number in range(len(changes)):
            others_of_file = [*changes[:number], *changes[number + 1 :]]
            hole = whole | {node: unsynced.content(node, others_of_file)}
            yield Crash(at, False, f"a hole in file {node}", unsynced.disk(names, hole))
            alone = {node: unsynced.content(node, [changes[number]])}
            yield Crash(at, False, f"one write to file {node}", unsynced.disk(names, alone))


def _mixture(
    at: int,
    unsynced: _Unsynced,
    names: Sequence[Names],
    changes: dict[int, list[Bytes]],
    rng: Random,
) -> Crash:
    """Return a disk on which chance has decided what is there."""
    share = rng.choice((0.1, 0.5, 0.9))
    kept_names = [each for each in names if rng.random() < share]
    contents: dict[int, bytes] = {}
    for node, of_file in changes.items():
        kept: list[Bytes] = []
        for change in of_file:
            if rng.random() >= share:
                continue
            if isinstance(change, Write) and rng.random() < 0.3:
                kept += _torn(change, rng)
            else:
                kept.append(change)
        contents[node] = unsynced.content(node, kept)
    return Crash(at, False, "a mixture", unsynced.disk(kept_names, contents))


def _torn_ways(write: Write, rng: Random) -> Iterator[list[Bytes]]:
    """Yield beginnings of a write: one byte, all but one, to a sector's border, anywhere."""
    length = len(write.data)
    border = SECTOR - write.position % SECTOR
    for cut in {1, length - 1, border, rng.randrange(length)}:
        if 0 < cut < length:
            yield [Write(write.node, write.position, write.data[:cut])]


def _torn(write: Write, rng: Random) -> list[Bytes]:
    """Return a beginning of a write, or some of its sectors."""
    if rng.random() < 0.5:
        cut = rng.randint(1, len(write.data))
        return [Write(write.node, write.position, write.data[:cut])]
    pieces: list[Bytes] = []
    begin = 0
    while begin < len(write.data):
        end = begin + SECTOR - (write.position + begin) % SECTOR
        if rng.random() < 0.5:
            pieces.append(Write(write.node, write.position + begin, write.data[begin:end]))
        begin = end
    return pieces


def fingerprint(image: Image) -> int:
    """Return a number that is the same for disks that hold the same."""
    files = sorted((path, image.data[node]) for path, node in image.names.items())
    return hash((tuple(files), tuple(sorted(image.dirs))))


__all__ = ["Change", "Crash", "crashes", "fingerprint"]

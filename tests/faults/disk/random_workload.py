"""Random operations on a log on a simulated disk, each recorded in a ledger.

Everything is decided by one random source. Sizes are small, so that a few hundred operations of
the disk see segments rolled, checkpoints, compaction, thinning, retention, cuts and deletions.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

import msgspec
from tests.faults.disk.simulated_disk import SimFiles
from tests.faults.ledger import Found, Ledger, Step, Together, read_all

from mainstem.core.errors import MainstemError, StorageFull
from mainstem.core.event import Event
from mainstem.core.records import build
from mainstem.core.topic_settings import Durability, TopicSettings
from mainstem.log.disk import DiskLog
from mainstem.log.options import Options
from mainstem.log.port import PartitionId

OPTIONS = Options(
    background=False,
    large_batch_bytes=600,
    wal_step_bytes=512,
    checkpoint_wal_bytes=3_000,
    checkpoint_bytes=6_000,
    checkpoint_batches=40,
    sync_all_from=4,
)
FSYNC = TopicSettings(partitions=2, segment_bytes=1024)
DISK = TopicSettings(durability=Durability.DISK, segment_bytes=1024, segment_ms=3_000)
COMPACTED = TopicSettings(compact=True, segment_bytes=1024, tombstone_ms=5_000)
RETAINED = TopicSettings(
    retention_bytes=1_500, retention_ms=9_000, segment_bytes=1024, segment_ms=2_000
)

A0, A1 = PartitionId("a" * 32, 0), PartitionId("a" * 32, 1)
B, C, D = PartitionId("b" * 32, 0), PartitionId("c" * 32, 0), PartitionId("d" * 32, 0)
E = PartitionId("e" * 32, 0)
"""Begins under ``disk`` and is altered to ``fsync``."""
FIXED = ((A0, FSYNC), (A1, FSYNC), (B, DISK), (C, COMPACTED), (D, RETAINED), (E, DISK))

COMMITTING = ["commit", "cut_end", "append_together", "delete"]
"""What waits for a commit that is being made."""
DEEDS = {
    "append": 26,
    "append_large": 6,
    "append_run": 10,
    "append_together": 10,
    "commit": 18,
    "tick": 10,
    "checkpoint": 5,
    "cut_start": 4,
    "cut_end": 5,
    "thin": 8,
    "create": 4,
    "delete": 3,
    "alter": 2,
    "reopen": 1,
}
"""What may be done, and how often compared to the rest."""


class Life:
    """A log, its disk, and what it promised."""

    def __init__(self, files: SimFiles, rng: Random, options: Options = OPTIONS) -> None:
        self.files = files
        self.rng = rng
        self.now = 1_000_000
        self.ledger = Ledger()
        self.settings: dict[PartitionId, TopicSettings] = {}
        self.refused = 0
        self.busy = True
        """Whether nothing may be done in between now."""
        self._options = options
        self._unkept: list[Step] = []
        self._number = self._topic = 0
        self.log = self._open()
        self.opened = self.at
        """The point from which on readers were served."""
        for partition in self.log._partitions:
            self._adopt(partition)
        self.busy = False

    @property
    def at(self) -> int:
        """The point of the disk's trace."""
        return len(self.files.trace)

    @property
    def known(self) -> list[PartitionId]:
        """Every partition there is."""
        return list(self.log._partitions)

    def live(self, deeds: int, often: str | None = None) -> None:
        """Do so many things, by chance; what is refused for want of space is not done."""
        chances = DEEDS if often is None else DEEDS | {often: sum(DEEDS.values())}
        for _ in range(deeds):
            name = self.rng.choices(list(chances), list(chances.values()))[0]
            try:
                self.do(name)
            except (StorageFull, OSError):
                self.refused += 1

    def do(self, deed: str) -> None:
        """Do one thing."""
        one = self.rng.choice(self.known)
        match deed:
            case "append_large":
                self.append(one, size=700)
            case "append_together":
                self.append(*self.rng.sample(self.known, min(len(self.known), 3)))
            case "tick":
                self.now += self.rng.choice((1, 2_500, 6_000))
                self.tick()
            case "create":
                self._topic += 1
                settings = self.rng.choice((FSYNC, DISK, COMPACTED))
                # No other life on the same disk may use the same one.
                topic = f"{self._topic:04x}{self.rng.getrandbits(112):028x}"
                self.create(PartitionId(topic, 0), settings)
            case "alter":
                if E in self.known:
                    self.create(E, self.rng.choice((FSYNC, DISK)))
            case "append_runs":
                self.append_run(*self.rng.sample(self.known, min(len(self.known), 3)))
            case "append" | "append_run" | "cut_start" | "cut_end" | "thin" | "delete":
                getattr(self, deed)(one)
            case _:
                getattr(self, deed)()

    def _open(self) -> DiskLog:
        while True:
            try:
                return DiskLog.open(
                    files=self.files, now_ms=lambda: self.now, options=self._options
                )
            except (StorageFull, OSError):
                self.refused += 1

    def _adopt(self, partition: PartitionId) -> None:
        """Promise what opening has shown: readers may have seen it."""
        step = self.ledger.step(partition, 0)
        step.start, _, step.end, _, _ = self.log.bounds(partition)
        step.content = read_all(self.log, partition, 1 << 20)
        step.writes = True
        step.killproof = step.powerproof = self.at
        self.settings[partition] = self.log._partitions[partition].settings

    @contextmanager
    def _step(self, partition: PartitionId) -> Iterator[Step]:
        """Note something that is about to be done, and take it back if it was refused."""
        step = self.ledger.step(partition, self.at)
        try:
            yield step
        except (StorageFull, OSError):
            self.ledger.take_back(partition, step)
            raise

    @contextmanager
    def _alone(self) -> Iterator[None]:
        busy, self.busy = self.busy, True
        try:
            yield
        finally:
            self.busy = busy

    def create(self, partition: PartitionId, settings: TopicSettings) -> None:
        """Create or alter; durable with the next commit."""
        if self.settings.get(partition) == settings:
            return
        with self._step(partition) as step:
            self.log.ensure(partition, f"topic-{partition.topic_id[:1]}", settings)
        self.settings[partition] = settings
        step.killproof = self.at
        self._unkept.append(step)

    def append(self, *partitions: PartitionId, size: int = 0) -> None:
        """Append a batch to each partition, together if there are several."""
        given = [(partition, self._events(partition, size)) for partition in partitions]
        if self.rng.random() < 0.5:
            # As one publish to several queues: the write-ahead log has such a batch once.
            given = [(partition, given[0][1]) for partition in partitions]
        begun = self.at
        steps = [self._attempt(partition, made, begun) for partition, made in given]
        lazy = len(partitions) == 1 and self.rng.random() < 0.3
        try:
            appended = self.log.append(
                [(each, build(made, now_ms=self.now)) for each, made in given], lazy=lazy
            )
        except (StorageFull, OSError):
            for step, partition in zip(steps, partitions, strict=True):
                self.ledger.take_back(partition, step)
            raise
        durable = [self.settings[each].durability is Durability.FSYNC for each in partitions]
        for step, (_, made), offset in zip(steps, given, appended.offsets, strict=True):
            assert offset + len(made) == step.end, f"offset {offset} was given"

        def kept(error: MainstemError | None) -> None:
            for step, powerproof in zip(steps, durable, strict=True):
                if error is None:
                    step.killproof = self.at
                    step.powerproof = self.at if powerproof else step.powerproof

        for step in steps if lazy else ():
            step.killproof = self.at
        appended.durable.then(kept)
        parts = zip(partitions, appended.offsets, durable, strict=True)
        together = tuple((partition, offset) for partition, offset, power in parts if power)
        if len(together) > 1:
            self.ledger.together.append(Together(begun, together))

    def append_run(self, *partitions: PartitionId) -> None:
        """Append batches that stand for themselves, as many of them as go at once."""
        given = []
        for partition in partitions:
            sizes = self.rng.choices((0, 0, 0, 0, 0, 700), k=self.rng.randint(2, 5))
            given += [(partition, self._events(partition, size)) for size in sizes]
        begun = self.at
        steps = [self._attempt(partition, made, begun) for partition, made in given]
        places = [partition for partition, _ in given]
        try:
            appended = self.log.append(
                [(partition, build(made, now_ms=self.now)) for partition, made in given],
                together=False,
            )
        except (StorageFull, OSError):
            self._refuse_run(steps, places, 0)
            raise
        done = len(appended.offsets)
        assert done
        self._refuse_run(steps, places, done)
        for step, (_, made), offset in zip(steps, given, appended.offsets, strict=False):
            assert offset + len(made) == step.end, f"offset {offset} was given"
        durable = [self.settings[each].durability is Durability.FSYNC for each in places]

        def kept(error: MainstemError | None) -> None:
            for step, powerproof in zip(steps[:done], durable, strict=False):
                if error is None:
                    step.killproof = self.at
                    step.powerproof = self.at if powerproof else step.powerproof

        appended.durable.then(kept)

    def _refuse_run(self, steps: list[Step], places: list[PartitionId], done: int) -> None:
        """Forget what was not appended; what was tried may come back after a crash before now."""
        for at in reversed(range(done, len(steps))):
            if places[at] == places[done] not in places[:done]:
                self.ledger.refuse(places[at], steps[at], self.at)
            else:
                self.ledger.take_back(places[at], steps[at])

    def _attempt(self, partition: PartitionId, made: list[Event], begun: int) -> Step:
        step = self.ledger.step(partition, begun)
        step.add(Found(step.end + n, event.key, event.value) for n, event in enumerate(made))
        return step

    def _events(self, partition: PartitionId, size: int) -> list[Event]:
        made = []
        for _ in range(1 if size else self.rng.choice((1, 1, 1, 2, 3))):
            self._number += 1
            value: bytes | None = b"%06d" % self._number + b"." * (size or self.rng.choice((4, 40)))
            if partition == C and self.rng.random() < 0.15:
                value = None
            key = b"k%d" % self.rng.randrange(4)
            made.append(Event(value, key=key, timestamp_ms=self.now))
        return made

    def commit(self) -> None:
        """Make everything so far durable."""
        unkept, self._unkept = self._unkept, []
        sequence = self.log.committer.wal.sequence
        self.log.committer.commit()
        self.ledger.synced.append((self.at, sequence))
        for step in unkept:
            step.killproof = min(step.killproof, self.at)
            step.powerproof = self.at

    def checkpoint(self) -> None:
        """Bring the manifest up to date."""
        self.log.upkeep.checkpoint()

    def tick(self) -> None:
        """Let upkeep do what is due: retention, compaction, a checkpoint, emptying the trash."""
        begun = self.at
        steps = {}
        for partition in self.known:
            steps[partition] = step = self.ledger.step(partition, begun)
            step.thins = step.thins or self.settings[partition].compact
        try:
            self.log.upkeep.tick()
        finally:
            for partition, step in steps.items():
                if partition in self.log._partitions:
                    step.start = self.log.bounds(partition).start

    def cut_start(self, partition: PartitionId) -> None:
        """Delete the beginning of a partition; durable with the next commit."""
        start, tail = self.log.bounds(partition)[:2]
        if start == tail:
            return
        with self._step(partition) as step:
            step.start = self.rng.choice((tail, self.rng.randint(start + 1, tail)))
            self.log.cut(partition, start=step.start)
        step.killproof = self.at
        self._unkept.append(step)

    def cut_end(self, partition: PartitionId) -> None:
        """Take back the end of a partition; durable on return."""
        with self._alone():
            self.commit()
            start, tail = self.log.bounds(partition)[:2]
            end = self.rng.choice((start, tail, self.rng.randint(start, tail)))
            # What compaction took out does not come back, even if that is what outdated it.
            found = read_all(self.log, partition, 1 << 20)
            with self._step(partition) as step:
                step.end, step.content = end, [each for each in found if each.offset < end]
                # Offsets from there on are given to other events.
                step.unneeded = frozenset(each for each in step.unneeded if each < end)
                step.writes = True
                self.log.cut(partition, end=end)
            step.killproof = step.powerproof = self.at

    def thin(self, partition: PartitionId) -> None:
        """Let some events go in the next upkeep; nothing says when they must be gone."""
        if self.settings[partition].compact:
            return
        start, tail = self.log.bounds(partition)[:2]
        before = self.rng.randint(start, tail)
        but = [at for at in range(start, before) if self.rng.random() < 0.2]
        step = self.ledger.step(partition, self.at)
        step.unneeded |= set(range(start, before)).difference(but)
        self.log.thin(partition, before, but)

    def delete(self, partition: PartitionId) -> None:
        """Delete a partition, unless it is one that stays; durable with the next commit."""
        if partition in dict(FIXED):
            return
        with self._step(partition) as step:
            step.exists = False
            self.log.delete([partition])
        step.killproof = self.at
        self._unkept.append(step)

    def reopen(self) -> None:
        """Stop cleanly, and start again."""
        with self._alone():
            self.commit()
            clean = True
            try:
                self.log.close()
            except (StorageFull, OSError):
                clean = False
            self.log = self._open()
            assert self.log.recovery.clean or not clean


def born(seed: int, sync_all_from: int | None = None) -> Life:
    """Return a log with its partitions created."""
    # Some checkpoints sync file by file, some everything at once.
    options = msgspec.structs.replace(OPTIONS, sync_all_from=sync_all_from or 1 + seed % 3)
    life = Life(SimFiles(), Random(seed), options)
    # Not all of them, so that each disk is judged quickly.
    for partition, settings in (*FIXED[:2], *life.rng.sample(FIXED[2:], 2)):
        life.create(partition, settings)
    return life


def fill_now_and_then(life: Life, chance: float) -> None:
    """Let the disk refuse some of the operations that need space."""
    chances = Random(life.rng.random())

    def before(kind: str, path: str) -> None:
        needs_space = kind in ("grow", "allocate", "create", "make_dir")
        if needs_space and chances.random() < chance:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    life.files.before = before


def interrupt(life: Life, chance: float) -> None:
    """Let other threads do something while the disk is busy syncing, as they may."""
    chances = Random(life.rng.random())

    def before(kind: str, path: str) -> None:
        if kind not in ("sync", "sync_dir", "sync_all") or chances.random() >= chance:
            return
        if life.busy or life.log._lock.locked():
            return
        deeds = ["append", "append_large", "cut_start", "thin"]
        if not _is_committing(life):
            deeds += COMMITTING
        with life._alone():
            life.do(chances.choice(deeds))

    life.files.before = before


def _is_committing(life: Life) -> bool:
    return life.log.committer._committing.locked()


def interrupt_once(life: Life, number: int, deed: str) -> None:
    """Let another thread do one thing before the sync of this number, or a later one, from now."""
    left = number
    is_done = False

    def before(kind: str, path: str) -> None:
        nonlocal left, is_done
        if kind not in ("sync", "sync_dir", "sync_all"):
            return
        left -= 1
        busy = life.log._lock.locked() or (deed in COMMITTING and _is_committing(life))
        if left <= 0 and not is_done and not busy:
            is_done = True
            with life._alone():
                life.do(deed)

    life.files.before = before

"""Measures appends and reads of the log on this machine, beside raw files.

How this works: a case is an event size, a batch size, a durability and a number of partitions.
Encoded record batches are written by ``Log.append`` and read by ``Log.read``, as a protocol head
does it; then the same bytes are written to raw files in the same directory by ``pwrite`` and
``pread``, in calls of the same sizes. Log and raw files are new in every round, take turns, and are
deleted afterwards. A ratio is the median over the rounds, each compared with the raw files of the
same round, because the speed of a shared machine varies.

With ``fsync``, the log shares syncs between all waiting appends: the raw file is synced as often as
the log was. It is a single file, whatever the number of partitions, because no fewer can give this
durability. In-memory events are compared with a raw file without syncs.
"""

import gc
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from uuid import uuid4

import msgspec

from mainstem.cli.benchmarks.raw_files import RawFiles
from mainstem.core.event import Event
from mainstem.core.records import build
from mainstem.core.topic_settings import Durability, TopicSettings
from mainstem.log.disk import DiskLog
from mainstem.log.port import PartitionId

MAX_BYTES = 96 * 1024 * 1024
"""Maximum bytes written in one round, which limits the disk space needed."""
READ_BYTES = 1024 * 1024
FIRST_READ_BYTES = 32 * 1024 * 1024
FIRST_READ_BATCHES = 20_000
MAX_IN_FLIGHT = 1000
MAX_IN_FLIGHT_BYTES = 32 * 1024 * 1024
_READ_BYTES_A_TURN = 16 * 1024 * 1024
_READS = 500
_POOL = 32
_TRIAL_SECONDS = 0.02

Piece = tuple[PartitionId, bytearray]


class Case(msgspec.Struct, frozen=True):
    """A combination of event size, batch size, durability and partitions to measure."""

    event_bytes: int
    batch_events: int
    durability: Durability
    partitions: int
    threads: int = 0
    """Threads that each wait for their own append; 0: one thread with many appends in flight."""

    @property
    def bare_files(self) -> int:
        """The number of raw files to compare with: one for ``fsync``, else one per partition."""
        return 1 if self.durability is Durability.FSYNC else self.partitions


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """The speed of one case, as medians over the rounds."""

    what: str
    event_bytes: int
    batch_events: int
    durability: str
    partitions: int = 1
    threads: int = 0
    events_s: int
    mb_s: float
    """Speed of the log: millions of bytes of record batches per second."""
    raw_mb_s: float
    """Speed of raw files: millions of bytes per second."""
    ratio: float
    """Speed of the log divided by that of raw files."""
    of_one: float | None = None
    """The rate divided by that with one partition, if the two were measured alternately."""


class Turn(msgspec.Struct, frozen=True):
    """One round of a case: how much data, and the seconds taken by the log and by raw files."""

    events: int
    size: int
    seconds: float
    raw_seconds: float


def cases(durabilities: Iterable[Durability] = Durability) -> list[Case]:
    """Return all cases: two event sizes, three batch sizes, 1 and 100 partitions."""
    return [
        Case(event_bytes, batch_events, durability, partitions)
        for durability in durabilities
        for event_bytes in (100, 1000)
        for batch_events in (1, 100, 10_000)
        for partitions in (1, 100)
    ]


def measure_log(
    directory: Path, seconds: float, rounds: int, durabilities: Sequence[Durability]
) -> Iterator[Measured]:
    """Measure all cases in about ``seconds`` in total; yield each result as soon as it is known."""
    log = DiskLog.open(directory / "log", now_ms=_now_ms)
    try:
        chosen = cases(durabilities)
        fsync = Durability.FSYNC in durabilities
        ground = Ground(log, directory, seconds / (len(chosen) + 6 * fsync), rounds)
        for case in chosen:
            yield from ground.append_and_read(case)
        if fsync:
            for event_bytes, batch_events in ((100, 1), (1000, 100)):
                yield from ground.one_and_many(event_bytes, batch_events)
            for threads in (1, 16):
                yield ground.waiting(Case(100, 1, Durability.FSYNC, 1, threads))
    finally:
        log.close()
    if Durability.DISK in durabilities:
        for event_bytes, batch_events in ((100, 1), (1000, 100)):
            case = Case(event_bytes, batch_events, Durability.DISK, 1)
            yield measure_first_read(directory / "reopened", case, rounds)


def measure_first_read(directory: Path, case: Case, rounds: int) -> Measured:
    """Measure reads of data that another process wrote: the log checks it at the first read."""
    (batch, *_) = batches(case)
    count = min(FIRST_READ_BYTES // len(batch), FIRST_READ_BATCHES)
    log = DiskLog.open(directory, now_ms=_now_ms)
    topic = _Topic(log, case)
    topic.__enter__()
    _append_all(log, topic.work([batch] * count), in_flight(len(batch)))
    reads = topic.reads(len(batch))
    lengths = [length for _, _, length in reads]
    turns = []
    with RawFiles(directory, 1) as bare:
        bare.append([batch] * count, 0)
        for _ in range(rounds):
            log.close()
            log = DiskLog.open(directory, now_ms=_now_ms)
            seconds, raw_seconds = _read_all(log, reads, 1), bare.read(lengths, 1)
            turns.append(Turn(count * case.batch_events, sum(lengths), seconds, raw_seconds))
    log.delete(topic.ids)
    log.close()
    return summary("first read", case, turns)


def in_time(rounds: int, seconds: float) -> Iterator[int]:
    """Yield the numbers of rounds; after ``seconds``, stop once two fifths are done."""
    until = time.perf_counter() + seconds
    for number in range(rounds):
        if number >= rounds * 2 // 5 and time.perf_counter() > until:
            break
        yield number


def summary(what: str, case: Case, turns: Sequence[Turn], of_one: float | None = None) -> Measured:
    """Return the medians over the rounds of a case."""
    return Measured(
        what=what,
        event_bytes=case.event_bytes,
        batch_events=case.batch_events,
        durability=case.durability.value,
        partitions=case.partitions,
        threads=case.threads,
        events_s=round(median(each.events / each.seconds for each in turns)),
        mb_s=round(median(each.size / each.seconds for each in turns) / 1e6, 1),
        raw_mb_s=round(median(each.size / each.raw_seconds for each in turns) / 1e6, 1),
        ratio=round(median(each.raw_seconds / each.seconds for each in turns), 3),
        of_one=None if of_one is None else round(of_one, 3),
    )


class Ground:
    """Measures a log, and raw files in a directory on the same disk."""

    def __init__(self, log: DiskLog, directory: Path, seconds: float, rounds: int) -> None:
        self._log = log
        self._directory = directory
        self._seconds = seconds
        """Time limit in seconds for one case."""
        self._rounds = rounds
        self._turn_seconds = seconds / rounds / 5
        """Time limit in seconds for a part of a round; each has four, and creating and deleting
        files takes as long as one more.
        """

    def append_and_read(self, case: Case) -> Iterator[Measured]:
        """Measure the appends of one case, then its reads."""
        pool = batches(case)
        gc.collect()
        count = self._count(case, pool)
        appends: list[Turn] = []
        reads: list[Turn] = []
        for number in in_time(self._rounds, self._seconds):
            with self._fresh(case) as (topic, bare):
                pieces = list(islice(cycle(pool), count))
                bare_first = number % 2 == 1 and case.durability is not Durability.FSYNC
                appends.append(self._append(case, topic, bare, pieces, bare_first))
                reads.append(self._read(case, topic, bare, len(pool[0]), count))
        yield summary("append", case, appends)
        yield summary("read", case, reads)

    def one_and_many(self, event_bytes: int, batch_events: int) -> Iterator[Measured]:
        """Measure appends that wait for durability, to 1 and to 100 partitions in turn."""
        pair = [Case(event_bytes, batch_events, Durability.FSYNC, many) for many in (1, 100)]
        pool = batches(pair[0])
        count = max(self._count(pair[0], pool), 100)
        turns: dict[int, list[Turn]] = {1: [], 100: []}
        for _ in in_time(2 * self._rounds, 2 * self._seconds):
            for case in pair:
                with self._fresh(case) as (topic, bare):
                    pieces = list(islice(cycle(pool), count))
                    turns[case.partitions].append(self._append(case, topic, bare, pieces))
        of_one = median(
            one.seconds / many.seconds for one, many in zip(turns[1], turns[100], strict=True)
        )
        for case in pair:
            share = of_one if case.partitions > 1 else None
            yield summary("acknowledged", case, turns[case.partitions], share)

    def waiting(self, case: Case) -> Measured:
        """Measure appends by several threads, each of which waits until its batch is durable."""
        (batch, *_) = batches(case)
        trial = self._wait(case, batch, 5)
        each = max(5, int(self._turn_seconds / (trial.seconds / 5)))
        turns = [self._wait(case, batch, each) for _ in in_time(self._rounds, self._seconds)]
        return summary("acknowledged", case, turns)

    @contextmanager
    def _fresh(self, case: Case) -> Iterator[tuple["_Topic", RawFiles]]:
        with (
            _Topic(self._log, case) as topic,
            RawFiles(self._directory, case.bare_files) as bare,
        ):
            yield topic, bare

    def _count(self, case: Case, pool: list[bytearray]) -> int:
        """Return how many batches can be appended in a part of a round, within ``MAX_BYTES``."""
        most = max(MAX_BYTES // len(pool[0]), 2)
        count = 2
        # Tried with one partition, as creating a hundred takes longer than a part of a round.
        with _Topic(self._log, msgspec.structs.replace(case, partitions=1)) as topic:
            while True:
                pieces = list(islice(cycle(pool), count))
                seconds = _append_all(self._log, topic.work(pieces), in_flight(len(pool[0])))
                if count >= most or seconds >= min(_TRIAL_SECONDS, self._turn_seconds):
                    break
                count *= 4
        return max(min(most, int(count * self._turn_seconds / seconds)), 2)

    def _append(
        self,
        case: Case,
        topic: "_Topic",
        bare: RawFiles,
        pieces: list[bytearray],
        bare_first: bool = False,
    ) -> Turn:
        work = topic.work(pieces)
        raw_seconds = bare.append(pieces, 0) if bare_first else 0.0
        before = self._log.committer.syncs
        seconds = _append_all(self._log, work, in_flight(len(pieces[0])))
        if not bare_first:
            fsync = case.durability is Durability.FSYNC
            raw_seconds = bare.append(pieces, self._log.committer.syncs - before if fsync else 0)
        size = sum(map(len, pieces))
        return Turn(len(pieces) * case.batch_events, size, seconds, raw_seconds)

    def _read(
        self, case: Case, topic: "_Topic", bare: RawFiles, batch_bytes: int, count: int
    ) -> Turn:
        reads = topic.reads(batch_bytes)
        passes = max(1, min(_READ_BYTES_A_TURN // (count * batch_bytes), _READS // len(reads)))
        seconds = _read_all(self._log, reads, passes)
        raw_seconds = bare.read([length for _, _, length in reads], passes)
        events = count * passes * case.batch_events
        return Turn(events, sum(length for _, _, length in reads) * passes, seconds, raw_seconds)

    def _wait(self, case: Case, batch: bytearray, each: int) -> Turn:
        with self._fresh(case) as (topic, bare):
            before = self._log.committer.syncs
            seconds = in_threads(
                case.threads,
                lambda: _append_and_wait(self._log, topic.ids[0], bytearray(batch), each),
            )
            syncs = self._log.committer.syncs - before
            raw_seconds = bare.append([batch] * (each * case.threads), syncs)
            count = each * case.threads
            return Turn(count * case.batch_events, count * len(batch), seconds, raw_seconds)


class _Topic:
    """A new topic in the log; deleted at the end, so that its data is not synced later."""

    def __init__(self, log: DiskLog, case: Case) -> None:
        self._log = log
        self._case = case
        self._topic_id = uuid4().hex
        self.ids = [PartitionId(self._topic_id, number) for number in range(case.partitions)]

    def __enter__(self) -> "_Topic":
        settings = TopicSettings(durability=self._case.durability, partitions=len(self.ids))
        first = build([Event(b"first")], now_ms=0)
        for each in self.ids:
            self._log.ensure(each, "bench", settings)
        # Create the files before the clock starts, as for the raw files.
        promises = [self._log.append([(each, first)]).durable for each in self.ids]
        for promise in promises:
            promise.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._log.delete(self.ids)
        self._log.upkeep.tick()

    def work(self, pieces: Sequence[bytearray]) -> list[list[Piece]]:
        """Distribute batches over the partitions, round robin, as pairs of partition and batch."""
        return [[(each, piece)] for each, piece in zip(cycle(self.ids), pieces, strict=False)]

    def reads(self, batch_bytes: int) -> list[tuple[PartitionId, int, int]]:
        """Return reads that cover all data: partition, offset and maximum bytes of each."""
        found = []
        for each in self.ids:
            offset, tail = 1, self._log.bounds(each).tail
            while offset < tail:
                length = self._log.read(each, offset, READ_BYTES).length
                found.append((each, offset, length))
                offset += length // batch_bytes * self._case.batch_events
        return found


def batches(case: Case) -> list[bytearray]:
    """Return a few record batches of one case, of equal size, each in memory of its own."""
    size = case.event_bytes * case.batch_events
    count = max(1, min(_POOL, MAX_IN_FLIGHT_BYTES // 4 // size))
    batch = build([Event(os.urandom(case.event_bytes))] * case.batch_events, now_ms=0)
    return [bytearray(batch) for _ in range(count)]


def in_flight(batch_bytes: int) -> int:
    """Return how many batches of this size may wait for durability at a time."""
    return max(2, min(MAX_IN_FLIGHT, MAX_IN_FLIGHT_BYTES // batch_bytes))


def in_threads(count: int, work: Callable[[], None]) -> float:
    """Call ``work`` in ``count`` threads at once; return how many seconds all of them took."""
    ready = threading.Barrier(count + 1)

    def run() -> None:
        ready.wait()
        work()

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    ready.wait()
    began = time.perf_counter()
    for thread in threads:
        thread.join()
    return time.perf_counter() - began


def _append_all(log: DiskLog, work: Sequence[list[Piece]], window: int) -> float:
    append = log.append
    waiting: deque[Callable[[], bool]] = deque()
    began = time.perf_counter()
    for item in work:
        waiting.append(append(item).durable.wait)
        if len(waiting) > window:
            waiting.popleft()()
    for wait in waiting:
        wait()
    return time.perf_counter() - began


def _append_and_wait(log: DiskLog, partition: PartitionId, batch: bytearray, count: int) -> None:
    for _ in range(count):
        log.append([(partition, batch)]).durable.wait()


def _read_all(log: DiskLog, reads: Sequence[tuple[PartitionId, int, int]], passes: int) -> float:
    read = log.read
    began = time.perf_counter()
    for _ in range(passes):
        for partition, offset, _ in reads:
            read(partition, offset, READ_BYTES).tobytes()
    return time.perf_counter() - began


def _now_ms() -> int:
    return time.time_ns() // 1_000_000

"""Measures the Python API (``mainstem.open``) beside raw files."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from mainstem.cli.benchmarks.log import (
    MAX_BYTES,
    Case,
    Measured,
    Turn,
    batches,
    in_threads,
    in_time,
    summary,
)
from mainstem.cli.benchmarks.raw_files import RawFiles
from mainstem.core.event import Event
from mainstem.core.topic_settings import Durability

if TYPE_CHECKING:
    from mainstem.client.stem import Stem

_WRITTEN_AT_ONCE = 768 * 1024
_READ_AT_ONCE = 1024 * 1024
_SYNCED_AT_ONCE = 16 * 1024 * 1024
_TRIAL = 2000


class Api:
    """Measures the Python API on a new log, alternating with raw files."""

    def __init__(self, stem: "Stem", directory: Path, seconds: float, rounds: int) -> None:
        self._stem = stem
        self._directory = directory
        self._rounds = rounds
        self._seconds = seconds / 14
        """Time limit in seconds per measurement; there are about fourteen measurements."""
        self._turn_seconds = self._seconds / rounds / 2
        self._topics = 0

    def measure(self, durabilities: Sequence[Durability]) -> Iterator[Measured]:
        """Measure publish, publish_many and subscribe."""
        one = [Case(100, 1, durability, 1, threads=1) for durability in durabilities]
        if Durability.FSYNC in durabilities:
            one.append(Case(100, 1, Durability.FSYNC, 1, threads=16))
        for case in one:
            yield summary("publish", case, self._turns(case, self._publish))
        for size in (100, 1000):
            for durability in durabilities:
                # As many events as publish_many puts into one batch, where each event counts 150
                # bytes
                case = Case(size, _WRITTEN_AT_ONCE // (size + 150), durability, 1)
                yield summary("publish_many", case, self._turns(case, self._publish_many))
        if Durability.DISK in durabilities:
            for size in (100, 1000):
                for batch_events in (1, _WRITTEN_AT_ONCE // (size + 150)):
                    case = Case(size, batch_events, Durability.DISK, 1)
                    yield summary("subscribe", case, self._turns(case, self._subscribe))

    def _turns(self, case: Case, turn: Callable[[Case, int], Turn]) -> list[Turn]:
        count = _TRIAL // 10 if case.durability is Durability.FSYNC else _TRIAL
        most = MAX_BYTES // (case.event_bytes + 75)
        rate = count / turn(case, count).seconds
        count = max(count, min(round(rate * self._turn_seconds), most))
        return [turn(case, count) for _ in in_time(self._rounds, self._seconds)]

    def _publish(self, case: Case, count: int) -> Turn:
        value = os.urandom(case.event_bytes)
        each = max(count // case.threads, 1)
        count = each * case.threads
        (batch, *_) = batches(case)
        with self._topic(case) as topic, RawFiles(self._directory, 1) as bare:
            publish = self._stem.publish

            def work() -> None:
                for _ in range(each):
                    publish(topic, value)

            seconds = in_threads(case.threads, work)
            # With several threads, as many syncs as the threads need if they share them.
            syncs = each if case.durability is Durability.FSYNC else 0
            raw_seconds = bare.append([batch] * count, syncs)
        return Turn(count, count * len(batch), seconds, raw_seconds)

    def _publish_many(self, case: Case, count: int) -> Turn:
        events = [Event(os.urandom(case.event_bytes))] * count
        with self._topic(case) as topic, RawFiles(self._directory, 1) as bare:
            began = time.perf_counter()
            self._stem.publish_many(topic, events)
            seconds = time.perf_counter() - began
            size = self._stem.topics.show(topic).size_bytes or 0
            fsync = case.durability is Durability.FSYNC
            syncs = max(size // _SYNCED_AT_ONCE, 1) if fsync else 0
            raw_seconds = bare.append(_pieces(size, _WRITTEN_AT_ONCE), syncs)
        return Turn(count, size, seconds, raw_seconds)

    def _subscribe(self, case: Case, count: int) -> Turn:
        value = os.urandom(case.event_bytes)
        with self._topic(case) as topic, RawFiles(self._directory, 1) as bare:
            if case.batch_events == 1:
                for _ in range(count):
                    self._stem.publish(topic, value)
            else:
                self._stem.publish_many(topic, (value for _ in range(count)))
            size = self._stem.topics.show(topic).size_bytes or 0
            pieces = _pieces(size, _READ_AT_ONCE)
            bare.append(pieces, 0)
            began = time.perf_counter()
            read = sum(1 for _ in self._stem.subscribe(topic, follow=False))
            seconds = time.perf_counter() - began
            raw_seconds = bare.read([len(piece) for piece in pieces], 1)
        assert read == count, f"published {count} events, read {read}"
        return Turn(count, size, seconds, raw_seconds)

    @contextmanager
    def _topic(self, case: Case) -> Iterator[str]:
        self._topics += 1
        name = f"bench-{self._topics}"
        self._stem.topics.create(name, durability=case.durability)
        # Create the files before the clock starts, as for the raw files.
        self._stem.publish(name, b"")
        self._stem.topics.trim(name, "latest")
        try:
            yield name
        finally:
            self._stem.topics.delete(name)


def _pieces(size: int, length: int) -> list[bytearray]:
    whole, rest = divmod(size, length)
    return [bytearray(length)] * whole + ([bytearray(rest)] if rest else [])

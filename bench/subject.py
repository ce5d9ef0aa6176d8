"""A process with a log of a certain size, which does and times what its parent asks for.

``subject.py serve DIR TOPICS GIGABYTES`` makes the log unless it is there, then answers one line
with one line of JSON. ``subject.py open DIR`` opens and closes a log, and tells how long opening
took.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import cycle, islice
from pathlib import Path

import mainstem
from mainstem.client.embedded.stem import EmbeddedStem
from mainstem.core.event import Event
from mainstem.core.records import build
from mainstem.core.topic_settings import Durability, TopicSettings

MAIN = "main"
ONES = 20_000
RAW_FILES = 4_000
"""Not as many as there may be topics: the log has its own files open meanwhile."""
HUNDREDS = 300
CRASH_ONES = 100_000
CRASH_BYTES = 400_000_000
VALUE = bytes(range(100))
SETTINGS = TopicSettings(durability=Durability.DISK)


class Subject:
    """A log with so many topics, and so much in one of them."""

    def __init__(self, directory: Path, topics: int, gigabytes: float) -> None:
        self._stem: EmbeddedStem = mainstem.open(directory)
        self._raw = directory.with_name(directory.name + "-raw")
        self._raw.mkdir(exist_ok=True)
        self._topics = [MAIN, *(f"topic-{number}" for number in range(1, topics))]
        if self._stem.topics.list(MAIN):
            return
        done = [self._stem.node.broker.create_topic(name, SETTINGS) for name in self._topics]
        done[-1].durable.wait()
        for name in self._topics:
            self._stem.publish(name, VALUE)
        self._fill(gigabytes * 1e9)

    def publish_one(self) -> float:
        """Publish one event at a time to one topic; return events per second."""
        return self._publish([MAIN] * ONES)

    def publish_one_spread(self) -> float:
        """Do the same with all topics in turn."""
        return self._publish(list(islice(cycle(self._topics), ONES)))

    def raw_spread(self) -> float:
        """Write the bytes of one event at a time to as many bare files in turn, for comparison."""
        batch = build([Event(VALUE)], now_ms=0)
        names = self._topics[:RAW_FILES]
        files = [os.open(self._raw / name, os.O_RDWR | os.O_CREAT) for name in names]
        ends = [os.fstat(file).st_size for file in files]
        order = list(islice(cycle(range(len(files))), ONES))
        with _Clock() as clock:
            for number in order:
                os.pwrite(files[number], batch, ends[number])
                ends[number] += len(batch)
        for file in files:
            os.close(file)
        return len(order) / clock.seconds

    def publish_hundred(self) -> float:
        """Publish a hundred events at a time to one topic; return events per second."""
        return self._publish_many([MAIN] * HUNDREDS)

    def publish_hundred_spread(self) -> float:
        """Do the same with all topics in turn."""
        return self._publish_many(list(islice(cycle(self._topics), HUNDREDS)))

    def read(self) -> float:
        """Read the newest events of one topic; return events per second."""
        tail = self._stem.topics.show(MAIN).partitions[0].tail
        return self._read(max(0, tail - ONES))

    def read_oldest(self) -> float:
        """Read the first events of one topic, written first of all."""
        return self._read(0)

    def read_spread(self) -> float:
        """Read the newest event of every topic through one subscription; events per second."""
        tails = {topic: self._stem.topics.show(topic).partitions[0].tail for topic in self._topics}
        count = 0
        with _Clock() as clock:
            for topic, tail in islice(tails.items(), 1000):
                for _ in self._stem.subscribe(topic, start=tail - 1, follow=False):
                    count += 1
        return count / clock.seconds

    def memory(self) -> float:
        """Return the resident memory in MB."""
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024 / 1e6
        return 0.0

    def close(self) -> float:
        """Stop cleanly; return seconds."""
        with _Clock() as clock:
            self._stem.close()
        return clock.seconds

    def crash_in_large_batches(self) -> float:
        """Leave much for recovery to read: as many bytes as may wait for a checkpoint."""
        self._fill(CRASH_BYTES)
        return 0.0

    def crash_in_events(self) -> float:
        """Leave many small batches for recovery to read, over all topics."""
        return self._publish(list(islice(cycle(self._topics), CRASH_ONES)))

    def _fill(self, size: float) -> None:
        batch = build([Event(bytes(1000))] * 1000, now_ms=0)
        for _ in range(round(size / len(batch))):
            self._stem.node.broker.append_batches(MAIN, [(0, batch)])

    def _publish(self, topics: list[str]) -> float:
        publish = self._stem.publish
        with _Clock() as clock:
            for topic in topics:
                publish(topic, VALUE)
        return len(topics) / clock.seconds

    def _publish_many(self, topics: list[str]) -> float:
        events = [VALUE] * 100
        with _Clock() as clock:
            for topic in topics:
                self._stem.publish_many(topic, events)
        return 100 * len(topics) / clock.seconds

    def _read(self, start: int) -> float:
        with _Clock() as clock:
            events = self._stem.subscribe(MAIN, start=start, follow=False)
            count = sum(1 for _ in islice(events, ONES))
            events.close()
        return count / clock.seconds


class _Clock:
    """Times a block."""

    def __enter__(self) -> "_Clock":
        self._began = time.perf_counter()
        self.seconds = 0.0
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.perf_counter() - self._began


def serve(directory: Path, topics: int, gigabytes: float) -> None:
    subject = Subject(directory, topics, gigabytes)
    _answer({"ready": True})
    for line in sys.stdin:
        measure: Callable[[], float] = getattr(subject, line.strip())
        _answer({"value": measure()})


def open_once(directory: Path) -> None:
    with _Clock() as clock:
        stem = mainstem.open(directory)
    report = stem.recovery
    assert report is not None
    stem.close()
    _answer({"seconds": clock.seconds, "clean": report.clean, "scanned": report.scanned_bytes})


def _answer(answer: dict[str, object]) -> None:
    print(json.dumps(answer), flush=True)


@contextmanager
def _quietly() -> Iterator[None]:
    """End without a traceback when the parent is gone."""
    try:
        yield
    except (BrokenPipeError, KeyboardInterrupt):
        sys.exit(1)


if __name__ == "__main__":
    with _quietly():
        if sys.argv[1] == "open":
            open_once(Path(sys.argv[2]))
        else:
            serve(Path(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))

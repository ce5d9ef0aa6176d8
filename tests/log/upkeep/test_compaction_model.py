"""Compaction against a list: whatever happens, what must be kept is there, at its offset."""

import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

from hypothesis import Phase
from hypothesis import settings as examples
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test
from tests.log.log_directory import ORDERS, Clock, open_log

from mainstem.core.batch import batches, read_header
from mainstem.core.event import Event
from mainstem.core.records import build, events
from mainstem.core.topic_settings import Durability, TopicSettings
from mainstem.log.port import TimedOffset
from mainstem.log.upkeep import compaction

TOMBSTONE_MS = 10_000
KEYS = (b"a", b"b", b"c", b"a key that is longer than its digest", None)
DEEDS = (
    *("append",) * 8,
    *("tick",) * 4,
    "checkpoint",
    "cut start",
    "reopen",
    "crash",
)
SHM = Path("/dev/shm")
MAX_KEYS = compaction.MAX_KEYS


class Written(NamedTuple):
    """An event as the model knows it."""

    offset: int
    key: bytes | None
    value: bytes | None
    time_ms: int


class CompactedLog(RuleBasedStateMachine):
    """A compacted partition, and the list of everything that was ever written to it."""

    outdated = 0
    """How many events compaction dropped in all runs."""

    def __init__(self) -> None:
        super().__init__()
        self.path = Path(tempfile.mkdtemp(dir=SHM if SHM.is_dir() else None))
        self.clock = Clock()
        self.log = open_log(self.path, self.clock, checkpoint_batches=12)
        self.written: list[Written] = []
        self.gone: set[Written] = set()
        self.start = 0

    @initialize(
        durability=st.sampled_from([Durability.DISK, Durability.FSYNC]),
        segment_bytes=st.sampled_from([300, 1000]),
        max_keys=st.sampled_from([MAX_KEYS, 2]),
    )
    def create(self, durability: Durability, segment_bytes: int, max_keys: int) -> None:
        compaction.MAX_KEYS = max_keys
        settings = TopicSettings(
            durability=durability,
            compact=True,
            tombstone_ms=TOMBSTONE_MS,
            segment_bytes=segment_bytes,
            segment_ms=5_000,
        )
        self.log.ensure(ORDERS, "orders", settings)

    def teardown(self) -> None:
        compaction.MAX_KEYS = MAX_KEYS
        type(self).outdated += len(self.gone)
        self.log.close()
        shutil.rmtree(self.path)

    # One rule, since hypothesis leaves whole rules out of some runs.
    @rule(deed=st.sampled_from(DEEDS), data=st.data())
    def step(self, deed: str, data: st.DataObject) -> None:
        if deed == "append":
            self.append(data)
        elif deed == "tick":
            self.tick(data.draw(st.sampled_from([0, 1_000, 6_000, 30_000])))
        elif deed == "checkpoint":
            self.log.upkeep.checkpoint()
        elif deed == "cut start":
            self.start = data.draw(st.integers(self.start, len(self.written)))
            self.log.cut(ORDERS, start=self.start)
        elif deed == "reopen":
            self.log.close()
            self.log = open_log(self.path, self.clock, checkpoint_batches=12)
        else:
            self.log.committer.commit()
            self.log._files.unlock()
            self.log = open_log(self.path, self.clock, checkpoint_batches=12)
        self.check(everywhere=deed != "append")

    def append(self, data: st.DataObject) -> None:
        drawn = data.draw(
            st.lists(
                st.tuples(
                    st.sampled_from(KEYS),
                    st.one_of(st.none(), st.integers(0, 60)),
                    st.sampled_from([0, 0, 0, 7_000, 20_000]),
                ),
                min_size=1,
                max_size=6,
            )
        )
        fresh = []
        for key, size, age_ms in drawn:
            offset = len(self.written)
            value = None if size is None else b"%d" % offset + b"." * size
            fresh.append(Written(offset, key, value, self.clock.now_ms - age_ms))
            self.written.append(fresh[-1])
        batch = build(
            [Event(each.value, each.key, timestamp_ms=each.time_ms) for each in fresh],
            now_ms=0,
            compression=data.draw(st.sampled_from(["none", "none", "gzip"])),
        )

        appended = self.log.append([(ORDERS, batch)])
        self.log.committer.commit()

        assert appended.offsets == [fresh[0].offset]

    def tick(self, later_ms: int) -> None:
        self.clock.now_ms += later_ms
        before = self.log.bounds(ORDERS)

        self.log.upkeep.tick()

        after = self.log.bounds(ORDERS)
        assert (after.start, after.tail, after.end) == (before.start, before.tail, before.end)
        assert after.epoch == before.epoch

    def check(self, *, everywhere: bool) -> None:
        tail = len(self.written)
        assert self.log.bounds(ORDERS)[:3] == (self.start, tail, tail)
        kept = self.read(self.start)
        self.check_kept(kept)
        if everywhere:
            for offset in range(self.start, tail + 1):
                assert self.read(offset) == [each for each in kept if each.offset >= offset]
            for time_ms in {each.time_ms for each in self.written[-20:]}:
                late = [each for each in kept if each.time_ms >= time_ms]
                first = TimedOffset(late[0].offset, late[0].time_ms) if late else None
                assert self.log.offset_at(ORDERS, time_ms) == first

    def read(self, offset: int) -> list[Written]:
        """Read as a consumer does, from an offset to the tail."""
        found: list[Written] = []
        position = offset
        while data := self.log.read(ORDERS, position, 2_000).tobytes():
            for batch in batches(data):
                found += [
                    Written(each.offset, each.key, each.value, each.timestamp_ms)
                    for each in events(batch, from_offset=offset)
                ]
                position = read_header(batch).last_offset + 1
        return found

    def check_kept(self, kept: list[Written]) -> None:
        readable = self.written[self.start :]
        as_written = set(kept)
        assert kept == [each for each in readable if each in as_written]
        assert not self.gone & as_written, "what compaction dropped has come back"
        self.gone |= set(readable) - as_written
        for key in KEYS:
            history = [each for each in readable if each.key == key]
            have = [each for each in kept if each.key == key]
            if key is None:
                assert have == history
            elif have or not history:
                # Only what is older than all that is kept may be missing.
                assert have == history[len(history) - len(have) :]
            else:
                latest = history[-1]
                assert latest.value is None
                assert latest.time_ms < self.clock.now_ms - TOMBSTONE_MS


def test_compaction_keeps_what_it_must_whatever_happens_around_it() -> None:
    CompactedLog.outdated = 0

    run_state_machine_as_test(
        CompactedLog,
        # Making a failure smaller takes minutes: add Phase.shrink to find out what it is about.
        settings=examples(max_examples=60, stateful_step_count=40, phases=[Phase.generate]),
    )

    assert CompactedLog.outdated > 100

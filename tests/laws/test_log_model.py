"""Every log against a trivial model: a list of events per partition."""

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from tests.laws.log_implementations import (
    DURABLE,
    FACTORIES,
    FIRST,
    SECOND,
    Calls,
    OpenLog,
    all_events,
    batch_of,
    events_in,
    open_partitions,
)

from mainstem.core.errors import OffsetOutOfRange, UnknownPartition
from mainstem.log.disk import DiskLog
from mainstem.log.port import PartitionId

Timed = list[tuple[bytes, int]]
DEEDS = ["append"] * 4 + ["append apart"] * 2 + ["read"] * 2 + ["search"] * 2 + ["cut end"] * 2
DEEDS += ["cut start", "thin", "watch", "delete", "reopen"]

times = st.integers(0, 12)
which = st.sampled_from([0, 1])
timed = st.lists(st.tuples(st.binary(max_size=20), times), min_size=1, max_size=4)


class Model:
    """What one partition should hold: the events by offset, and where it starts."""

    def __init__(self) -> None:
        self.events: list[tuple[bytes, int]] = []
        self.start = 0
        self.gone: set[int] = set()
        """The offsets of events that thinning has taken out."""

    @property
    def tail(self) -> int:
        return len(self.events)

    def visible(self) -> list[tuple[int, bytes]]:
        return [
            (offset, value)
            for offset, (value, _) in enumerate(self.events)
            if offset >= self.start and offset not in self.gone
        ]

    def at(self, timestamp_ms: int) -> tuple[int, int] | None:
        for offset, (_, time) in enumerate(self.events):
            if offset >= self.start and offset not in self.gone and time >= timestamp_ms:
                return offset, time
        return None


class Watch:
    """A watch that a test set, and whether it should have been called."""

    def __init__(self, offset: int) -> None:
        self.offset = offset
        self.wake = Calls()
        self.due = False


class EveryLog(RuleBasedStateMachine):
    """Does to a log whatever may be done to it, and to the model beside it."""

    name: str

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.log: OpenLog = FACTORIES[self.name](self.directory)
        self.models: dict[PartitionId, Model] = {}
        self.watches: dict[PartitionId, list[Watch]] = {}
        self.made = 0
        self.create(FIRST)
        self.create(SECOND)

    def create(self, partition: PartitionId) -> None:
        open_partitions(self.log, partition)
        self.models[partition] = Model()
        self.watches[partition] = []

    @rule(
        deed=st.sampled_from(DEEDS),
        at=which,
        batches=st.lists(st.tuples(which, timed), min_size=1, max_size=3),
        number=st.integers(0, 12),
    )
    def anything(self, deed: str, at: int, batches: list[tuple[int, Timed]], number: int) -> None:
        """Do one thing: a single rule, as Hypothesis would leave most of several out of a run."""
        partitions = list(self.models)
        partition = partitions[at]
        match deed:
            case "append":
                self.append([(partitions[each], events) for each, events in batches])
            case "append apart":
                self.append([(partition, events) for _, events in batches], together=False)
            case "cut start" | "cut end" | "thin":
                getattr(self, deed.replace(" ", "_"))(partition, number)
            case "delete":
                self.delete_and_create(partition)
            case "read":
                self.read(partition, number, max_bytes=number * 40)
            case "search":
                self.search(partition, number)
            case "watch":
                self.watch(partition, number % 4)
            case _ if self.name in DURABLE:
                self.reopen()

    def append(self, batches: list[tuple[PartitionId, Timed]], *, together: bool = True) -> None:
        expected = []
        for partition, events in batches:
            expected.append(self.models[partition].tail)
            self.models[partition].events += events

        appended = self.log.append(
            [
                (partition, batch_of(*(v for v, _ in events), timestamps_ms=[t for _, t in events]))
                for partition, events in batches
            ],
            together=together,
        )

        assert appended.durable.wait(30)
        assert appended.offsets == expected
        for partition, watches in self.watches.items():
            for watch in watches:
                watch.due |= self.models[partition].tail > watch.offset

    def cut_start(self, partition: PartitionId, number: int) -> None:
        model = self.models[partition]
        start = min(model.start + number, model.tail)

        self.log.cut(partition, start=start)

        model.start = start

    def cut_end(self, partition: PartitionId, number: int) -> None:
        model = self.models[partition]
        end = max(model.tail - number, model.start)
        while end - 1 in model.gone:
            # As after compaction, there would be no event left to find before the tail.
            end += 1

        self.log.cut(partition, end=end)

        del model.events[end:]
        model.gone = {offset for offset in model.gone if offset < end}

    def thin(self, partition: PartitionId, number: int) -> None:
        model = self.models[partition]
        before = max(model.tail - number, model.start)
        unneeded = {at for at in range(model.start, before) if at % 5}

        self.log.thin(partition, before, [at for at in range(before) if at not in unneeded])
        if isinstance(self.log, DiskLog):
            self.log.upkeep.tick()
        # Otherwise more might go later, when nobody expects it.
        self.log.thin(partition, 0, [])

        left = {offset for offset, _ in all_events(self.log, partition)}
        model.gone |= unneeded - left

    def delete_and_create(self, partition: PartitionId) -> None:
        self.log.delete([partition])
        assert all(watch.wake.count == 1 for watch in self.watches.pop(partition))
        del self.models[partition]
        with pytest.raises(UnknownPartition):
            self.log.bounds(partition)

        # Ids of topics are never used again.
        self.made += 1
        self.create(PartitionId(f"{self.made:032x}", 0))

    def read(self, partition: PartitionId, offset: int, max_bytes: int) -> None:
        model = self.models[partition]
        if not model.start <= offset <= model.tail:
            with pytest.raises(OffsetOutOfRange):
                self.log.read(partition, offset, max_bytes)
            return

        found = events_in(self.log.read(partition, offset, max_bytes))

        expected = [each for each in model.visible() if each[0] >= offset]
        ahead = [each for each in found if each[0] >= offset]
        assert ahead == expected[: len(ahead)]
        # A batch that holds the offset may have only earlier events left.
        assert bool(ahead) == bool(expected) or model.gone

    def search(self, partition: PartitionId, timestamp_ms: int) -> None:
        found = self.log.offset_at(partition, timestamp_ms)

        assert found == self.models[partition].at(timestamp_ms)

    def watch(self, partition: PartitionId, ahead: int) -> None:
        watch = Watch(self.models[partition].tail + ahead)
        self.log.watch(partition, watch.offset, watch.wake)
        self.watches[partition].append(watch)

    def reopen(self) -> None:
        self.log.close()
        assert all(watch.wake.count == 1 for each in self.watches.values() for watch in each)

        self.log = FACTORIES[self.name](self.directory)
        open_partitions(self.log, *self.models)
        self.watches = {partition: [] for partition in self.models}

    @invariant()
    def holds_what_the_model_holds(self) -> None:
        for partition, model in self.models.items():
            assert self.log.bounds(partition)[:3] == (model.start, model.tail, model.tail)
            assert all_events(self.log, partition) == model.visible()

    @invariant()
    def every_watch_that_is_due_was_called_once(self) -> None:
        for watches in self.watches.values():
            for watch in watches:
                if watch.due:
                    assert watch.wake.woken.wait(30)
                assert watch.wake.count == watch.due

    def teardown(self) -> None:
        self.log.close()
        shutil.rmtree(self.directory)


@pytest.mark.parametrize("name", sorted(FACTORIES))
def test_a_log_does_what_a_list_would(name: str) -> None:
    machine = type("Machine", (EveryLog,), {"name": name})
    # A step on disk costs an fsync or two.
    examples = 30 if name in DURABLE else 60

    run_state_machine_as_test(
        machine, settings=settings(max_examples=examples, stateful_step_count=40)
    )

"""Every log against a model that cannot be wrong: a list of events per partition."""

import shutil
import tempfile
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.laws.logs import (
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

from mainstem.core.errors import OffsetOutOfRange
from mainstem.log.port import PartitionId

times = st.integers(0, 50)
partitions = st.sampled_from([FIRST, SECOND])
timed = st.lists(st.tuples(st.binary(max_size=20), times), min_size=1, max_size=4)


class Model:
    """What one partition should hold: the events by offset, and where it starts."""

    def __init__(self) -> None:
        self.events: list[tuple[bytes, int]] = []
        self.start = 0

    @property
    def tail(self) -> int:
        return len(self.events)

    def visible(self) -> list[tuple[int, bytes]]:
        return [
            (offset, value) for offset, (value, _) in enumerate(self.events) if offset >= self.start
        ]

    def at(self, timestamp_ms: int) -> tuple[int, int] | None:
        for offset, (_, time) in enumerate(self.events):
            if offset >= self.start and time >= timestamp_ms:
                return offset, time
        return None


class EveryLog(RuleBasedStateMachine):
    """Does to a log whatever may be done to it, and to the model beside it."""

    name: str

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.log: OpenLog = FACTORIES[self.name](self.directory)

    @initialize()
    def create(self) -> None:
        open_partitions(self.log)
        self.ids = {FIRST: FIRST, SECOND: SECOND}
        self.models = {FIRST: Model(), SECOND: Model()}
        self.watches: dict[PartitionId, list[tuple[int, Calls]]] = {FIRST: [], SECOND: []}

    @rule(batches=st.lists(st.tuples(partitions, timed), min_size=1, max_size=3))
    def append(self, batches: list[tuple[PartitionId, list[tuple[bytes, int]]]]) -> None:
        expected = []
        for partition, events in batches:
            expected.append(self.models[partition].tail)
            self.models[partition].events += events

        appended = self.log.append(
            [
                (
                    self.ids[partition],
                    batch_of(
                        *(value for value, _ in events),
                        timestamps_ms=[time for _, time in events],
                    ),
                )
                for partition, events in batches
            ]
        )

        assert appended.durable.wait(30)
        assert appended.offsets == expected

    @rule(partition=partitions, data=st.data())
    def cut_start(self, partition: PartitionId, data: st.DataObject) -> None:
        model = self.models[partition]
        start = data.draw(st.integers(model.start, model.tail))

        self.log.cut(self.ids[partition], start=start)

        model.start = start

    @rule(partition=partitions, data=st.data())
    def cut_end(self, partition: PartitionId, data: st.DataObject) -> None:
        model = self.models[partition]
        end = data.draw(st.integers(model.start, model.tail))

        self.log.cut(self.ids[partition], end=end)

        del model.events[end:]

    @rule(partition=partitions)
    def delete_and_create(self, partition: PartitionId) -> None:
        self.log.delete([self.ids[partition]])
        assert all(wake.count == 1 for _, wake in self.watches[partition])

        # The id of a topic is never used again.
        self.ids[partition] = PartitionId(uuid4().hex, partition.number)
        open_partitions(self.log, self.ids[partition])
        self.models[partition] = Model()
        self.watches[partition] = []

    @rule(partition=partitions, offset=st.integers(0, 12), max_bytes=st.integers(0, 400))
    def read(self, partition: PartitionId, offset: int, max_bytes: int) -> None:
        model = self.models[partition]
        if not model.start <= offset <= model.tail:
            with pytest.raises(OffsetOutOfRange):
                self.log.read(self.ids[partition], offset, max_bytes)
            return

        found = events_in(self.log.read(self.ids[partition], offset, max_bytes))

        expected = [each for each in model.visible() if each[0] >= offset]
        ahead = [each for each in found if each[0] >= offset]
        assert ahead == expected[: len(ahead)]
        assert bool(ahead) == bool(expected)

    @rule(partition=partitions, timestamp_ms=times)
    def search(self, partition: PartitionId, timestamp_ms: int) -> None:
        found = self.log.offset_at(self.ids[partition], timestamp_ms)

        assert found == self.models[partition].at(timestamp_ms)

    @rule(partition=partitions, ahead=st.integers(0, 3))
    def watch(self, partition: PartitionId, ahead: int) -> None:
        offset, wake = self.models[partition].tail + ahead, Calls()
        self.log.watch(self.ids[partition], offset, wake)
        self.watches[partition].append((offset, wake))

    @precondition(lambda self: self.name in DURABLE)
    @rule()
    def reopen(self) -> None:
        self.log.close()
        assert all(wake.count == 1 for each in self.watches.values() for _, wake in each)

        self.log = FACTORIES[self.name](self.directory)
        open_partitions(self.log, *self.ids.values())
        self.watches = {FIRST: [], SECOND: []}

    @invariant()
    def holds_what_the_model_holds(self) -> None:
        for partition, model in getattr(self, "models", {}).items():
            assert self.log.bounds(self.ids[partition])[:3] == (model.start, model.tail, model.tail)
            assert all_events(self.log, self.ids[partition]) == model.visible()

    @invariant()
    def every_watch_that_is_due_was_called_once(self) -> None:
        for partition, watches in getattr(self, "watches", {}).items():
            tail = self.models[partition].tail
            for offset, wake in watches:
                if tail > offset:
                    assert wake.woken.wait(30)
                assert wake.count <= 1

    def teardown(self) -> None:
        self.log.close()
        shutil.rmtree(self.directory)


@pytest.mark.parametrize("name", sorted(FACTORIES))
def test_a_log_does_what_a_list_would(name: str) -> None:
    machine = type("Machine", (EveryLog,), {"name": name})

    run_state_machine_as_test(machine, settings=settings(max_examples=60, stateful_step_count=30))

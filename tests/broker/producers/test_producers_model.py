"""Idempotent producers against a simple model, through restarts, snapshots and other writers.

The model remembers every batch that was accepted, for ever. It knows what must become of the next
one, and what the log must hold in the end.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.broker.brokers import publish, read_all, values
from tests.broker.producers.idempotent_producers import Works

from mainstem.broker.producers.producers import LOOK_MS, ProducerLimits
from mainstem.core.errors import InvalidProducerEpoch, OutOfOrderSequence

WRAP = 2**31
LIMITS = ProducerLimits(snapshot_batches=3, snapshot_events=20, id_block=2)

deeds = st.tuples(
    st.sampled_from(
        ["next"] * 6 + ["again"] * 3 + ["gap", "epoch", "stale", "plain", "restart", "tick", "trim"]
    ),
    st.integers(0, 2),
    st.integers(0, 1),
    st.integers(1, 3),
)


class Model:
    """What one producer has written to one partition."""

    def __init__(self, start: int) -> None:
        self.epoch = 0
        self.next = start
        self.accepted: list[tuple[int, int, int, int]] = []
        """Epoch, sequence, count and offset of every batch."""


class World:
    """The works, and a model of each producer in each partition."""

    def __init__(self, starts: list[int]) -> None:
        self.works = Works(limits=LIMITS)
        self.models = {
            (producer, partition): Model(start)
            for producer, start in enumerate(starts)
            for partition in range(2)
        }
        self.expected: dict[int, list[bytes]] = {0: [], 1: []}

    def write(self, producer: int, partition: int, epoch: int, sequence: int, count: int) -> int:
        offset = len(self.expected[partition])
        batch = [b"%d" % (offset + at) for at in range(count)]
        published = self.works.write(producer, sequence, *batch, epoch=epoch, partition=partition)
        return published.offset

    def accept(self, producer: int, partition: int, count: int) -> None:
        model = self.models[producer, partition]
        offset = self.write(producer, partition, model.epoch, model.next, count)
        assert offset == len(self.expected[partition])
        self.expected[partition] += [b"%d" % (offset + at) for at in range(count)]
        model.accepted.append((model.epoch, model.next, count, offset))
        model.next = (model.next + count) % WRAP

    def again(self, producer: int, partition: int, back: int) -> None:
        model = self.models[producer, partition]
        recent = [batch for batch in model.accepted if batch[0] == model.epoch][-5:]
        if recent:
            epoch, sequence, count, offset = recent[-min(back, len(recent))]
            assert self.write(producer, partition, epoch, sequence, count) == offset

    def refuse(self, deed: str, producer: int, partition: int, count: int) -> None:
        model = self.models[producer, partition]
        if not model.accepted:
            return
        if deed == "gap":
            with pytest.raises(OutOfOrderSequence):
                self.write(producer, partition, model.epoch, (model.next + count) % WRAP, count)
        elif model.epoch:
            with pytest.raises(InvalidProducerEpoch):
                self.write(producer, partition, model.epoch - 1, model.next, count)

    def do(self, deed: str, producer: int, partition: int, count: int) -> None:
        match deed:
            case "next":
                self.accept(producer, partition, count)
            case "again":
                self.again(producer, partition, count)
            case "epoch" if self.models[producer, partition].accepted:
                model = self.models[producer, partition]
                model.epoch, model.next = model.epoch + 1, 0
                self.accept(producer, partition, count)
            case "gap" | "stale":
                self.refuse(deed, producer, partition, count)
            case "plain":
                offset = len(self.expected[partition])
                batch = [b"%d" % (offset + at) for at in range(count)]
                publish(self.works.broker, "t", *batch, partition=partition)
                self.expected[partition] += batch
            case "restart":
                self.works = self.works.restarted()
            case "tick":
                self.works.clock.now_ms += LOOK_MS
                self.works.broker.producers.tick()
            case "trim":
                before = len(self.expected[partition]) // 2
                if before > self.works.broker.bounds("t", partition).start:
                    self.works.broker.trim("t", partition, before)


@settings(max_examples=150)
@given(
    st.lists(st.sampled_from([0, 5, WRAP - 3]), min_size=3, max_size=3),
    st.lists(deeds, max_size=50),
)
def test_every_batch_is_written_once_and_replay_gives_what_live_gave(
    starts: list[int], steps: list[tuple[str, int, int, int]]
) -> None:
    world = World(starts)

    for step in steps:
        world.do(*step)

    live = world.works.broker
    replayed = world.works.restarted().broker
    topic = live.topic("t")
    for partition in range(2):
        start = live.bounds("t", partition).start
        assert values(read_all(live, "t", partition)) == world.expected[partition][start:]
        assert replayed.producers.at(topic, partition) == live.producers.at(topic, partition)
    assert replayed.producers.snapshots == live.producers.snapshots
    assert replayed.producers.reserved == live.producers.reserved

"""Transactions against a simple model, through restarts, time-outs, fencing and both sets of rules.

The model keeps every event with what has become of it. Whatever happens, a reader of committed
events that begins anywhere sees exactly the committed ones before the first open transaction, in
order, and replay, also of a compacted journal, gives what live gave.
"""

from typing import NamedTuple

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.broker.brokers import publish
from tests.broker.transactions.transactional_producers import TIMEOUT_MS, Bank, Teller, committed

from mainstem.broker.groups.classic.coordinator import Membership
from mainstem.broker.groups.cursors import Cursor
from mainstem.broker.journal import IDS, TRANSACTIONS
from mainstem.broker.transactions.records import (
    TransactionChange,
    TransactionFold,
    TransactionPhase,
    TransactionRecordKey,
    TransactionRecordValue,
)
from mainstem.core.batch import batches, read_header
from mainstem.core.errors import (
    InvalidProducerEpoch,
    InvalidTransactionState,
    ProducerFenced,
    UnknownProducer,
)
from mainstem.core.records import events
from mainstem.log.port import Log, PartitionId

NAMES = ("one", "two", "three")
DEEDS = ["write"] * 8 + ["commit", "abort"] * 3 + ["plain"] * 2
DEEDS += ["move", "begin", "zombie", "restart", "time", "trim"]
deeds = st.tuples(st.sampled_from(DEEDS), st.integers(0, 2), st.integers(0, 1), st.integers(1, 2))


class Written(NamedTuple):
    """An event in the model; ``by`` is None outside of transactions."""

    offset: int
    value: bytes
    by: str | None


class World:
    """A bank, its producers, and what should be visible."""

    def __init__(self, newer: list[bool]) -> None:
        self.bank = Bank()
        self.newer = dict(zip(NAMES, newer, strict=True))
        self.tellers: dict[str, Teller] = {}
        self.zombies: list[Teller] = []
        self.log: dict[int, list[Written]] = {0: [], 1: []}
        self.hidden: set[bytes] = set()
        """Values of transactions that were aborted."""
        self.open: dict[str, list[Written]] = {name: [] for name in NAMES}
        self.moving: dict[str, dict[int, int]] = {name: {} for name in NAMES}
        self.cursors: dict[int, int] = {}
        self.values = 0

    def teller(self, name: str) -> Teller:
        if name not in self.tellers:
            self.tellers[name] = self.bank.begin(name)
        self.tellers[name].bank = self.bank
        return self.tellers[name]

    def value(self) -> bytes:
        self.values += 1
        return b"%d" % self.values

    def write(self, name: str, partition: int, count: int) -> None:
        teller = self.teller(name)
        if not self.newer[name]:
            teller.add(partition)
        values = [self.value() for _ in range(count)]
        offset = teller.write(*values, partition=partition, adds_partition=self.newer[name])
        written = [Written(offset + at, value, name) for at, value in enumerate(values)]
        self.log[partition] += written
        self.open[name] += written

    def end(self, name: str, is_commit: bool) -> None:
        teller = self.teller(name)
        if not self.open[name] and not self.moving[name]:
            return
        teller.end(is_commit, bumps_epoch=self.newer[name])
        if is_commit:
            self.cursors |= self.moving[name]
        self.ended(name, is_commit)

    def ended(self, name: str, is_commit: bool) -> None:
        if not is_commit:
            self.hidden |= {written.value for written in self.open[name]}
        self.open[name] = []
        self.moving[name] = {}

    def move(self, name: str, partition: int, offset: int) -> None:
        teller = self.teller(name)
        if not self.newer[name]:
            self.bank.transactions.add_group(name, teller.who, "g")
        self.bank.transactions.commit_cursors(
            name,
            teller.who,
            "g",
            Membership(),
            {("t", partition): Cursor(offset, 0)},
            adds_group=self.newer[name],
        )
        self.moving[name][partition] = offset

    def begin(self, name: str) -> None:
        self.zombies.append(self.teller(name))
        self.tellers[name] = self.bank.begin(name)
        self.ended(name, is_commit=False)

    def act_as_zombie(self, partition: int) -> None:
        """Let a producer that was replaced try everything; nothing may come of it."""
        for zombie in self.zombies:
            zombie.bank = self.bank
            for deed in (
                lambda z=zombie: z.write(b"zombie", partition=partition, adds_partition=True),
                lambda z=zombie: z.add(partition),
                lambda z=zombie: z.end(committed=True),
                lambda z=zombie: z.end(committed=True, bumps_epoch=True),
                lambda z=zombie: self.bank.begin(z.name, z.who),
            ):
                try:
                    deed()
                except (
                    InvalidProducerEpoch,
                    InvalidTransactionState,
                    ProducerFenced,
                    UnknownProducer,
                ):
                    continue
                raise AssertionError("a producer that was replaced got through")

    def pass_time(self) -> None:
        self.bank.clock.now_ms += TIMEOUT_MS // 2
        self.bank.broker.tick()
        for name in self.tellers:
            found = self.bank.transactions.describe(name)
            had_begun = self.open[name] or self.moving[name]
            if had_begun and found.phase is TransactionPhase.ABORTED:
                self.ended(name, is_commit=False)
                self.zombies.append(self.tellers[name])
                self.tellers[name] = self.bank.begin(name)

    def do(self, deed: str, who: int, partition: int, count: int) -> None:
        name = NAMES[who]
        match deed:
            case "write":
                self.write(name, partition, count)
            case "commit" | "abort":
                self.end(name, deed == "commit")
            case "plain":
                values = [self.value() for _ in range(count)]
                end = self.bank.broker.bounds("t", partition).end
                publish(self.bank.broker, "t", *values, partition=partition)
                self.log[partition] += [
                    Written(end + at, value, None) for at, value in enumerate(values)
                ]
            case "move":
                self.move(name, partition, count)
            case "begin":
                self.begin(name)
            case "zombie":
                self.act_as_zombie(partition)
            case "restart":
                self.bank = self.bank.restarted()
            case "time":
                self.pass_time()
            case "trim":
                start, tail = self.bank.broker.bounds("t", partition)[:2]
                self.bank.broker.trim("t", partition, start + (tail - start) // 3)

    def check(self) -> None:
        for partition, written in self.log.items():
            bounds = self.bank.broker.bounds("t", partition)
            waiting = [each.offset for name in NAMES for each in self.open[name] if each in written]
            stable = min([bounds.tail, *waiting])
            assert self.bank.transactions.stable("t", partition) == stable
            for offset in range(bounds.start, bounds.tail + 1):
                seen = [
                    each.value
                    for each in written
                    if offset <= each.offset < stable and each.value not in self.hidden
                ]
                for max_bytes in (1, 1_000):
                    assert committed(self.bank.broker, partition, offset, max_bytes) == seen
        moved = {at: cursor.offset for (_, at), cursor in self.bank.broker.committed("g").items()}
        assert moved == self.cursors


def journal(log: Log) -> list[TransactionChange]:
    """Return everything that was written about transactions."""
    partition = PartitionId(IDS[TRANSACTIONS], 0)
    key, value = (
        msgspec.json.Decoder(TransactionRecordKey),
        msgspec.json.Decoder(TransactionRecordValue),
    )
    found: list[TransactionChange] = []
    offset, tail = log.bounds(partition)[:2]
    while offset < tail:
        for batch in batches(log.read(partition, offset, 1_000_000).tobytes()):
            found += [
                TransactionChange(
                    key.decode(event.key or b""),
                    None if event.value is None else value.decode(event.value),
                )
                for event in events(batch)
            ]
            offset = read_header(batch).last_offset + 1
    return found


def compacted(changes: list[TransactionChange], *, tombstones: bool) -> list[TransactionChange]:
    """Return only the latest change of each key."""
    latest = {change.key: at for at, change in enumerate(changes)}
    return [
        change
        for at, change in enumerate(changes)
        if latest[change.key] == at and (tombstones or change.value is not None)
    ]


@settings(max_examples=150)
@given(st.lists(st.booleans(), min_size=3, max_size=3), st.lists(deeds, max_size=40))
def test_readers_see_what_was_committed_and_replay_gives_what_live_gave(
    newer: list[bool], steps: list[tuple[str, int, int, int]]
) -> None:
    world = World(newer)

    for step in steps:
        world.do(*step)

    world.check()
    live = world.bank.transactions.fold
    settlements = world.bank.transactions.completion
    settlements.write(settlements._aborted_and_gone())
    restarted = world.bank.restarted()
    assert restarted.transactions.fold == live
    assert restarted.broker.committed("g") == world.bank.broker.committed("g")
    for partition in range(2):
        topic = world.bank.broker.topic("t")
        was = world.bank.broker.producers.at(topic, partition)
        assert restarted.broker.producers.at(topic, partition) == was
    changes = journal(world.bank.log)
    for tombstones in (True, False):
        replayed = TransactionFold()
        for change in compacted(changes, tombstones=tombstones):
            replayed.apply(change)
        assert replayed == live

"""Idempotent producers: their ids, and their latest sequence numbers in each partition.

``transactions/epochs.py`` fences producers; ``sequences.py`` refuses batches of older epochs.

How this works: producer ids come from blocks; a block is stored before its first id is used, so no
id is ever used twice. The sequence numbers of a partition follow from its batch headers
(``sequences``), which are read back when they are first needed after a restart. To avoid reading
the whole log, a snapshot of the sequence numbers is stored from time to time, and only the headers
after it are read. A partition without a snapshot has no producers: its first snapshot is stored in
the same append as the first producer's first batch, together with those of neighbouring partitions.

All of this is stored in ``__mainstem_producers``. In-memory topics store nothing, as they are empty
after a restart.
"""

from collections.abc import Iterable, Sequence
from typing import Annotated, NamedTuple

import msgspec

from mainstem.broker.journal import PRODUCERS, Journal
from mainstem.broker.producers.sequences import ProducerRecord, ProducerState, Sequences
from mainstem.broker.state import State
from mainstem.broker.topics.catalog import Topic
from mainstem.core.batch import BatchHeader, batches, read_header
from mainstem.core.errors import MainstemError, StorageFull
from mainstem.core.setting_types import PositiveInt
from mainstem.core.topic_settings import Durability
from mainstem.log.commit.durable import AT_ONCE
from mainstem.log.port import Batches, Durable, PartitionId

LOOK_MS = 2_000
_LOOKED_AT = 500
"""Number of partitions that one tick checks for expired producers and due snapshots."""
_READ_BYTES = 1024 * 1024
_BEGUN_TOGETHER = 256
"""Number of neighbouring partitions that get their first snapshots in one append."""


class ProducerLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of idempotent producers, and when their snapshots are stored."""

    id_block: int = 1_000
    """Producer ids that are reserved at a time."""
    expire_ms: Annotated[
        PositiveInt, "Milliseconds until an inactive idempotent producer is forgotten."
    ] = 86_400_000
    max_producers: Annotated[
        PositiveInt,
        "Idempotent producers that are remembered, counted in every partition "
        "they write to; beyond that, the longest inactive ones are forgotten.",
    ] = 100_000
    snapshot_batches: int = 4_096
    snapshot_bytes: int = 64 * 1024 * 1024
    snapshot_events: int = 100_000
    """A partition gets a new snapshot when it has grown by one of these three limits."""
    snapshot_ms: int = 60_000
    """A snapshot is stored at most this many ms after a batch, before retention deletes the batch.
    """


DEFAULTS = ProducerLimits()


class SequencesKey(msgspec.Struct, frozen=True, array_like=True, tag="sequences"):
    """The record's key: a partition's snapshot."""

    topic_id: str
    partition: int


class IdsKey(msgspec.Struct, frozen=True, array_like=True, tag="producer-ids"):
    """The record's key: the reserved producer ids."""


class Snapshot(msgspec.Struct, frozen=True, tag_field="kind", tag="sequences/1"):
    """The producers of a partition and their sequence numbers, up to an offset."""

    offset: int
    producers: tuple[ProducerRecord, ...] = ()


class Reserved(msgspec.Struct, frozen=True, tag_field="kind", tag="producer-ids/1"):
    """The reservation of producer ids: all ids below this number may be in use."""

    end: int


class ProducersChange(NamedTuple):
    """One record of the internal topic: a key, and its new value (None: deleted)."""

    key: SequencesKey | IdsKey
    value: Snapshot | Reserved | None


class NewProducer(NamedTuple):
    """A new producer id, and when its reservation is durable."""

    producer_id: int
    durable: Durable


class _Growth:
    """How much was appended to a partition since its last snapshot."""

    __slots__ = ("batches", "since_ms", "size_bytes")

    def __init__(self, size_bytes: int, since_ms: int) -> None:
        self.batches = 0
        self.since_ms = since_ms
        """When the first batch after the snapshot was written; without one, the snapshot's time."""
        self.size_bytes = size_bytes
        """The size of the partition at the snapshot."""


class Producers:
    """All idempotent producers; used under the broker's lock, except methods that take it."""

    def __init__(self, state: State, limits: ProducerLimits = DEFAULTS) -> None:
        self._limits = limits
        self._state = state
        self._log = state.log
        self._now_ms, self._monotonic_ms = state.clocks
        self.snapshots: dict[PartitionId, Snapshot] = {}
        self.reserved = 0
        self._next_id = 0
        self._reserved_durably: Durable = AT_ONCE
        self._loaded: dict[PartitionId, Sequences] = {}
        self._growth: dict[PartitionId, _Growth] = {}
        self._count = 0
        self._looked_ms = self._monotonic_ms()
        self._journal = Journal[SequencesKey | IdsKey, Snapshot | Reserved](
            state.log, PRODUCERS, SequencesKey | IdsKey, Snapshot | Reserved
        )
        self._journal.replay(lambda key, value: self.apply(ProducersChange(key, value)))
        self._next_id = self.reserved
        state.before_cut = self._keep_before
        with state.lock:
            self._put_right()

    def apply(self, change: ProducersChange) -> None:
        """Apply one change, live and on replay."""
        key, value = change
        if isinstance(key, SequencesKey):
            partition = PartitionId(key.topic_id, key.partition)
            if isinstance(value, Snapshot):
                self.snapshots[partition] = value
            else:
                self.snapshots.pop(partition, None)
        elif isinstance(value, Reserved):
            self.reserved = value.end

    # Ids

    def new_id(self) -> NewProducer:
        """Return a producer id that was never used before; takes the lock."""
        with self._state.lock:
            return self.next_id()

    def next_id(self) -> NewProducer:
        """Return a producer id that was never used before."""
        if self._next_id == self.reserved:
            self._reserved_durably = self._write(
                [ProducersChange(IdsKey(), Reserved(self.reserved + self._limits.id_block))]
            )
        self._next_id += 1
        return NewProducer(self._next_id - 1, self._reserved_durably)

    # Batches

    def at(self, topic: Topic, number: int) -> Sequences:
        """Return the producers of a partition; reads them back from the log if necessary."""
        partition = topic.partitions[number]
        found = self._loaded.get(partition)
        if found is None:
            found = self._load(partition, f"partition {number} of topic {topic.name!r}")
            self._loaded[partition] = found
            self._count += len(found)
        return found

    def begin(self, topic: Topic, number: int) -> list[ProducersChange]:
        """Return a partition's first snapshot, to store in the same append as a producer's batch.

        Empty if the partition has a snapshot or needs none. Includes the first snapshots of
        neighbouring partitions: the producer will likely write there next, so one commit serves all
        of them.
        """
        partition = topic.partitions[number]
        if partition in self.snapshots or topic.settings.durability is Durability.MEMORY:
            return []
        first = number - number % _BEGUN_TOGETHER
        last = min(first + _BEGUN_TOGETHER, len(topic.partitions))
        changes = []
        for each in range(first, last):
            beside = topic.partitions[each]
            if beside not in self.snapshots:
                # No producer has written there, so nothing has to be read, now or later.
                self.at(topic, each)
                changes.append(_snapshot(beside, self._log.bounds(beside).end))
        return changes

    def batches(self, changes: Sequence[ProducersChange], now_ms: int) -> Batches:
        """Encode changes as record batches, which the caller appends together with others."""
        return self._journal.batches(changes, now_ms)

    def begun(self, changes: Iterable[ProducersChange]) -> None:
        """Apply changes whose record batches the caller has appended."""
        for change in changes:
            self.apply(change)
            if isinstance(change.key, SequencesKey):
                begun = PartitionId(change.key.topic_id, change.key.partition)
                self._grows(begun)

    def appended(
        self, written: Sequence[tuple[PartitionId, BatchHeader, int]], durable: Durable
    ) -> None:
        """Update the sequence numbers after an append; each batch is given with its offset."""
        now_ms = self._monotonic_ms()
        grown: set[PartitionId] = set()
        for partition, header, offset in written:
            self._count += self._loaded[partition].apply(header, offset, now_ms, durable)
            growth = self._growth.get(partition)
            if growth is None:
                if partition not in self.snapshots:
                    continue
                growth = self._grows(partition)
            if not growth.batches:
                growth.since_ms = now_ms
            growth.batches += 1
            if growth.batches >= self._limits.snapshot_batches:
                grown.add(partition)
        # Only after all batches are applied, as a snapshot covers the partition up to its end.
        for partition in sorted(grown):
            self._look_at(partition)
        for _ in written:
            if self._count <= self._limits.max_producers:
                break
            self._shrink()

    def marked(self, partition: PartitionId, header: BatchHeader, offset: int) -> None:
        """Update a producer's epoch after the append of its transaction marker."""
        sequences = self._loaded.get(partition)
        if sequences is not None:
            sequences.apply(header, offset, self._monotonic_ms())

    def describe(self, topic: str, number: int) -> list[ProducerState]:
        """Return the producers of a partition; takes the lock."""
        with self._state.lock:
            self._state.at(topic, number)
            found = self._state.topics.get(topic)
            return self.at(found, number).states(self._monotonic_ms())

    def forget(self, partitions: Iterable[PartitionId]) -> None:
        """Delete the producers of deleted partitions, with their snapshots."""
        gone = list(partitions)
        for partition in gone:
            self._unload(partition)
        self._write([_none(partition) for partition in gone if partition in self.snapshots])

    def keep(self, topic: str, number: int) -> None:
        """Store a snapshot before the events it is derived from are trimmed; takes the lock."""
        with self._state.lock:
            partition = self._state.at(topic, number)
            if partition in self.snapshots:
                self._renew(partition, self.at(self._state.topics.get(topic), number), ())

    def _keep_before(self, partition: PartitionId, start: int) -> None:
        """Store a snapshot if events after the last snapshot's offset are about to be deleted."""
        snapshot = self.snapshots.get(partition)
        topic = self._state.topics.by_id(partition.topic_id)
        if topic is not None and snapshot is not None and snapshot.offset < start:
            self._renew(partition, self.at(topic, partition.number), ())

    def cut(self, partition: PartitionId) -> None:
        """Delete the producers of a truncated partition, whose sequence numbers are uncertain."""
        self._unload(partition)
        if partition in self.snapshots:
            self._write([_snapshot(partition, self._log.bounds(partition).end)])

    # Time

    def tick(self) -> None:
        """Expire producers and renew snapshots, in some of the partitions; takes the lock."""
        with self._state.lock:
            if self._monotonic_ms() - self._looked_ms < LOOK_MS:
                return
            self._looked_ms = self._monotonic_ms()
            for partition in list(self._growth)[:_LOOKED_AT]:
                # Checked partitions go to the end, so that each has its turn.
                self._growth[partition] = self._growth.pop(partition)
                self._look_at(partition)

    def next_deadline(self) -> int | None:
        """Return when ``tick`` is next due, on the monotonic clock; None if never."""
        return self._looked_ms + LOOK_MS if self._growth else None

    def _look_at(self, partition: PartitionId) -> None:
        growth, snapshot = self._growth[partition], self.snapshots[partition]
        bounds = self._log.bounds(partition)
        silent: list[int] = []
        sequences = self._loaded.get(partition)
        if sequences is not None:
            silent = sequences.silent_since(self._monotonic_ms() - self._limits.expire_ms)
        has_waited = growth.batches and (
            self._monotonic_ms() - growth.since_ms >= self._limits.snapshot_ms
        )
        has_grown = (
            growth.batches >= self._limits.snapshot_batches
            or bounds.size_bytes - growth.size_bytes >= self._limits.snapshot_bytes
            or bounds.end - snapshot.offset >= self._limits.snapshot_events
        )
        is_unused = not growth.batches and not snapshot.producers
        has_expired = is_unused and (
            self._monotonic_ms() - growth.since_ms >= self._limits.expire_ms
        )
        if not silent and not has_grown and not has_waited and not has_expired:
            return
        if sequences is None:
            topic = self._state.topics.by_id(partition.topic_id)
            if topic is None:
                return
            sequences = self.at(topic, partition.number)
        self._renew(partition, sequences, silent)

    def _renew(self, partition: PartitionId, sequences: Sequences, silent: Iterable[int]) -> None:
        """Store a new snapshot, without expired producers."""
        gone = frozenset(silent)
        bounds = self._log.bounds(partition)
        kept = tuple(ProducerRecord(*each) for each in sequences.records() if each[0] not in gone)
        change = _snapshot(partition, bounds.end, kept) if kept else _none(partition)
        try:
            self._write([change])
        except MainstemError:
            # The previous snapshot stays valid, and the next check tries again.
            return
        self._count -= len(gone)
        sequences.forget(gone)
        self._growth.pop(partition, None)
        if kept:
            self._growth[partition] = self._no_growth(partition)

    def _grows(self, partition: PartitionId) -> _Growth:
        """Begin to measure a partition's growth, which decides when its next snapshot is stored."""
        if not self._growth:
            self._state.alarm()
        growth = self._growth[partition] = self._no_growth(partition)
        return growth

    def _no_growth(self, partition: PartitionId) -> _Growth:
        return _Growth(self._log.bounds(partition).size_bytes, self._monotonic_ms())

    def _shrink(self) -> None:
        """In the partition with most producers, remove the longest inactive tenth of them."""
        partition, sequences = max(self._loaded.items(), key=lambda item: len(item[1]))
        silent = sequences.longest_silent(max(1, len(sequences) // 10))
        if partition in self.snapshots:
            self._renew(partition, sequences, silent)
        else:
            self._count -= len(silent)
            sequences.forget(silent)

    # Reading back

    def _load(self, partition: PartitionId, place: str) -> Sequences:
        snapshot = self.snapshots.get(partition)
        if snapshot is None:
            return Sequences(place)
        now_ms = self._monotonic_ms()
        sequences = Sequences(place, snapshot.producers, now_ms)
        start, tail = self._log.bounds(partition)[:2]
        offset = max(snapshot.offset, start)
        while offset < tail:
            read = self._log.read(partition, offset, _READ_BYTES)
            if not read.length:
                break
            for batch in batches(read.tobytes()):
                header = read_header(batch)
                if header.producer_id >= 0 and header.base_offset >= snapshot.offset:
                    sequences.apply(header, header.base_offset, now_ms)
                offset = header.last_offset + 1
        return sequences

    def _unload(self, partition: PartitionId) -> None:
        self._count -= len(self._loaded.pop(partition, ()))
        self._growth.pop(partition, None)

    def _put_right(self) -> None:
        """Drop snapshots of deleted topics, and reset those of truncated partitions."""
        changes: list[ProducersChange] = []
        for partition, snapshot in self.snapshots.items():
            topic = self._state.topics.by_id(partition.topic_id)
            if topic is None or partition.number >= len(topic.partitions):
                changes.append(_none(partition))
                continue
            bounds = self._log.bounds(partition)
            if snapshot.offset > bounds.end:
                changes.append(_snapshot(partition, bounds.end))
            self._growth[partition] = self._no_growth(partition)
        try:
            self._write(changes)
        except StorageFull:
            # A full disk must not prevent the start; the next start tries again.
            for change in changes:
                self.apply(change)

    def _write(self, changes: Iterable[ProducersChange]) -> Durable:
        changes = list(changes)
        durable = self._journal.append(changes, self._now_ms())
        for change in changes:
            self.apply(change)
        return durable


def _snapshot(
    partition: PartitionId, offset: int, producers: tuple[ProducerRecord, ...] = ()
) -> ProducersChange:
    return ProducersChange(SequencesKey(*partition), Snapshot(offset, producers))


def _none(partition: PartitionId) -> ProducersChange:
    return ProducersChange(SequencesKey(*partition), None)

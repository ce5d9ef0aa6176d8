"""Simulated transactional producers and read_committed readers, for tests."""

from tests.broker.brokers import Clock, LateLog, append, transactional_batch
from tests.broker.producers.idempotent_producers import Works

from mainstem.broker.broker import Broker
from mainstem.broker.transactions.epochs import ProducerIdAndEpoch
from mainstem.broker.transactions.read_committed import visible
from mainstem.broker.transactions.transactions import ProducerSession
from mainstem.core.batch import batches, read_header
from mainstem.core.records import events
from mainstem.core.topic_settings import TopicSettings
from mainstem.core.transaction_markers import is_commit
from mainstem.log.port import Appended, Batches, Bounds, Log, PartitionId, Slice

TIMEOUT_MS = 60_000
IN_BOTH = [("t", 0), ("t", 1)]


class Bank(Works):
    """A broker with a topic ``t`` of two partitions, and what transactional producers do."""

    def __init__(
        self,
        log: Log | None = None,
        clock: Clock | None = None,
        settings: TopicSettings | None = None,
    ) -> None:
        super().__init__(log, clock, settings=settings)
        self.transactions = self.broker.transactions

    def restarted(self) -> "Bank":
        """Return the same bank after a crash."""
        return Bank(self.log, self.clock)

    def begin(self, name: str = "tx", expected: ProducerIdAndEpoch | None = None) -> "Teller":
        """Begin under a transactional id."""
        begun = self.transactions.begin(name, TIMEOUT_MS, expected)
        return Teller(self, name, begun)

    def use_up_epochs(self, name: str = "tx") -> None:
        """Leave the producer of a transactional id with hardly an epoch."""
        found = self.transactions.fold.transactions[name]
        fields = {each: getattr(found, each) for each in found.__struct_fields__}
        value = type(found)(**fields | {"epoch": 2**15 - 3})
        self.transactions.completion.settle(name, value, committed=False)

    def committed(self, partition: int = 0, offset: int = 0) -> list[bytes | None]:
        """Return the values that a reader of committed events sees from an offset on."""
        return committed(self.broker, partition, offset)

    def markers(self, partition: int = 0) -> list[tuple[int, int, bool]]:
        """Return producer id, epoch and kind (commit or not) of every marker."""
        read = self.broker.read("t", partition, 0, 10_000_000)
        headers = [(read_header(batch), batch) for batch in batches(read.tobytes())]
        return [
            (header.producer_id, header.producer_epoch, is_commit(batch))
            for header, batch in headers
            if header.is_control
        ]


class Teller:
    """A transactional producer."""

    def __init__(self, bank: Bank, name: str, begun: ProducerSession) -> None:
        self.bank = bank
        self.name = name
        self.who = ProducerIdAndEpoch(begun.producer_id, begun.epoch)
        self.sequences = [0, 0]

    def add(self, *partitions: int) -> "Teller":
        """Add partitions, as the older rules want it."""
        places = [("t", partition) for partition in partitions]
        moved = self.bank.transactions.add_partitions(self.name, self.who, places)
        assert not moved.refused
        return self

    def write(self, *values: bytes, partition: int = 0, adds_partition: bool = False) -> int:
        """Write events in one batch; return the offset of the first."""
        sequence = self.sequences[partition]
        batch = transactional_batch(self.who, *values, sequence=sequence, now_ms=self.bank.clock())
        appended = append(self.bank.broker, "t", partition, batch, adds_partition=adds_partition)
        self.sequences[partition] += len(values)
        return appended.offset

    def end(self, committed: bool, *, bumps_epoch: bool = False) -> ProducerSession:
        """Commit or abort."""
        ended = self.bank.transactions.end(
            self.name, self.who, committed=committed, bumps_epoch=bumps_epoch
        )
        if bumps_epoch:
            self.who = ProducerIdAndEpoch(ended.producer_id, ended.epoch)
            self.sequences = [0, 0]
        return ended


def committed(
    broker: Broker, partition: int = 0, offset: int = 0, max_bytes: int = 1_000
) -> list[bytes | None]:
    """Return the values that a reader of committed events sees from an offset on."""
    found: list[bytes | None] = []
    while True:
        read = broker.transactions.read_committed("t", partition, offset, max_bytes)
        if not read.data.length:
            return found
        data = read.data.tobytes()
        for batch in visible(data, read.aborted):
            found += [event.value for event in events(batch, from_offset=offset)]
        offset = max(read_header(batch).last_offset for batch in batches(data)) + 1


class LaggingLog(LateLog):
    """A log whose readers see an append only once it is durable."""

    def __init__(self) -> None:
        super().__init__()
        self.tails: dict[PartitionId, int] = {}

    def append(self, batches: Batches, *, together: bool = True, lazy: bool = False) -> Appended:
        """Append; readers have to wait."""
        if self.late:
            for partition, _ in batches:
                self.tails.setdefault(partition, self.bounds(partition).tail)
        return super().append(batches, together=together, lazy=lazy)

    def bounds(self, partition: PartitionId) -> Bounds:
        """Return the bounds that readers see."""
        bounds = super().bounds(partition)
        return bounds._replace(tail=self.tails.get(partition, bounds.tail))

    def read(self, partition: PartitionId, offset: int, max_bytes: int) -> Slice:
        """Read what is visible."""
        read = super().read(partition, offset, max_bytes)
        tail = self.bounds(partition).tail
        data = b"".join(
            batch for batch in batches(read.tobytes()) if read_header(batch).base_offset < tail
        )
        return Slice(len(data), data)

    def catch_up(self) -> None:
        """Make everything durable and visible."""
        self.late = False
        self.tails.clear()
        self.settle()

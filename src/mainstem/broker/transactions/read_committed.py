"""The isolation level read_committed: the last stable offset, and the aborted transactions.

Events of a transaction are in the log before it commits, so read_committed consumers see only what
is before the first event of any ongoing transaction (the last stable offset). Events of aborted
transactions stay in the log; consumers get a list of these transactions, and skip their events. A
transaction counts as ended only when its marker is durable: otherwise a power cut could undo a
commit that consumers have seen.
"""

from collections.abc import Iterator, Sequence

import msgspec

from mainstem.broker.transactions.records import AbortedSpan, TransactionFold
from mainstem.core.batch import HEADER_SIZE, BatchHeader, batches, read_header
from mainstem.core.transaction_markers import is_commit
from mainstem.log.port import Bounds, Log, PartitionId, Slice

_NOTHING = Slice(0)


class Committed(msgspec.Struct, frozen=True):
    """Record batches before the last stable offset, with the aborted transactions to skip."""

    data: Slice
    stable: int
    aborted: tuple[AbortedSpan, ...] = ()


class CommittedView:
    """The log as read_committed consumers see it; used under the broker's lock."""

    def __init__(self, log: Log, fold: TransactionFold) -> None:
        self._log = log
        self._fold = fold
        self.ending: dict[PartitionId, list[tuple[int, int]]] = {}
        """Ended transactions whose markers are not durable yet: first offset, marker's offset."""

    def ends(self, partition: PartitionId, first_offset: int, marker_offset: int) -> None:
        """Note that a transaction has ended; consumers see this once its marker is durable."""
        ending = self._still_ending(partition, self._log.bounds(partition).tail)
        self.ending[partition] = [*ending, (first_offset, marker_offset)]

    def has_any(self, partition: PartitionId) -> bool:
        """Tell whether a partition has transactions that ``view`` must look at."""
        return bool(
            self._fold.open.get(partition)
            or partition in self.ending
            or self._fold.has_aborted(partition)
        )

    def stable(self, partition: PartitionId, tail: int) -> int:
        """Return a partition's last stable offset."""
        stable = tail
        ongoing = self._fold.open.get(partition)
        if ongoing:
            stable = min(stable, *ongoing.values())
        return min((stable, *(first for first, _ in self._still_ending(partition, tail))))

    def _still_ending(self, partition: PartitionId, tail: int) -> list[tuple[int, int]]:
        ending = self.ending.get(partition)
        if ending is None:
            return []
        ending[:] = [each for each in ending if each[1] >= tail]
        if not ending:
            del self.ending[partition]
        return ending

    def view(self, partition: PartitionId, offset: int, data: Slice) -> Committed:
        """Return data read from ``offset``, without what lies after the last stable offset.

        Call this after reading the data: then each transaction in the data is known to be ongoing
        or ended.
        """
        bounds: Bounds = self._log.bounds(partition)
        stable = self.stable(partition, bounds.tail)
        if stable == bounds.tail and not self._fold.has_aborted(partition):
            return Committed(data, stable)
        data, end = _before(data, offset, stable)
        return Committed(data, stable, self._fold.aborted(partition, offset, end))

    def forget(self, partition: PartitionId) -> None:
        """Remove a deleted partition."""
        self.ending.pop(partition, None)


def visible(data: bytes | memoryview, aborted: Sequence[AbortedSpan]) -> Iterator[memoryview]:
    """Return the batches without those of aborted transactions and without markers."""
    upcoming = list(aborted)
    passed_over: set[int] = set()
    for batch in batches(data):
        header = read_header(batch)
        while upcoming and upcoming[0].first_offset <= header.last_offset:
            passed_over.add(upcoming.pop(0).producer_id)
        if header.is_control:
            if not is_commit(batch):
                passed_over.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in passed_over):
            yield batch


def _before(data: Slice, offset: int, stable: int) -> tuple[Slice, int]:
    """Return the batches before the offset ``stable``, and the offset after the last such batch."""
    position, end = 0, offset
    while position < data.length:
        header = _header(data, position)
        if header.base_offset >= stable:
            break
        position += header.size
        end = header.last_offset + 1
    if position == data.length:
        return data, end
    if position == 0:
        return _NOTHING, end
    if data.file is not None:
        return Slice(position, file=data.file, position=data.position), end
    return Slice(position, memoryview(data.data)[:position]), end


def _header(data: Slice, position: int) -> BatchHeader:
    if data.file is None:
        return read_header(data.data, position)
    return read_header(data.file.pread(HEADER_SIZE, data.position + position))

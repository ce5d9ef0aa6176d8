"""What readers of committed events see: up to which offset, and what they pass over.

Events of a transaction are in the log before it is known whether it commits, so such readers see
nothing at or after the first event of any transaction that is ongoing (the stable offset). Of what
is before that, the events of aborted transactions are still there; readers get the list of these
and leave them out. A transaction has ended for readers when its marker is durable, not before: a
power cut could otherwise take back what they have seen committed.
"""

from collections.abc import Iterator, Sequence

import msgspec

from mainstem.broker.transactions.records import AbortedSpan, TransactionFold
from mainstem.core.batch import HEADER_SIZE, BatchHeader, batches, read_header
from mainstem.core.transaction_markers import is_commit
from mainstem.log.port import Bounds, Log, PartitionId, Slice

_NOTHING = Slice(0)


class Committed(msgspec.Struct, frozen=True):
    """Record batches before the stable offset, with what their reader has to leave out."""

    data: Slice
    stable: int
    aborted: tuple[AbortedSpan, ...] = ()


class CommittedView:
    """The log as readers of committed events see it; used under the broker's lock."""

    def __init__(self, log: Log, fold: TransactionFold) -> None:
        self._log = log
        self._fold = fold
        self.ending: dict[PartitionId, list[tuple[int, int]]] = {}
        """Where transactions begin whose markers are not durable yet, and where these stand."""

    def ends(self, partition: PartitionId, first_offset: int, marker_offset: int) -> None:
        """Take note of a transaction that has ended, once its marker is durable."""
        ending = self._still_ending(partition, self._log.bounds(partition).tail)
        self.ending[partition] = [*ending, (first_offset, marker_offset)]

    def stable(self, partition: PartitionId, tail: int) -> int:
        """Return the first offset that readers of committed events cannot see yet."""
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
        """Return what was read from ``offset`` on as such a reader sees it.

        It must have been read before this is called: what was visible then and is not part of a
        transaction now has been ended.
        """
        bounds: Bounds = self._log.bounds(partition)
        stable = self.stable(partition, bounds.tail)
        if stable == bounds.tail and not self._fold.has_aborted(partition):
            return Committed(data, stable)
        data, end = _before(data, offset, stable)
        return Committed(data, stable, self._fold.aborted(partition, offset, end))

    def forget(self, partition: PartitionId) -> None:
        """Forget a partition that is gone."""
        self.ending.pop(partition, None)


def visible(data: bytes | memoryview, aborted: Sequence[AbortedSpan]) -> Iterator[memoryview]:
    """Return the batches of events that were committed, without those aborted, without markers."""
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
    """Cut what was read before an offset; return it, and where it ends."""
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

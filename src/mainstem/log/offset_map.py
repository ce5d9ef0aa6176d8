"""What compaction keeps of a batch: the same on disk and in memory.

How this works: the keys of batches are added in the order of the log, then the batches are asked
for in that order. Keys longer than a digest are known by their digest. Events of transactions are
all kept and outdate nothing, since the log does not know which of them were aborted; so a deletion
of what a transaction wrote is kept, however old it is, or that would be there again. Batches whose
records cannot be read (a topic may be told not to look into what producers send) stay as they are.
"""

from hashlib import blake2b

from mainstem.core.batch import BatchHeader, Buffer
from mainstem.core.errors import CorruptBatch
from mainstem.core.records import keys, retain

MAX_TRANSACTED = 1_000_000
"""So many keys of transactions are remembered; with more, every deletion is kept."""
_DIGEST = 16


class OffsetMap:
    """The latest offset of each key, of batches that are compacted together."""

    def __init__(self, forget_before: int) -> None:
        self._forget_before = forget_before
        """Deletions with an earlier time need not be kept."""
        self._offsets: dict[bytes, int] = {}
        self._transacted: set[bytes] = set()
        """The keys of events of transactions before the batch that is asked for."""

    def __len__(self) -> int:
        """Return how many keys there are."""
        return len(self._offsets)

    def add(self, header: BatchHeader, batch: Buffer) -> None:
        """Take note of the keys of a batch, which comes after those before."""
        if not _stays_whole(header):
            self._offsets.update(_keys(batch))

    def kept(self, header: BatchHeader, batch: Buffer) -> Buffer | None:
        """Return the batch with only the latest event of each key, None if none is left.

        To be asked for all batches in the order of the log, once all are added.
        """
        if _stays_whole(header):
            self._remember(batch)
            return batch
        if not header.count:
            return None
        young = header.max_timestamp >= self._forget_before

        def keep(offset: int, key: bytes | None, has_value: bool) -> bool:
            if key is None:
                return True
            known = _short(key)
            if self._offsets.get(known, -1) > offset:
                return False
            return has_value or young or self._is_transacted(known)

        try:
            return retain(batch, keep)
        except CorruptBatch:
            return batch

    def _remember(self, batch: Buffer) -> None:
        if len(self._transacted) < MAX_TRANSACTED:
            self._transacted.update(key for key, _ in _keys(batch))

    def _is_transacted(self, key: bytes) -> bool:
        return key in self._transacted or len(self._transacted) >= MAX_TRANSACTED


def _stays_whole(header: BatchHeader) -> bool:
    return header.is_control or header.is_transactional


def _keys(batch: Buffer) -> list[tuple[bytes, int]]:
    """Return the keys of a batch and their offsets; none if it cannot be read to its end."""
    try:
        return [(_short(key), offset) for offset, key, _, _ in keys(batch) if key is not None]
    except CorruptBatch:
        return []


def _short(key: bytes) -> bytes:
    return key if len(key) <= _DIGEST else blake2b(key, digest_size=_DIGEST).digest() + b"+"

"""The key-to-latest-offset map of compaction: decides what is kept of a batch.

How this works: the keys of batches are added in log order, then ``kept`` is called for each batch
in the same order. Long keys are represented by a digest. Transactional events are all kept, and do
not make earlier events of their key outdated, since the log does not know which were aborted. So a
tombstone for a key that a transaction wrote is kept however old it is; otherwise the transaction's
event would reappear. Batches whose records cannot be parsed (a topic may skip validation) stay as
they are.
"""

from hashlib import blake2b

from mainstem.core.batch import BatchHeader, Buffer
from mainstem.core.errors import CorruptBatch
from mainstem.core.records import keys, retain

MAX_TRANSACTED = 1_000_000
"""Keys of transactional events that are remembered; beyond that, every tombstone is kept."""
_DIGEST = 16


class OffsetMap:
    """The latest offset of each key in the batches that are compacted together."""

    def __init__(self, forget_before: int) -> None:
        self._forget_before = forget_before
        """Tombstones with an earlier timestamp are dropped."""
        self._offsets: dict[bytes, int] = {}
        self._transacted: set[bytes] = set()
        """Keys of transactional events before the current batch."""

    def __len__(self) -> int:
        """Return the number of keys."""
        return len(self._offsets)

    def add(self, header: BatchHeader, batch: Buffer) -> None:
        """Add the keys of the next batch, in log order."""
        if not _stays_whole(header):
            self._offsets.update(_keys(batch))

    def kept(self, header: BatchHeader, batch: Buffer) -> Buffer | None:
        """Return the batch with only the latest event of each key, None if none is left.

        Call it for every batch, in log order, after ``add`` was called for all batches.
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
    """Return the keys of a batch and their offsets; none if the batch cannot be parsed."""
    try:
        return [(_short(key), offset) for offset, key, _, _ in keys(batch) if key is not None]
    except CorruptBatch:
        return []


def _short(key: bytes) -> bytes:
    return key if len(key) <= _DIGEST else blake2b(key, digest_size=_DIGEST).digest() + b"+"

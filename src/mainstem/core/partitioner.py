"""Chooses the partition of an event: by key, as Kafka's Java client does, else round-robin."""

from functools import lru_cache
from struct import Struct

_MASK = 0xFFFFFFFF
_MULTIPLIER = 0x5BD1E995
_SEED = 0x9747B28C
_WORD = Struct("<I")
_CACHED_KEY_BYTES = 128
"""Longer keys are not cached, which bounds the memory of the cache."""


def partition_for(key: bytes, partitions: int) -> int:
    """Return the partition that Kafka clients with the murmur2 partitioner choose for a key."""
    hashed = _cached_murmur2(key) if len(key) <= _CACHED_KEY_BYTES else murmur2(key)
    return (hashed & 0x7FFFFFFF) % partitions


def murmur2(data: bytes) -> int:
    """Return the 32-bit murmur2 hash with Kafka's seed, unsigned."""
    length = len(data)
    whole = length & ~3
    hashed = _SEED ^ length
    for (word,) in _WORD.iter_unpack(memoryview(data)[:whole]):
        mixed = word * _MULTIPLIER & _MASK
        mixed = (mixed ^ mixed >> 24) * _MULTIPLIER & _MASK
        hashed = hashed * _MULTIPLIER & _MASK ^ mixed
    if whole < length:
        rest = int.from_bytes(data[whole:], "little")
        hashed = (hashed ^ rest) * _MULTIPLIER & _MASK
    hashed = (hashed ^ hashed >> 13) * _MULTIPLIER & _MASK
    return hashed ^ hashed >> 15


_cached_murmur2 = lru_cache(maxsize=16_384)(murmur2)


class Turns:
    """Chooses partitions round-robin for events without a key, ``run`` events for each in turn."""

    def __init__(self, start: int = 0, run: int = 1) -> None:
        self.run = run
        self._taken = start * run

    def next(self, partitions: int) -> int:
        """Return the partition for the next event without a key."""
        turn = self._taken // self.run
        self._taken += 1
        return turn % partitions

"""Compaction: keep the latest event of each key, and forget deletions after a while.

How this works: the keys of segments not compacted yet are read into a map from key to latest
offset (keys longer than a digest by their digest, and at most so many that memory stays bounded),
then all segments up to there are written anew without the events that the map outdates. Offsets
never change, a batch keeps the range of offsets it stood for, and the segment being appended to is
never touched. Several small segments become one. Events of transactions are all kept, since the
log does not know which of them were aborted. The last batch of an idempotent producer stays, even
if it holds nothing any more: it says what the producer has written.
"""

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from itertools import takewhile
from typing import NamedTuple

from mainstem.core.batch import read_header
from mainstem.core.policies import TopicSettings
from mainstem.core.records import emptied, keys, retain
from mainstem.log.files import Files
from mainstem.log.partition import DiskPartition
from mainstem.log.rewriting import write_segment
from mainstem.log.segment import Segment

MAX_KEYS = 1_000_000
_DIGEST = 16


def old_enough(sealed: Sequence[Segment], settings: TopicSettings, now_ms: int) -> list[Segment]:
    """Return those first segments that hold nothing too young to be compacted."""
    if not settings.compact_after_ms:
        return list(sealed)
    before = now_ms - settings.compact_after_ms
    return list(takewhile(lambda segment: segment.newest_ms <= before, sealed))


def worth_compacting(sealed: Sequence[Segment], settings: TopicSettings, now_ms: int) -> bool:
    """Tell whether enough of what is sealed has not been compacted yet, or some for too long."""
    total = sum(segment.size for segment in sealed)
    dense = [segment for segment in sealed if segment.dense]
    dirty = sum(segment.size for segment in dense)
    within = settings.compact_within_ms
    overdue = within is not None and any(now_ms - each.created_ms >= within for each in dense)
    return dirty > 0 and (overdue or dirty >= total * settings.compact_share)


def compact(
    files: Files,
    partition: DiskPartition,
    sealed: Sequence[Segment],
    now_ms: int,
    generation: int,
    added: list[Segment],
) -> list[Segment]:
    """Write the sealed segments anew into ``added``; return those that these replace."""
    latest, last_batches, covered = _survey(sealed, MAX_KEYS)
    forget_before = now_ms - partition.settings.tombstone_ms
    for run in _runs(covered, partition.settings.segment_bytes):
        fresh = partition.empty_segment(run[0].base, run[0].created_ms, generation)
        added.append(fresh)
        kept = _kept(run, latest, last_batches, forget_before)
        fresh.dense = False
        write_segment(files, partition, fresh, kept, next_offset=run[-1].next_offset)
    return covered


class _Survey(NamedTuple):
    """What is in segments that are compacted together."""

    latest: dict[bytes, int]
    """The latest offset of each key."""
    last_batches: set[int]
    """Where the last batch of each idempotent producer stands."""
    covered: list[Segment]
    """The segments up to which that is known."""


def _survey(sealed: Sequence[Segment], max_keys: int) -> _Survey:
    latest: dict[bytes, int] = {}
    last: dict[int, int] = {}
    covered: list[Segment] = []
    for segment in sealed:
        if segment.dense and len(latest) >= max_keys:
            break
        for _, batch in segment.batches():
            header = read_header(batch)
            if header.producer_id >= 0:
                last[header.producer_id] = header.base_offset
            # One of a transaction may have been aborted, and must not outdate what was committed.
            if segment.dense and not header.is_transactional:
                for offset, key, _, _ in keys(batch):
                    if key is not None:
                        latest[_short(key)] = offset
        covered.append(segment)
    return _Survey(latest, set(last.values()), covered)


def _kept(
    run: Sequence[Segment], latest: dict[bytes, int], last_batches: set[int], forget_before: int
) -> Iterator[bytes | bytearray]:
    for segment in run:
        for _, batch in segment.batches():
            header = read_header(batch)
            if header.is_control or header.is_transactional:
                yield batch
                continue
            young = header.max_timestamp >= forget_before

            def keep(offset: int, key: bytes | None, has_value: bool, young: bool = young) -> bool:
                if key is None:
                    return True
                return latest.get(_short(key), -1) <= offset and (has_value or young)

            kept = retain(batch, keep) if header.count else None
            if kept is None and header.base_offset in last_batches and (header.count or young):
                # What its producer sends again, or next, is told by this after a restart. By the
                # time that an empty one is compacted again, it has been written down elsewhere.
                kept = emptied(batch)
            if kept is not None:
                yield kept if isinstance(kept, bytearray) else bytes(kept)


def _runs(segments: Sequence[Segment], max_bytes: int) -> list[list[Segment]]:
    """Cut segments into runs that together are not larger than one may be."""
    runs: list[list[Segment]] = []
    size = 0
    for segment in segments:
        if runs and size + segment.size <= max_bytes:
            runs[-1].append(segment)
        else:
            runs.append([segment])
            size = 0
        size += segment.size
    return runs


def _short(key: bytes) -> bytes:
    return key if len(key) <= _DIGEST else blake2b(key, digest_size=_DIGEST).digest() + b"+"

"""Journals: the internal topics that store the broker's state, and are replayed at start.

A journal has one partition, is compacted, and survives a power cut. Its records are JSON with a
kind and a version (``"kind":"cursor/1"``), so that an older program refuses records it does not
know.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Generic, Protocol, TypeVar

import msgspec

from mainstem.core.batch import batches, read_header
from mainstem.core.errors import DamagedLog, FormatTooNew
from mainstem.core.event import Event
from mainstem.core.records import build, events
from mainstem.core.topic_settings import Durability, TopicSettings
from mainstem.log.commit.durable import AT_ONCE
from mainstem.log.port import Batches, Durable, Log, PartitionId

TOPICS = "__mainstem_topics"
CURSORS = "__mainstem_cursors"
GENERATIONS = "__mainstem_generations"
PRODUCERS = "__mainstem_producers"
TRANSACTIONS = "__mainstem_transactions"
QUEUES = "__mainstem_subscriptions"
GROUP_CONFIGS = "__mainstem_group_configs"
CONSUMER_GROUPS = "__mainstem_consumer_groups"
CLASSIC_GROUPS = "__mainstem_classic_groups"
DEFINITIONS = "__mainstem_definitions"
DELAYED = "__mainstem_delayed"
IDS = {
    TOPICS: f"{0x10:032x}",
    CURSORS: f"{0x11:032x}",
    GENERATIONS: f"{0x12:032x}",
    PRODUCERS: f"{0x13:032x}",
    TRANSACTIONS: f"{0x14:032x}",
    QUEUES: f"{0x15:032x}",
    GROUP_CONFIGS: f"{0x16:032x}",
    CONSUMER_GROUPS: f"{0x17:032x}",
    CLASSIC_GROUPS: f"{0x18:032x}",
    DEFINITIONS: f"{0x19:032x}",
    DELAYED: f"{0x1A:032x}",
}
"""Topic ids of the journals; fixed, as journals are read before the catalog of topics."""
SETTINGS = TopicSettings(durability=Durability.FSYNC, compact=True, segment_bytes=1024 * 1024)
SETTINGS_OF = dict.fromkeys(IDS, SETTINGS) | {
    # It holds whole events, and is not compacted: see ``delays/delays.py``.
    DELAYED: TopicSettings(durability=Durability.FSYNC, segment_bytes=16 * 1024 * 1024)
}

_READ_BYTES = 1024 * 1024
_EVENTS_PER_BATCH = 1_000
_BATCH_BYTES = 1024 * 1024
"""Maximum size of a record batch. Most records take less than a kilobyte, but that of a group
member may take a megabyte.
"""

Key = TypeVar("Key")
Value = TypeVar("Value")
Key_co = TypeVar("Key_co", covariant=True)
Value_co = TypeVar("Value_co", covariant=True)


class Change(Protocol[Key_co, Value_co]):
    """One record of a journal: a key, and its new value (None: deleted)."""

    @property
    def key(self) -> Key_co:
        """The key; compaction keeps the latest record of each key."""

    @property
    def value(self) -> Value_co | None:
        """The new value."""


class Journal(Generic[Key, Value]):
    """The internal topic that stores one kind of state, as changes in order."""

    def __init__(self, log: Log, topic: str, key: object, value: object) -> None:
        """``key`` and ``value`` are the types of ``Key`` and ``Value``, for decoding."""
        self._log = log
        self._topic = topic
        self._partition = PartitionId(IDS[topic], 0)
        self._key: Callable[[bytes], Key] = msgspec.json.Decoder(key).decode
        self._value: Callable[[bytes], Value] = msgspec.json.Decoder(value).decode
        self._encoder = msgspec.json.Encoder()
        log.ensure(self._partition, topic, SETTINGS)

    def append(
        self, changes: Iterable[Change[Key, Value]], now_ms: int, beside: Batches = ()
    ) -> Durable:
        """Append changes, and batches of other journals (``beside``), all or nothing.

        On return the changes have their offsets; they survive a crash once the returned future is
        done.
        """
        batches = (*beside, *self.batches(changes, now_ms))
        return self._log.append(batches).durable if batches else AT_ONCE

    def batches(self, changes: Iterable[Change[Key, Value]], now_ms: int) -> Batches:
        """Encode changes as record batches, which the caller appends, alone or with others."""
        encode = self._encoder.encode
        written = [
            Event(None if change.value is None else encode(change.value), encode(change.key))
            for change in changes
        ]
        return [(self._partition, build(each, now_ms=now_ms)) for each in _parts(written)]

    def replay(self, apply: Callable[[Key, Value | None], None]) -> None:
        """Apply all records that the journal still holds, in order."""
        offset, tail = self._log.bounds(self._partition)[:2]
        while offset < tail:
            read = self._log.read(self._partition, offset, _READ_BYTES)
            if not read.length:
                return
            last = memoryview(b"")
            for last in batches(read.tobytes()):
                for event in events(last, from_offset=offset):
                    apply(*self._decode(event))
            offset = read_header(last).last_offset + 1

    def _decode(self, event: Event) -> tuple[Key, Value | None]:
        try:
            key = self._key(event.key or b"")
            return key, None if event.value is None else self._value(event.value)
        except msgspec.ValidationError as error:
            raise FormatTooNew(
                f"offset {event.offset} of {self._topic} holds a record that this version does "
                f"not know ({error}): it was written by a newer one; open the directory with that"
            ) from None
        except msgspec.DecodeError as error:
            raise DamagedLog(
                f"offset {event.offset} of {self._topic} cannot be read: {error}; "
                "run mainstem verify, and restore the directory from a copy"
            ) from None


def _parts(written: Sequence[Event]) -> Iterator[Sequence[Event]]:
    """Split records into batches of bounded size; a record above that size gets its own batch."""
    first, size = 0, 0
    for at, event in enumerate(written):
        event_bytes = len(event.value or b"")
        is_full = size + event_bytes > _BATCH_BYTES or at - first == _EVENTS_PER_BATCH
        if is_full and at > first:
            yield written[first:at]
            first, size = at, 0
        size += event_bytes
    if written:
        yield written[first:]

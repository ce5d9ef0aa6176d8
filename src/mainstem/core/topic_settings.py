"""Topic settings: durability, retention, compaction, overload, and their defaults."""

from enum import StrEnum

import msgspec

from mainstem.core.errors import InvalidSetting


class Durability(StrEnum):
    """What an acknowledged event survives."""

    MEMORY = "memory"
    """Nothing: the event is lost when the process ends."""
    DISK = "disk"
    """The end of the process, also by kill -9, but not a power cut."""
    FSYNC = "fsync"
    """A power cut."""


class Overload(StrEnum):
    """What happens when the slowest live cursor is ``max_backlog`` events behind the tail."""

    BUFFER = "buffer"
    """The event is accepted: the log grows up to retention or the size of the disk."""
    DROP_OLDEST = "drop=oldest"
    """The oldest events are deleted, and those that a reader missed are counted."""
    DROP_NEWEST = "drop=newest"
    """The event is refused and counted; the producer gets an error."""
    BACKPRESSURE = "backpressure"
    """The producer is held for a limited time, then refused with a retriable error."""


class Validate(StrEnum):
    """How much of a record batch is checked before it is appended."""

    HEADER = "header"
    DEEP = "deep"


class Timestamps(StrEnum):
    """Which timestamp an event gets."""

    CREATED = "created"
    """The timestamp that the producer set (CreateTime)."""
    APPENDED = "appended"
    """The time of the append (LogAppendTime)."""


class Compression(StrEnum):
    """How the record batches of a topic are stored."""

    PRODUCER = "producer"
    """As sent by the producer."""
    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


KEPT = {
    "file.delete.delay.ms": "60000",
    "index.interval.bytes": "4096",
    "segment.index.bytes": "10485760",
    "segment.jitter.ms": "0",
    "flush.messages": str(2**63 - 1),
    "flush.ms": str(2**63 - 1),
}
"""Kafka configs about how Kafka manages its files, with Kafka's defaults. They have no effect here;
a topic stores them for tools that set them. Those about syncing need durability fsync, where every
event is synced before it is acknowledged.
"""


class TopicSettings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The settings of a topic, with their defaults."""

    partitions: int = 1
    """The number of partitions; it can be increased, not reduced."""
    durability: Durability = Durability.FSYNC
    """What an acknowledged event survives: memory, disk (kill -9), fsync (power cut)."""
    overload: Overload = Overload.BUFFER
    """What happens when max_backlog is reached: buffer, drop=oldest, drop=newest, backpressure."""
    max_backlog: int | None = None
    """How many events the slowest live cursor of a partition may lag behind; see overload."""
    hold_ms: int = 5_000
    """How long backpressure makes a producer wait before it gets a retriable error."""
    retention_ms: int | None = None
    """Segments whose newest event is older than this are deleted; none keeps them."""
    retention_bytes: int | None = None
    """Oldest segments are deleted while a partition is larger than this; none keeps them."""
    delete_acked: bool = False
    """Delete events that every queue has settled and every live group has read."""
    compact: bool = False
    """Keep only the latest event of each key."""
    expire: bool = True
    """Whether segments are deleted by retention_ms and retention_bytes."""
    tombstone_ms: int = 86_400_000
    """How long compaction keeps an event without a value (a tombstone), by its timestamp."""
    compact_share: float = 0.5
    """Compaction begins when this share of the closed segments' bytes is not compacted yet."""
    compact_after_ms: int = 0
    """Compaction does not touch events younger than this."""
    compact_within_ms: int | None = None
    """Events older than this are compacted however small the share is; none: age has no effect."""
    segment_bytes: int = 128 * 1024 * 1024
    """A segment is closed, and a new one begun, at this size."""
    segment_ms: int | None = None
    """A segment older than this is closed, so that retention can delete it; none: only by size."""
    max_batch_bytes: int = 1_048_588
    """The largest record batch accepted."""
    validate: Validate | None = None
    """What is checked on append: header, or deep (every record).

    None: deep for compacted topics.
    """
    timestamps: Timestamps = Timestamps.CREATED
    """The timestamp of an event: created (set by its producer) or appended (set by the log)."""
    max_ahead_ms: int | None = None
    """Events with a timestamp further in the future than this are refused; none: no limit."""
    max_behind_ms: int | None = None
    """Events with a timestamp further in the past than this are refused; none: no limit."""
    compression: Compression = Compression.PRODUCER
    """How batches are stored: producer (as received), none, gzip, snappy, lz4 or zstd."""
    kept: dict[str, str] = {}
    """Kafka configs without an effect here, stored for tools that set and read them."""

    @property
    def deep(self) -> bool:
        """Whether the records inside a batch are checked before it is appended."""
        if self.validate is Validate.DEEP or self.bounds_times:
            return True
        return self.compact and self.validate is None

    @property
    def bounds_times(self) -> bool:
        """Whether events are refused because of their producer's timestamps."""
        limits = (self.max_ahead_ms, self.max_behind_ms)
        return limits != (None, None) and self.timestamps is Timestamps.CREATED

    @property
    def close_ms(self) -> int | None:
        """The age in ms at which a segment is closed; None if age does not matter."""
        ages = (self.segment_ms, self.compact_within_ms if self.compact else None)
        return min((age for age in ages if age is not None), default=None)

    @property
    def expire_ms(self) -> int | None:
        """The age in ms at which segments are deleted; None if age does not matter."""
        return self.retention_ms if self.expire else None

    @property
    def expire_bytes(self) -> int | None:
        """The partition size in bytes above which segments are deleted.

        None if there is no limit.
        """
        return self.retention_bytes if self.expire else None

    @property
    def expires(self) -> bool:
        """Whether segments are deleted; a compacted topic without retention keeps them."""
        return self.expire and not (
            self.compact and self.retention_ms is None and self.retention_bytes is None
        )

    @property
    def verbatim(self) -> bool:
        """Whether record batches are stored as producers built them."""
        return self.timestamps == "created" and self.compression == "producer"

    def altered(self, **changes: object) -> "TopicSettings":
        """Return these settings with some changed; raises InvalidSetting for unknown names."""
        unknown = sorted(set(changes) - set(self.__struct_fields__))
        if unknown:
            known = ", ".join(self.__struct_fields__)
            raise InvalidSetting(f"no setting {', '.join(unknown)}; there are {known}")
        merged = {name: getattr(self, name) for name in self.__struct_fields__} | changes
        try:
            settings = msgspec.convert(merged, TopicSettings, strict=False)
        except msgspec.ValidationError as error:
            raise InvalidSetting(str(error)) from None
        settings.check()
        return settings

    def check(self) -> None:
        """Raise InvalidSetting for values and combinations that are not valid."""
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if value is not None and value < least:
                raise InvalidSetting(f"{name} must be at least {least}, not {value}")
        if self.partitions > 1_000_000:
            raise InvalidSetting(f"partitions must be at most 1000000, not {self.partitions}")
        if (self.max_backlog is None) != (self.overload is Overload.BUFFER):
            raise InvalidSetting(
                "max_backlog goes with overload drop=oldest, drop=newest or backpressure: "
                "give both or neither"
            )
        if self.compact and self.overload is Overload.DROP_OLDEST:
            raise InvalidSetting("a compacted topic cannot drop=oldest: its state would be lost")
        if unknown := self.kept.keys() - KEPT.keys():
            raise InvalidSetting(f"kept has {sorted(unknown)[0]!r:.100}, not {', '.join(KEPT)}")
        syncs = sorted(name for name in self.kept if name.startswith("flush."))
        if syncs and self.durability is not Durability.FSYNC:
            raise InvalidSetting(
                f"{syncs[0]} is for topics of durability fsync, which sync all they acknowledge; "
                f"this one is of durability {self.durability.value}, and never does"
            )
        self._check_compaction()

    def _check_compaction(self) -> None:
        if not 0 <= self.compact_share <= 1:
            raise InvalidSetting(f"compact_share must be from 0 to 1, not {self.compact_share}")
        within = self.compact_within_ms
        if within is not None and within < self.compact_after_ms:
            raise InvalidSetting(
                f"compact_within_ms ({within}) must not be below compact_after_ms "
                f"({self.compact_after_ms})"
            )
        if self.durability is Durability.MEMORY and (
            within is not None or self.compact_share != 0.5
        ):
            raise InvalidSetting(
                "compact_share and compact_within_ms are about segments; a topic in memory has none"
            )


_LEAST = {
    "partitions": 1,
    "max_backlog": 1,
    "hold_ms": 0,
    "retention_ms": 1,
    "retention_bytes": 1,
    "tombstone_ms": 0,
    "compact_after_ms": 0,
    "compact_within_ms": 1,
    "segment_bytes": 1024,
    "segment_ms": 1,
    "max_batch_bytes": 1024,
    "max_ahead_ms": 0,
    "max_behind_ms": 0,
}

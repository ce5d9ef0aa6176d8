"""Options of the log on disk."""

import msgspec


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the log on disk; the defaults suit one machine with an SSD."""

    max_open_files: int = 4096
    """Maximum number of segment files kept open; others are opened when needed."""
    large_batch_bytes: int = 256 * 1024
    """A batch of this size or more is not in the write-ahead log; its segment is synced instead."""
    wal_step_bytes: int = 1024 * 1024
    """How much disk space the write-ahead log allocates at a time."""
    checkpoint_wal_bytes: int = 32 * 1024 * 1024
    """The size of the write-ahead log at which a checkpoint is made."""
    checkpoint_bytes: int = 512 * 1024 * 1024
    """The number of appended bytes after which a checkpoint is made."""
    checkpoint_batches: int = 200_000
    """The number of batches after which a checkpoint is made, as recovery has to read them."""
    sync_all_from: int = 32
    """From this many changed partitions on, a checkpoint calls syncfs instead of many fsyncs."""
    upkeep_ms: int = 1000
    """Interval of retention, compaction and checkpoints."""
    max_memory_bytes: int = 1024 * 1024 * 1024
    """Limit for all topics with durability ``memory`` together."""
    background: bool = True
    """Whether background threads commit and run upkeep; if not, the caller does it."""

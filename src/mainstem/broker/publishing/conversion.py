"""Rewrites record batches: compression and append time by the topic's settings."""

from mainstem.broker.topics.catalog import Topic
from mainstem.core.batch import read_header, stamp
from mainstem.core.compression import NAMES
from mainstem.core.errors import EventTooLarge
from mainstem.core.records import packed
from mainstem.core.topic_settings import Compression, Timestamps
from mainstem.log.port import WritableBatch


def converted(topic: Topic, batch: WritableBatch, now_ms: int) -> WritableBatch:
    """Return a checked batch with the topic's compression and timestamps; raises CorruptBatch."""
    settings = topic.settings
    wanted = settings.compression
    if wanted is not Compression.PRODUCER and NAMES[read_header(batch).codec] != wanted:
        batch = packed(batch, wanted)
        if len(batch) > settings.max_batch_bytes:
            raise EventTooLarge(topic.name, len(batch), settings.max_batch_bytes)
    if settings.timestamps is Timestamps.APPENDED:
        stamp(batch, now_ms)
    return batch

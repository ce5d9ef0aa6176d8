"""The timestamp of the event at an offset, for lag in seconds."""

from typing import TYPE_CHECKING

from mainstem.core.batch import batches, read_header
from mainstem.core.errors import OffsetOutOfRange
from mainstem.core.records import events

if TYPE_CHECKING:
    from mainstem.broker.broker import Broker


def time_at(broker: "Broker", topic: str, partition: int, offset: int) -> int | None:
    """Return the timestamp of the first event at or after an offset, None if there is none yet."""
    offset = max(offset, broker.bounds(topic, partition).start)
    while True:
        try:
            data = broker.read(topic, partition, offset, 1)
        except OffsetOutOfRange:
            return None
        if not data.length:
            return None
        batch = next(batches(data.tobytes()))
        for event in events(batch, from_offset=offset):
            return event.timestamp_ms
        # Only a transaction marker, or a batch that compaction has emptied.
        offset = read_header(batch).last_offset + 1

"""Converts the broker's description of a queue to ``QueueInfo`` of the Python API."""

from mainstem.broker.door import QueueState
from mainstem.client.info import QueueInfo, QueuePartition


def queue_info(state: QueueState) -> QueueInfo:
    """Return the broker's description of a queue as ``QueueInfo``."""
    settings = state.settings
    return QueueInfo(
        state.topic,
        state.name,
        settings.lock_ms / 1000,
        settings.max_deliveries or 0,
        settings.order.value,
        state.owners,
        tuple(
            QueuePartition(
                each.partition,
                each.start,
                each.next,
                each.tail,
                each.out,
                each.waiting,
                each.missed,
            )
            for each in state.windows
        ),
        (settings.ttl_ms or 0) / 1000,
        settings.max_length or 0,
        settings.max_bytes or 0,
    )

"""The async API: ``async with mainstem.aio.open("data") as stem``, and ``connect``."""

from mainstem.client.aio.opening import Opening
from mainstem.client.aio.opening import connect_async as connect
from mainstem.client.aio.opening import open_async as open  # noqa: A004 - as in gzip
from mainstem.client.aio.stem import (
    AsyncDelivery,
    AsyncGroups,
    AsyncQueue,
    AsyncQueues,
    AsyncStem,
    AsyncSubscription,
    AsyncTopics,
    AsyncWriter,
)

__all__ = [
    "AsyncDelivery",
    "AsyncGroups",
    "AsyncQueue",
    "AsyncQueues",
    "AsyncStem",
    "AsyncSubscription",
    "AsyncTopics",
    "AsyncWriter",
    "Opening",
    "connect",
    "open",
]

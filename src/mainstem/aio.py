"""The async twins: ``async with mainstem.aio.open("data") as stem``, and ``connect``."""

from mainstem.client.aio.administration import AsyncGroups, AsyncTopics
from mainstem.client.aio.embedded_queue import AsyncDelivery, AsyncQueue
from mainstem.client.aio.embedded_stem import AsyncStem
from mainstem.client.aio.embedded_subscription import AsyncSubscription
from mainstem.client.aio.opening import Opening
from mainstem.client.aio.opening import connect_async as connect
from mainstem.client.aio.opening import open_async as open  # noqa: A004 - as in gzip

__all__ = [
    "AsyncDelivery",
    "AsyncGroups",
    "AsyncQueue",
    "AsyncStem",
    "AsyncSubscription",
    "AsyncTopics",
    "Opening",
    "connect",
    "open",
]

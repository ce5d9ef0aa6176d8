"""The options of ``queue``."""

import msgspec

from mainstem.client.info import Order
from mainstem.client.start_positions import Start


class QueueOptions(msgspec.Struct, frozen=True):
    """The options of ``queue``; None leaves a setting unchanged."""

    topic: str
    name: str
    start: Start
    max_deliveries: int | None
    lock_s: float | None
    order: Order | None
    follow: bool

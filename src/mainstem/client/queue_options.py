"""What a queue was asked for."""

import msgspec

from mainstem.client.info import Order
from mainstem.client.starts import Start


class QueueOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a queue was asked for; None leaves a setting as it is."""

    topic: str
    name: str
    start: Start
    max_deliveries: int | None
    lock_s: float | None
    order: Order | None
    follow: bool

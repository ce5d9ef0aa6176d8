"""The options of ``Stem.queue``."""

import msgspec

from mainstem.client.checks import milliseconds
from mainstem.client.info import Order
from mainstem.client.start_positions import Start
from mainstem.core.errors import InvalidSetting


class QueueOptions(msgspec.Struct, frozen=True):
    """The options of ``Stem.queue``; None leaves a setting unchanged."""

    topic: str
    name: str
    start: Start
    max_deliveries: int | None
    lock_s: float | None
    order: Order | None
    ttl_s: float | None
    max_length: int | None
    max_bytes: int | None
    follow: bool


def limits_of(options: QueueOptions) -> dict[str, int | None]:
    """Return the limits of waiting events in ``options``, by the broker's names; None: no limit.

    Limits that the options leave out are left out.
    """
    limits: dict[str, int | None] = {}
    if options.ttl_s is not None:
        limits["ttl_ms"] = milliseconds(options.ttl_s, "ttl_s") or None
    for name in ("max_length", "max_bytes"):
        most: int | None = getattr(options, name)
        if most is not None:
            if not isinstance(most, int) or most < 0:
                raise InvalidSetting(
                    f"{name} must be a number from 1 on, or 0 for no limit, not {most!r:.300}"
                )
            limits[name] = most or None
    return limits

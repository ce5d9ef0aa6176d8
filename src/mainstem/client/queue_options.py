"""The options of ``Stem.queue``."""

from typing import TypedDict

import msgspec

from mainstem.client.checks import milliseconds
from mainstem.client.info import Order
from mainstem.client.start_positions import Start
from mainstem.core.errors import InvalidSetting


class QueueArguments(TypedDict, total=False):
    """The options of ``Stem.queue``; settings that are given change the queue for all consumers."""

    start: Start
    """Where a new queue starts; ``earliest`` by default."""
    max_deliveries: int | None
    """Failed deliveries after which an event becomes a dead letter: 5 by default; 0: no limit."""
    lock_s: float | None
    """Seconds (30 by default) after which an unsettled event goes to another consumer."""
    order: Order | None
    """``key``: an event waits for the earlier ones of its key; ``priority``: by partition."""
    ttl_s: float | None
    """Seconds from publishing to a first delivery, or the event becomes a dead letter; 0: none."""
    max_length: int | None
    """Number of waiting events, beyond which the oldest become dead letters; 0: no limit."""
    max_bytes: int | None
    """Bytes of values of waiting events, beyond which the oldest become dead letters."""
    follow: bool
    """Whether to wait for more at the end; yes by default."""


class QueueOptions(msgspec.Struct, frozen=True):
    """The options of ``Stem.queue``; None leaves a setting unchanged."""

    topic: str
    name: str
    start: Start = "earliest"
    max_deliveries: int | None = None
    lock_s: float | None = None
    order: Order | None = None
    ttl_s: float | None = None
    max_length: int | None = None
    max_bytes: int | None = None
    follow: bool = True


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

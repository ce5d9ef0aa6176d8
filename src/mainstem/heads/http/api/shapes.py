"""Types of JSON responses that other modules encode by hand, for the OpenAPI document only."""

import msgspec

from mainstem.core.dead_letters import Origin
from mainstem.heads.http.formats.event_json import EventFields
from mainstem.heads.web.problem import Problem


class PublishedAt(msgspec.Struct, frozen=True):
    """Where an event was stored."""

    partition: int
    offset: int


class Published(msgspec.Struct, frozen=True):
    """The positions of all events of a request, in their order."""

    positions: list[PublishedAt]


class Events(msgspec.Struct, frozen=True):
    """The JSON response of ``GET …/events``: the events read, and where to read on."""

    events: list[EventFields]
    next: str
    """The position to read on from: the next offset to read in each partition."""


class LeasedDelivery(msgspec.Struct, frozen=True):
    """A delivery of a queue: an event that the client must settle."""

    delivery: str
    count: int
    """How often the event was delivered, this time included."""
    event: EventFields


class Lease(msgspec.Struct, frozen=True):
    """The next events of a queue, and how long their locks last."""

    deliveries: list[LeasedDelivery]
    lock_ms: int


class RefusedSettlement(msgspec.Struct, frozen=True):
    """A delivery that was not settled, and why."""

    delivery: str
    problem: Problem


class Settled(msgspec.Struct, frozen=True):
    """How many deliveries were settled, and those that were refused."""

    settled: int
    refused: list[RefusedSettlement]


class Letter(msgspec.Struct, frozen=True):
    """A dead letter, and where it came from (null if its headers do not tell)."""

    origin: Origin | None
    event: EventFields


class Letters(msgspec.Struct, frozen=True):
    """The first dead letters of a topic."""

    letters: list[Letter]

"""Computes how far a table is behind: unread events, and the age of the oldest of them."""

import time

import msgspec

from mainstem.core.errors import MainstemError
from mainstem.pipelines.state.table_state import TableStatus
from mainstem.remote.admin import Admin
from mainstem.remote.cluster import Cluster
from mainstem.remote.timestamps import times_at


class Lag(msgspec.Struct, frozen=True):
    """How far a table is behind the ends of the topics that it reads."""

    events: int
    age_ms: int
    """Age in ms of the oldest event that is not read; 0 if all are read."""


def lag_of(status: TableStatus, timeout_s: float = 5.0) -> Lag | None:
    """Return how far a table is behind its topics; None if the broker does not answer."""
    places = {
        (topic, int(number)): offset
        for topic, offsets in status.offsets.items()
        for number, offset in offsets.items()
    }
    cluster = Cluster(status.address, timeout_s=timeout_s, settings={})
    try:
        cluster.check_reachable()
        bounds = Admin(cluster).bounds(places)
        behind = {
            place: offset
            for place, offset in places.items()
            if place in bounds and offset < bounds[place].tail
        }
        events = sum(bounds[place].tail - offset for place, offset in behind.items())
        oldest = times_at(cluster, behind)
    except MainstemError:
        return None
    now_ms = time.time_ns() // 1_000_000
    return Lag(events, max((now_ms - each for each in oldest.values()), default=0))

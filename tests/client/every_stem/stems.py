"""Shared by the tests of every stem."""

import threading
from collections.abc import Callable, Iterable

from mainstem.client.stem import Stem, Subscription
from mainstem.core.event import Event

PATIENCE_S = 30


def fill(stem: Stem, topic: str, events: int, partitions: int = 1) -> None:
    stem.topics.create(topic, partitions=partitions)
    for number in range(partitions):
        stem.publish_many(topic, range(number, events, partitions), partition=number)


def numbers(events: Iterable[Event]) -> list[int]:
    return [event.json() for event in events]


def take(subscription: Subscription, wanted: int) -> list[Event]:
    """Read so many events, in whatever pieces they come."""
    found: list[Event] = []
    while len(found) < wanted:
        more = subscription.poll_many(wanted - len(found), timeout=PATIENCE_S)
        assert more, f"{len(found)} of {wanted} events came"
        found += more
    return found


def cursors(stem: Stem, group: str) -> list[int | None]:
    return [lag.cursor for lag in stem.groups.show(group).lags]


def in_thread(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work)
    thread.start()
    return thread

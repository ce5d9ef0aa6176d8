"""State of queues for listings: in each partition, and totals."""

import msgspec

from mainstem.broker.queues.live_queue import LiveQueue
from mainstem.broker.queues.records import QueueSettings


class WindowState(msgspec.Struct, frozen=True):
    """State of a queue in one partition."""

    partition: int
    start: int
    """First unsettled offset: everything below is settled."""
    next: int
    """First offset that was never delivered."""
    tail: int
    out: int
    waiting: int
    """Events that were read, and are to be redelivered or wait for an earlier one of their key."""
    missed: int

    @property
    def unsettled(self) -> int:
        """Number of offsets that may hold unsettled events."""
        return max(0, self.tail - self.next) + self.out + self.waiting


class QueueState(msgspec.Struct, frozen=True):
    """A queue: its settings and state."""

    topic: str
    name: str
    settings: QueueSettings
    windows: tuple[WindowState, ...]
    owners: dict[str, int]
    """Number of events in flight of each owner."""
    redelivered: int = 0
    """Number of redeliveries since the process started."""
    dead: int = 0
    """Number of dead letters since the process started."""


def described(live: LiveQueue) -> QueueState:
    """Return the current state of an open queue."""
    tails = {number: live.keep_within(number).tail for number in live.windows}
    owners: dict[str, int] = {}
    for window in live.windows.values():
        for owner, count in window.owners.items():
            owners[owner] = owners.get(owner, 0) + count
    windows = tuple(
        WindowState(
            number,
            window.start,
            window.next,
            tails[number],
            window.out,
            len(window.entries) - window.out,
            window.missed,
        )
        for number, window in sorted(live.windows.items())
    )
    names, counts = (live.topic.name, live.key.name), (live.redelivered, live.dead)
    return QueueState(*names, live.settings, windows, owners, *counts)

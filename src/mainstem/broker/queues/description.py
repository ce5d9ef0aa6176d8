"""How queues stand: in each partition, and as a whole."""

import msgspec

from mainstem.broker.queues.live_queue import LiveQueue
from mainstem.broker.queues.records import QueueSettings


class WindowState(msgspec.Struct, frozen=True):
    """How a queue stands in one partition."""

    partition: int
    start: int
    """Everything below is settled."""
    next: int
    """Nothing from here on has been delivered."""
    tail: int
    out: int
    waiting: int
    """Events that were read and are not out: to be delivered again, or waiting for their key."""
    missed: int

    @property
    def unsettled(self) -> int:
        """Offsets that are still to be settled."""
        return max(0, self.tail - self.next) + self.out + self.waiting


class QueueState(msgspec.Struct, frozen=True):
    """A queue: its settings, and how it stands."""

    topic: str
    name: str
    settings: QueueSettings
    windows: tuple[WindowState, ...]
    owners: dict[str, int]
    """How many events are out with each owner."""
    redelivered: int = 0
    """How often an event was delivered again since the process started."""
    dead: int = 0
    """How many became dead letters since the process started."""


def described(live: LiveQueue) -> QueueState:
    """Return how a queue stands now."""
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

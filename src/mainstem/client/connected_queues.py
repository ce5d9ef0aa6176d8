"""Queues of a server: open, list, show, peek, delete."""

from collections.abc import Callable
from functools import partial

from mainstem.client.abandoned import Abandoned
from mainstem.client.connected_queue import ConnectedQueue
from mainstem.client.queues import Order
from mainstem.client.seat import milliseconds
from mainstem.client.starts import check_start
from mainstem.client.stem import Start
from mainstem.core.errors import InvalidName, InvalidSetting, Unsupported
from mainstem.core.names import check_group
from mainstem.remote.administering import Administration
from mainstem.remote.share_groups import ACQUIRE, DELIVERIES, LOCK, START, ShareGroups

_LOCK_MS = 30_000
"""What the lock of a group is where the server does not tell."""


class ConnectedQueues:
    """Implements ``Queues`` through the Kafka protocol, and the admin port of our server."""

    def __init__(
        self,
        administration: Administration,
        abandoned: Abandoned,
        check_open: Callable[[], None],
    ) -> None:
        self._administration = administration
        self._abandoned = abandoned
        self._check_open = check_open
        self._groups = ShareGroups(administration)

    def open(
        self,
        topic: str,
        name: str,
        *,
        start: Start,
        max_deliveries: int | None,
        lock_s: float | None,
        order: Order | None,
        follow: bool,
    ) -> ConnectedQueue:
        """Join a queue, made if it is not there; what is given of its settings is changed."""
        self._check_open()
        if not isinstance(name, str):
            raise InvalidName("queue", name, "it is no text")
        check_group(name, "queue")
        wanted = _settings(start, max_deliveries, lock_s, order)
        partitions = range(self._administration.count(topic))
        now = self._groups.settings(name)
        if ACQUIRE in now:
            # No more than are asked for: what waits here has its lock running, and each time that
            # runs out counts as a delivery.
            wanted[ACQUIRE] = "record_limit"
        self._groups.set(name, wanted, now)
        lock_ms = int((now | wanted).get(LOCK, _LOCK_MS))
        return ConnectedQueue(
            self._administration.link,
            topic,
            name,
            lock_s=lock_ms / 1000,
            follow=follow,
            unsettled=partial(self._unsettled, topic, name, partitions),
            abandoned=self._abandoned,
        )

    def close(self) -> None:
        """Let go of the connections."""
        self._groups.close()

    def _unsettled(self, topic: str, name: str, partitions: range) -> int | None:
        """Return how many events are not settled; None if the server does not tell."""
        found = self._groups.standings(name, topic, partitions)
        if found is None:
            return None
        count = sum(max(0, each.lag) for each in found.values())
        open_ones = [number for number in partitions if number not in found or found[number].lag < 0]
        if open_ones:
            # Where nothing was ever settled, Kafka does not tell; where there is nothing, we know.
            bounds = self._administration.bounds([(topic, number) for number in open_ones])
            if any(each.tail > each.start for each in bounds.values()):
                return None
        return count


def _settings(
    start: Start, max_deliveries: int | None, lock_s: float | None, order: Order | None
) -> dict[str, str]:
    """Return what a share group is to be set to; refuse what it cannot be."""
    check_start(start)
    if start not in ("earliest", "latest"):
        raise Unsupported(
            "over the network a queue begins at the earliest or the latest event; to put it "
            "elsewhere, use alterShareGroupOffsets of a Kafka admin client before it has members, "
            "or make it with mainstem.open"
        )
    if order not in (None, "none"):
        raise Unsupported(
            f"over the network a queue cannot be set to order={order!r:.100}; make it with "
            "mainstem.open where no server runs on the directory, and it keeps its order here"
        )
    wanted = {START: str(start)}
    if max_deliveries is not None:
        if not isinstance(max_deliveries, int) or max_deliveries < 0:
            raise InvalidSetting(
                f"max_deliveries must be a number from 2 on, or 0 to try for ever, "
                f"not {max_deliveries!r:.300}"
            )
        wanted[DELIVERIES] = str(int(max_deliveries))
    if lock_s is not None:
        wanted[LOCK] = str(milliseconds(lock_s, "lock_s"))
    return wanted

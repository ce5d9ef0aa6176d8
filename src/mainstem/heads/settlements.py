"""Collects the settlements of all queues, connections and heads into few appends.

How this works: heads whose protocol does not confirm acknowledgements add them here. While queues
have more to deliver, acknowledgements wait about a millisecond, so that more of them share an
append: no delivery depends on them then. Settlements that return events to a queue or make dead
letters are appended at the end of this iteration of the event loop, with all that were added
before.

Nothing waits for the sync of that append, so after a power cut some events may be delivered again.
While the disk is full, settlements are kept and retried, so that peers can continue and their
events are not redelivered.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from mainstem.core.errors import MainstemError, StorageFull

if TYPE_CHECKING:
    from mainstem.broker.door import Door, Settlement

DELAY_MS = 1
"""How long acknowledgements wait for others to share an append."""
RETRY_MS = 1_000
"""Delay before settlements that a full disk refused are retried."""
MANY = 1_000
"""Number of collected settlements that triggers the append at once."""

Call = Callable[[], None]
Refused = Callable[[MainstemError], None]
"""Called with the error of each settlement that had no effect."""
_From = tuple[tuple[str, str], str, Refused]
"""Topic and name of a queue, the owner of deliveries, and the callback for refusals."""


class Settlements:
    """Collects settlements for shared appends; only the event loop may call it."""

    def __init__(self, soon: Callable[[Call], None], after: Callable[[int, Call], object]) -> None:
        """``soon``: makes a call in this iteration of the loop. ``after``: after a delay in ms."""
        self._soon, self._after = soon, after
        self._is_soon = self._is_later = False
        """Whether ``flush`` is scheduled for this iteration (``_is_soon``), and after a delay."""
        self._is_stopping = False
        self._waiting: dict[Door, dict[_From, list[Settlement]]] = {}
        self._count = 0

    def add(
        self,
        door: "Door",
        queue: tuple[str, str],
        owner: str,
        settlements: "Sequence[Settlement]",
        refused: Refused,
        *,
        soon: bool = False,
    ) -> None:
        """Add settlements of an owner's deliveries; ``soon``: append in this iteration of the loop.

        ``refused`` is called with the error of each settlement that has no effect.
        """
        by_owner = self._waiting.get(door)
        if by_owner is None:
            by_owner = self._waiting[door] = {}
        told = by_owner.get((queue, owner, refused))
        if told is None:
            told = by_owner[queue, owner, refused] = []
        told += settlements
        self._count += len(settlements)
        if soon or self._is_stopping or self._count >= MANY:
            self.flush_soon()
        else:
            self._flush_after(DELAY_MS)

    def wait_no_more(self) -> None:
        """Append at the end of each iteration from now on, as the server stops."""
        self._is_stopping = True
        self.flush_soon()

    def flush_soon(self) -> None:
        """Append all collected settlements after this iteration: they may return events."""
        if self._waiting and not self._is_soon:
            self._is_soon = True
            self._soon(self.flush)

    def flush(self) -> None:
        """Append all collected settlements now, before an operation that depends on them."""
        self._is_soon = False
        if not self._waiting:
            return
        waiting, self._waiting, self._count = self._waiting, {}, 0
        for door, by_owner in waiting.items():
            self._settle(door, by_owner)

    def _flush_after(self, delay_ms: int) -> None:
        if not self._is_later:
            self._is_later = True
            self._after(delay_ms, self._after_delay)

    def _after_delay(self) -> None:
        self._is_later = False
        self.flush()

    def _settle(self, door: "Door", by_owner: "dict[_From, list[Settlement]]") -> None:
        from mainstem.broker.door import QueueSettlements  # noqa: PLC0415 - only if used

        told = [QueueSettlements(*queue, owner, it) for (queue, owner, _), it in by_owner.items()]
        try:
            done = door.queues.settle_all(told, lazy=True)
        except StorageFull:
            self._waiting[door] = by_owner
            self._flush_after(RETRY_MS)
            return
        except MainstemError as error:
            for _, _, refused in by_owner:
                refused(error)
            return
        for (_, _, refused), settled in zip(by_owner, done, strict=True):
            for each in settled.refused.values():
                refused(each)

"""Collects the settlements of one iteration of the event loop into one append.

How this works: heads whose protocol does not confirm acknowledgements add them here. Once all input
of the iteration is handled, the settlements of all queues, connections and heads are one append.
Nobody waits for its sync, so after a power cut some events may be delivered again. While the disk
is full they are kept and tried again, so that the peers go on and their events do not come again.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from mainstem.core.errors import MainstemError, StorageFull

if TYPE_CHECKING:
    from mainstem.broker.door import Door, QueueSettlements, Settlement

RETRY_MS = 1_000
"""Delay before settlements that the full disk did not take are tried again."""
Refused = Callable[[MainstemError], None]
"""Called with the error of a settlement that was refused."""


class Settlements:
    """Collects settlements; used in the thread of the event loop."""

    def __init__(
        self,
        soon: Callable[[Callable[[], None]], None],
        after: Callable[[int, Callable[[], None]], object],
    ) -> None:
        """``after``: call after so many milliseconds."""
        self._soon, self._after = soon, after
        self._tries_again = False
        self._waiting: dict[Door, list[tuple[QueueSettlements, Refused]]] = {}

    def add(
        self,
        door: "Door",
        queue: tuple[str, str],
        owner: str,
        settlements: "Sequence[Settlement]",
        refused: Refused,
    ) -> None:
        """Settle deliveries of an owner at the end of this iteration."""
        from mainstem.broker.door import QueueSettlements  # noqa: PLC0415 - only if used

        if not self._waiting:
            self._soon(self.flush)
        told = (QueueSettlements(*queue, owner, settlements), refused)
        self._waiting.setdefault(door, []).append(told)

    def flush(self) -> None:
        """Settle all that were added now, before an operation that depends on it."""
        waiting, self._waiting = self._waiting, {}
        for door, told in waiting.items():
            try:
                done = door.queues.settle_all([each for each, _ in told], lazy=True)
            except StorageFull:
                self._waiting[door] = told
                self._try_again_later()
                continue
            except MainstemError as error:
                for _, refused in told:
                    refused(error)
                continue
            for (_, refused), settled in zip(told, done, strict=True):
                for each in settled.refused.values():
                    refused(each)

    def _try_again_later(self) -> None:
        if not self._tries_again:
            self._tries_again = True
            self._after(RETRY_MS, self._try_again)

    def _try_again(self) -> None:
        self._tries_again = False
        self.flush()

"""Collects the settlements of one iteration of the event loop into one append.

How this works: heads whose protocol does not confirm acknowledgements add them here. Once all input
of the iteration is handled, the settlements of all queues, connections and heads are one append.
Nobody waits for its sync, so after a power cut some events may be delivered again.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from mainstem.core.errors import MainstemError

if TYPE_CHECKING:
    from mainstem.broker.door import Door, QueueSettlements, Settlement

Refused = Callable[[MainstemError], None]
"""Called with the error of a settlement that was refused."""


class Settlements:
    """Collects settlements; used in the thread of the event loop."""

    def __init__(self, soon: Callable[[Callable[[], None]], None]) -> None:
        self._soon = soon
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
            except MainstemError as error:
                for _, refused in told:
                    refused(error)
                continue
            for (_, refused), settled in zip(told, done, strict=True):
                for each in settled.refused.values():
                    refused(each)

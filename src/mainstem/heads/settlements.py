"""What peers say of their deliveries in one turn of the event loop, appended together.

How this works: heads whose protocol does not confirm acknowledgements leave them here. Once
everything that was read in this turn is handled, all of them are one append, for whatever queue,
connection and head, and nobody waits for its sync: after a power cut events may come again.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from mainstem.core.errors import MainstemError

if TYPE_CHECKING:
    from mainstem.broker.door import Door, QueueSettlements, Settlement

Refused = Callable[[MainstemError], None]
"""Is told that what was said of some delivery could not be done."""


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
        """Settle deliveries of an owner at the end of this turn."""
        from mainstem.broker.door import QueueSettlements  # noqa: PLC0415 - only if used

        if not self._waiting:
            self._soon(self.flush)
        told = (QueueSettlements(*queue, owner, settlements), refused)
        self._waiting.setdefault(door, []).append(told)

    def flush(self) -> None:
        """Settle them now, before something that depends on it."""
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

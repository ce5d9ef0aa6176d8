"""The memory budget for incomplete frames, shared by all connections of a server.

How this works: each connection reserves memory for its incomplete frame. The one that has had
memory for the longest time may always reserve more, so that at least one frame completes and frees
its memory. The others may if the budget allows, else they wait. If the oldest receives nothing
while others wait, it is disconnected.
"""

import asyncio
from typing import Protocol

STALL_S = 10.0


class Holder(Protocol):
    """A connection with memory for an incomplete frame."""

    def room_again(self) -> None:
        """Try again to reserve memory, because some was freed."""

    def close(self, reason: str) -> None:
        """Disconnect the peer, because other connections wait for the memory."""


class ReceiveBudget:
    """The limit on the memory of all incomplete frames together."""

    def __init__(self, max_bytes: int, beside: "ReceiveBudget | None" = None) -> None:
        """``beside``: another budget; while that is used up, this one counts as used up, too."""
        self._max_bytes = max_bytes
        self._beside = beside
        self._held: dict[Holder, int] = {}
        self._waiting: dict[Holder, None] = {}
        self._total = 0
        self._looked_at: tuple[Holder, int] | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_tight(self) -> bool:
        """Whether the budget is used up, so that connections should read little at a time."""
        is_used_up = self._total >= self._max_bytes
        return is_used_up or (self._beside is not None and self._beside.is_tight)

    def hold(self, holder: Holder, size: int, *, must: bool = False) -> bool:
        """Set a connection's reservation to ``size`` bytes; return False if it must wait.

        ``room_again`` is then called later. ``must``: reserve in any case, because the data was
        read already.
        """
        held = self._held.get(holder, 0)
        first = next(iter(self._held), holder)
        if self._total + size - held > self._max_bytes and first is not holder and not must:
            self._waiting[holder] = None
            self._watch()
            return False
        self._held[holder] = size
        self._total += size - held
        return True

    def release(self, holder: Holder) -> None:
        """Free the memory that a connection has reserved, and let waiting connections try again."""
        self._waiting.pop(holder, None)
        if holder not in self._held:
            return
        self._total -= self._held.pop(holder)
        first = next(iter(self._held), None)
        for each in sorted(self._waiting, key=lambda it: it is not first):
            if self.is_tight and each is not first:
                break
            self._waiting.pop(each, None)
            each.room_again()
            if each in self._waiting:
                break

    def _watch(self) -> None:
        if self._timer is None:
            self._looked_at = next(iter(self._held.items()))
            self._timer = asyncio.get_running_loop().call_later(STALL_S, self._look)

    def _look(self) -> None:
        """Disconnect the oldest connection if it has received nothing since the last check."""
        self._timer = None
        if not self._waiting:
            return
        first, held = next(iter(self._held.items()))
        if self._looked_at == (first, held):
            first.close(
                f"the rest of its request did not come within {STALL_S:.0f} s, "
                "and others wait for the memory that it takes"
            )
        if self._waiting:
            self._watch()

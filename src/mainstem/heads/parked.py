"""A parked request (Kafka's purgatory): waits for events or room, until a timeout or disconnect.

How this works: ``wake``, from any thread, schedules one call of ``look`` in the event loop, however
often it is called meanwhile. The request calls ``end`` when it has found enough. Otherwise ``over``
is called one time, with the reason (timeout, peer disconnected or server stopping), after all
watches are cancelled. An ended wait keeps no references, so a late ``wake`` does no harm.
"""

from collections.abc import Callable, Hashable
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mainstem.heads.context import HeadContext

Call = Callable[[], None]


class Over(Enum):
    """Why a wait is over, if not by a call of ``end``."""

    TIME = "its time is up"
    PEER = "the peer has gone"
    DRAINING = "the server stops"


class Parked:
    """A wait of one request, which ends once; only ``wake`` may be called from any thread."""

    __slots__ = ("_context", "_look", "_over", "_peer", "_timer", "_watches", "_woken")

    def __init__(
        self,
        context: "HeadContext",
        peer: set[Call],
        wait_ms: int,
        over: Callable[[Over], None],
        look: Call,
    ) -> None:
        """Begin the wait; see the module for ``look`` and ``over``.

        ``peer``: the calls to make when the peer disconnects; the wait adds its own until it ends.
        """
        self._context = context
        self._peer = peer
        self._look: Call | None = look
        self._over = over
        self._watches: dict[Hashable, Call] = {}
        self._woken = False
        self._timer = context.after(wait_ms, self._time_is_up)
        peer.add(self._peer_has_gone)
        context.parked.add(self)

    @property
    def watches(self) -> dict[Hashable, Call]:
        """Functions that cancel the watches of the request, by keys that the request chooses."""
        return self._watches

    def wake(self) -> None:
        """Schedule a call of ``look``; called from any thread."""
        if not self._woken:
            self._woken = True
            self._context.on_loop(self._look_again)

    def end(self) -> None:
        """End the wait without calling ``over``, and cancel all watches."""
        if self._look is None:
            return
        self._look, self._over = None, _ignored
        self._timer.cancel()
        self._peer.discard(self._peer_has_gone)
        self._context.parked.discard(self)
        watches, self._watches = self._watches, {}
        for take_back in watches.values():
            take_back()

    def drain(self) -> None:
        """End the wait because the server stops."""
        self._end(Over.DRAINING)

    def _look_again(self) -> None:
        self._woken = False
        if self._look is not None:
            self._look()

    def _time_is_up(self) -> None:
        self._end(Over.TIME)

    def _peer_has_gone(self) -> None:
        self._end(Over.PEER)

    def _end(self, why: Over) -> None:
        over = self._over
        self.end()
        over(why)


def _ignored(_: Over) -> None:
    """Do nothing: replaces ``over`` once the wait has ended."""

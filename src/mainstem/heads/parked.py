"""One request that waits: for events or room, no longer than it may, while its peer is there.

How this works: whoever waits is told to ``look`` in the thread of the loop, as often as something
has happened, however many threads have said so (``wake``). It ends the wait itself once it has
found enough. Otherwise the wait is over because of the time, the peer or the server; that is said
once, after everything was taken back. A wait that has ended keeps nothing alive: who still knows
how to wake it may keep that for as long as it likes.
"""

from collections.abc import Callable, Hashable
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mainstem.heads.context import HeadContext

Call = Callable[[], None]


class Over(Enum):
    """Why a wait is over before enough was found."""

    TIME = "its time is up"
    PEER = "the peer has gone"
    DRAINING = "the server stops"


class Parked:
    """A wait that ends once; used in the thread of the loop, except for ``wake``."""

    __slots__ = ("_context", "_look", "_over", "_peer", "_timer", "_watches", "_woken")

    def __init__(
        self,
        context: "HeadContext",
        peer: set[Call],
        wait_ms: int,
        over: Callable[[Over], None],
        look: Call,
    ) -> None:
        """``peer``: what is called when the peer has gone."""
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
        """What takes back each watch that is set for this, whatever it is known by."""
        return self._watches

    def wake(self) -> None:
        """Have a look soon; called from any thread."""
        if not self._woken:
            self._woken = True
            self._context.on_loop(self._look_again)

    def end(self) -> None:
        """Wait no longer, and take back all watches."""
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
        """Wait no longer, as the server stops."""
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
    """Tell nobody: the wait has ended before."""

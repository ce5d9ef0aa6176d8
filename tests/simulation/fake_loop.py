"""The event loop of a head in the simulated world: its calls are among the world's."""

from collections.abc import Callable, Iterator

from tests.simulation.world import World

Call = Callable[[], None]


class Timer:
    """A call that is made later, unless it is cancelled."""

    def __init__(self, call: Call) -> None:
        self._call: Call | None = call

    def cancel(self) -> None:
        """Never make the call."""
        self._call = None

    def ring(self) -> None:
        """Make the call."""
        if self._call is not None:
            self._call()


class Loop:
    """What the head needs of an event loop, until the process dies."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.is_dead = False

    def time(self) -> float:
        """Return seconds."""
        return self._world.now_ms / 1000

    def call_later(self, delay: float, call: Call) -> Timer:
        """Make a call after so many seconds."""
        timer = Timer(call)
        self._world.at(max(0, round(delay * 1000)), lambda: self._ring(timer))
        return timer

    def call_at(self, when: float, call: Call) -> Timer:
        """Make a call at a time."""
        return self.call_later(when - self.time(), call)

    def call_soon(self, call: Call) -> None:
        """Make a call soon."""
        self.call_later(0, call)

    call_soon_threadsafe = call_soon

    def _ring(self, timer: Timer) -> None:
        if not self.is_dead:
            timer.ring()


class Calls(set[Call]):
    """Calls in the order in which they were added, which is the same in every process."""

    def __init__(self) -> None:
        super().__init__()
        self._order: dict[Call, None] = {}

    def add(self, call: Call) -> None:
        """Put a call last."""
        super().add(call)
        self._order[call] = None

    def discard(self, call: object) -> None:
        """Take a call out."""
        super().discard(call)
        self._order = {each: None for each in self._order if each != call}

    def __iter__(self) -> Iterator[Call]:
        return iter(self._order)

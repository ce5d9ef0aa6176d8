"""Tells a peer that what it asked for is durable, in the order in which it asked."""

from collections.abc import Callable

from mainstem.broker.door import Durable
from mainstem.core.errors import MainstemError
from mainstem.heads.context import HeadContext

Call = Callable[[], None]


class Confirmations:
    """What one peer waits for; used in the thread of the event loop."""

    def __init__(self, context: HeadContext, failed: Callable[[MainstemError], None]) -> None:
        """``failed`` is told of what will never be durable."""
        self._context = context
        self._failed = failed
        self._last: Durable | None = None
        """The last append that was not durable at once: those before it are, once it is."""

    def not_before(self, durable: Durable) -> None:
        """Confirm nothing more before this is durable."""
        if durable is self._last:
            return
        if not durable.done:
            self._last = durable

        def decided(error: MainstemError | None) -> None:
            if error is not None:
                self._context.on_loop(lambda: self._failed(error))

        durable.then(decided)

    @property
    def is_all_durable(self) -> bool:
        """Whether nothing is waited for."""
        return self._last is None or self._last.done

    def when_durable(self, call: Call) -> None:
        """Call on the loop once all is durable that was asked for so far; never if it fails."""
        if self._last is None:
            self._context.on_loop(call)
            return

        def decided(error: MainstemError | None) -> None:
            if error is None:
                self._context.on_loop(call)

        self._last.then(decided)

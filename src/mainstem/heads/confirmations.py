"""Sends confirmations to a peer when its requests are durable, in the order of the requests."""

from collections.abc import Callable

from mainstem.broker.door import Durable
from mainstem.core.errors import MainstemError
from mainstem.heads.context import HeadContext

Call = Callable[[], None]


class Confirmations:
    """The pending confirmations of one peer; only the event loop may call it."""

    def __init__(self, context: HeadContext, failed: Callable[[MainstemError], None]) -> None:
        """``failed`` is called with the error if an append fails."""
        self._context = context
        self._failed = failed
        self._last: Durable | None = None
        """The latest append that was not durable at once; when it is durable, all earlier appends
        are too.
        """

    def not_before(self, durable: Durable) -> None:
        """Make later confirmations wait until this append is durable."""
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
        """Whether all appends of the peer are durable."""
        return self._last is None or self._last.done

    def when_durable(self, call: Call) -> None:
        """Call ``call`` in the event loop once all appends so far are durable, unless one fails."""
        if self._last is None:
            self._context.on_loop(call)
            return

        def decided(error: MainstemError | None) -> None:
            if error is None:
                self._context.on_loop(call)

        self._last.then(decided)

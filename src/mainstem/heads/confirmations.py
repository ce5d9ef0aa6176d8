"""Confirmations: tell a peer that its requests are durable, in the order of the requests."""

from collections.abc import Callable

from mainstem.broker.door import Durable
from mainstem.core.errors import MainstemError
from mainstem.heads.context import HeadContext

Call = Callable[[], None]


class Confirmations:
    """The pending confirmations of one peer; used in the event loop's thread."""

    def __init__(self, context: HeadContext, failed: Callable[[MainstemError], None]) -> None:
        """``failed`` is called with the error if an append fails."""
        self._context = context
        self._failed = failed
        self._last: Durable | None = None
        """The last append that was not durable at once; when it is durable, all earlier ones are
        too.
        """

    def not_before(self, durable: Durable) -> None:
        """Hold back all later confirmations until this is durable."""
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
        """Whether no append is pending."""
        return self._last is None or self._last.done

    def when_durable(self, call: Call) -> None:
        """Call ``call`` on the loop when all appends so far are durable; never if one fails."""
        if self._last is None:
            self._context.on_loop(call)
            return

        def decided(error: MainstemError | None) -> None:
            if error is None:
                self._context.on_loop(call)

        self._last.then(decided)

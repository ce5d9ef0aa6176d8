"""RECEIPT is sent once everything that the client asked for so far is durable."""

from collections.abc import Callable, Sequence

from mainstem.broker.door import Durable
from mainstem.core.errors import MainstemError
from mainstem.heads.context import HeadContext
from mainstem.heads.conversation import Answer, Later
from mainstem.heads.stomp.session import Session


class Receipts:
    """The receipts of one client."""

    def __init__(
        self, context: HeadContext, session: Session, failed: Callable[[MainstemError], None]
    ) -> None:
        self._context = context
        self._session = session
        self._failed = failed
        self._last: Durable | None = None
        """The last append that was not durable at once: those before it are, once it is."""

    def not_before(self, durable: Durable) -> None:
        """Confirm nothing more before this is durable; ``failed`` is told if it never will be."""
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

    def when_durable(self, call: Callable[[], None]) -> None:
        """Call on the loop once all is durable that was asked for so far; never if it fails."""
        if self._last is None:
            self._context.on_loop(call)
            return

        def decided(error: MainstemError | None) -> None:
            if error is None:
                self._context.on_loop(call)

        self._last.then(decided)

    def frames(self, receipts: Sequence[str | None]) -> list[bytes]:
        """Return receipts as they are sent."""
        return [self._session.receipt(each) for each in receipts if each is not None]

    def confirm(self, receipts: Sequence[str | None], later: Later | None = None) -> Answer | Later:
        """Answer with receipts once all is durable; ``later`` is what to answer with, if it is."""
        frames = self.frames(receipts)
        if later is None and (self.is_all_durable or not frames):
            return frames
        found = later or Later()
        self.when_durable(lambda: found.settle(frames))
        return found

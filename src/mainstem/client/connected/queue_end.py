"""When a loop over a queue of a server ends that does not follow."""

import time
from collections.abc import Callable

_QUIET_S, _JOIN_S = 5.0, 15.0
"""If nothing came for so long, whatever is not settled is out with others; at first it may take
longer, as Kafka tells a new member after some seconds what it may ask for."""


class QueueEnd:
    """Finds out whether nothing is to be had: all is settled, or out with somebody.

    That a poll came back empty says little, as a fetch may be on its way.
    """

    def __init__(
        self, unsettled: Callable[[], int | None], ready: Callable[[], int | None]
    ) -> None:
        self._unsettled, self._ready = unsettled, ready
        self._quiet_since = time.monotonic()
        self._none_ready = 0

    def is_here(self, held: Callable[[], int], *, was_given: bool) -> bool:
        """Tell so after a member has polled in vain, which may have been given something before."""
        left = self._unsettled()
        if left is not None and left <= held():
            return True
        # Looked at twice: what was just given to a member here is not ready either.
        self._none_ready = self._none_ready + 1 if self._ready() == 0 else 0
        quiet_s = time.monotonic() - self._quiet_since
        return self._none_ready > 1 or quiet_s >= (_QUIET_S if was_given else _JOIN_S)

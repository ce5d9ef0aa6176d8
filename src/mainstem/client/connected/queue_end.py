"""Decides when iterating over a queue on a server with ``follow=False`` has reached its end."""

import time
from collections.abc import Callable

_QUIET_S, _JOIN_S = 5.0, 15.0
"""If nothing arrives for ``_QUIET_S`` seconds, other consumers hold all unsettled events. A new
member waits ``_JOIN_S``, as Kafka needs some seconds to assign its partitions.
"""


class QueueEnd:
    """Finds out whether no event is available: every event is settled, or with a consumer.

    An empty poll alone is no proof, as a fetch may still be running.
    """

    def __init__(
        self, unsettled: Callable[[], int | None], ready: Callable[[], int | None]
    ) -> None:
        self._unsettled, self._ready = unsettled, ready
        self._quiet_since = time.monotonic()
        self._none_ready = 0

    def is_here(self, held: Callable[[], int], *, was_given: bool) -> bool:
        """Return whether the end is reached; called after an empty poll of a member.

        ``held`` returns the number of unsettled events of this queue object; ``was_given`` says
        whether the member ever got events.
        """
        left = self._unsettled()
        if left is not None and left <= held():
            return True
        # Two checks in a row must find none, as events that were just fetched here do not count as
        # ready either.
        self._none_ready = self._none_ready + 1 if self._ready() == 0 else 0
        quiet_s = time.monotonic() - self._quiet_since
        return self._none_ready > 1 or quiet_s >= (_QUIET_S if was_given else _JOIN_S)

"""Settles deliveries and logs their attempts, those of all endpoints together in one append.

How this works: settlements and attempts are collected for a millisecond, and then appended
together, all or nothing: after a crash, each settled event has its attempt in the log. If the
append is lost, the event is delivered again. While the disk is full, the append is retried.
"""

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from mainstem.broker.door import QueueSettlements, Settlement, TopicEvents
from mainstem.core.errors import MainstemError, StorageFull
from mainstem.core.event import Event
from mainstem.heads.webhooks.adapter.attempts import TOPIC, Attempt, event_of

if TYPE_CHECKING:
    from mainstem.heads.context import HeadContext
    from mainstem.heads.webhooks.metrics import Counts

_logger = logging.getLogger("mainstem.heads.webhooks")

DELAY_MS = 1
RETRY_MS = 1_000
MANY = 500
"""Number of collected settlements that triggers the append at once."""

Call = Callable[[], None]
_From = tuple[tuple[str, str], str]
"""Topic and name of a queue, and the owner of its deliveries."""


class Outcomes:
    """Collects settlements and attempts; only the event loop may call it."""

    def __init__(self, context: "HeadContext", counts: "Counts") -> None:
        self._context, self._counts = context, counts
        self._settlements: dict[_From, list[Settlement]] = {}
        self._attempts: list[Event] = []
        self._then: list[Call] = []
        self._count = 0
        self._is_due = self._is_soon = False
        self._complains = True
        """Whether to log the next failure to append attempts: only the first in a row is logged."""

    def add(
        self,
        queue: tuple[str, str],
        owner: str,
        settlements: Sequence[Settlement],
        attempts: Sequence[Attempt] = (),
        then: Call | None = None,
    ) -> None:
        """Add settlements and attempts to the next append; ``then`` is called after it."""
        self._settlements.setdefault((queue, owner), []).extend(settlements)
        self._attempts += map(event_of, attempts)
        if then is not None:
            self._then.append(then)
        self._count += len(settlements)
        if self._count >= MANY:
            self.flush()
        elif not self._is_due:
            self._is_due = True
            self._context.after(DELAY_MS, self._when_due)

    def flush_soon(self) -> None:
        """Append at the end of this iteration of the loop, as later deliveries depend on it."""
        if not self._is_soon:
            self._is_soon = True
            self._context.on_loop(self._when_soon)

    def flush(self) -> None:
        """Append everything that was collected."""
        if not self._settlements and not self._attempts:
            return
        settled = [
            QueueSettlements(*queue, owner, found)
            for (queue, owner), found in self._settlements.items()
        ]
        attempts = [TopicEvents(TOPIC, self._attempts, 0)] if self._attempts else []
        try:
            self._context.broker.publish_all(attempts, settled)
        except StorageFull:
            if not self._is_due:
                self._is_due = True
                self._context.after(RETRY_MS, self._when_due)
            return
        except MainstemError as error:
            # For example a queue was just deleted: the other settlements are appended without it.
            self._apart(settled, attempts, error)
        self._settlements, self._attempts, self._count = {}, [], 0
        calls, self._then = self._then, []
        for call in calls:
            call()

    def _when_soon(self) -> None:
        self._is_soon = False
        self.flush()

    def _when_due(self) -> None:
        self._is_due = False
        self.flush()

    def _apart(
        self,
        settled: Sequence[QueueSettlements],
        attempts: Sequence[TopicEvents],
        error: MainstemError,
    ) -> None:
        try:
            self._context.broker.queues.settle_all(settled, lazy=True)
        except MainstemError as refused:
            # Unsettled events are delivered again.
            _logger.warning("%d queues of endpoints are not settled: %s", len(settled), refused)
        try:
            self._context.broker.publish_all(attempts)
            self._complains = True
        except MainstemError as refused:
            self._counts.unlogged += sum(len(each.events) for each in attempts)
            if self._complains:
                self._complains = False
                _logger.error("attempts are not logged: %s (%s)", refused, error)

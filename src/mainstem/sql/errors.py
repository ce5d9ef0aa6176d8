"""Errors of queries."""

from mainstem.core.errors import Failure, MainstemError


class MissingSql(MainstemError, failure=Failure.UNSUPPORTED):
    """Raised if a package of the extra ``sql`` is not installed."""


class InvalidQuery(MainstemError, failure=Failure.INVALID):
    """Raised if a query is refused before anything is read, or does not fit the events."""


class QueryFailed(MainstemError, failure=Failure.INVALID):
    """Raised if a query fails on the events that it reads."""


class LimitReached(MainstemError, failure=Failure.OVERLOADED):
    """Raised if a query needs more memory, time or rows than its limits allow."""


class SnapshotGone(MainstemError, failure=Failure.NOT_FOUND):
    """Raised if a snapshot cannot be read any more, as events or topics were deleted."""

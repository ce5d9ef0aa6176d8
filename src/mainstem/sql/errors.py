"""Errors of queries."""

from mainstem.core.errors import Failure, MainstemError


class MissingSql(MainstemError):
    """Raised if a package of the extra ``sql`` is not installed."""

    failure = Failure.UNSUPPORTED


class InvalidQuery(MainstemError):
    """Raised if a query is refused before anything is read, or does not fit the events."""

    failure = Failure.INVALID


class QueryFailed(MainstemError):
    """Raised if a query fails on the events that it reads."""

    failure = Failure.INVALID


class LimitReached(MainstemError):
    """Raised if a query needs more memory, time or rows than its limits allow."""

    failure = Failure.OVERLOADED


class SnapshotGone(MainstemError):
    """Raised if a snapshot cannot be read any more, as events or topics were deleted."""

    failure = Failure.NOT_FOUND

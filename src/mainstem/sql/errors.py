"""Errors of queries."""

from mainstem.core.errors import Failure, MainstemError


class MissingSql(MainstemError):
    """Raised if a package of the extra ``sql`` is not installed."""

    failure = Failure.UNSUPPORTED


class InvalidQuery(MainstemError):
    """The query is refused before anything is read."""

    failure = Failure.INVALID


class QueryFailed(MainstemError):
    """The query failed on the events that it read."""

    failure = Failure.INVALID


class LimitReached(MainstemError):
    """The query needs more memory, time or rows than its limits allow."""

    failure = Failure.OVERLOADED


class SnapshotGone(MainstemError):
    """A snapshot can no longer be read as it was: events or topics were deleted."""

    failure = Failure.NOT_FOUND

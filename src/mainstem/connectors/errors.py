"""The errors of connectors."""

from mainstem.core.errors import Failure, MainstemError


class SourceFailed(MainstemError, failure=Failure.UNAVAILABLE, retriable=True):
    """Raised if the database fails or cannot be reached; the connector then tries again."""


class SourceRefused(MainstemError, failure=Failure.CONFLICT):
    """Raised if the connector must stop until somebody acts; the message says what to do."""


class MissingExtra(MainstemError, failure=Failure.UNSUPPORTED):
    """Raised if the Python package for a kind of database is not installed."""


class UnknownConnector(MainstemError, failure=Failure.NOT_FOUND):
    """Raised if there is no connector of this name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no connector {name!r:.300}; see mainstem connector ls")
        self.name = name


class ConnectorExists(MainstemError, failure=Failure.EXISTS):
    """Raised if there is a connector of this name already."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"there is a connector {name!r} already; remove it (mainstem connector rm {name}), or "
            "choose another name"
        )
        self.name = name


class ConnectorTaken(MainstemError, failure=Failure.CONFLICT, retriable=True):
    """Raised if another process runs the connector; the message says which."""


class LeaseEnded(MainstemError, failure=Failure.FENCED):
    """Raised if the lease with which a process publishes has ended; it must take a new one."""

    def __init__(self) -> None:
        super().__init__(
            "the lease of the connector has ended: it was changed, taken by another process, or "
            "this process was silent for too long"
        )

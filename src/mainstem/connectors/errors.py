"""The errors of connectors."""

from mainstem.core.errors import Failure, MainstemError


class SourceFailed(MainstemError):
    """Raised if the database fails or cannot be reached; the connector then tries again."""

    failure = Failure.UNAVAILABLE
    retriable = True


class SourceRefused(MainstemError):
    """Raised if the connector must stop until somebody acts; the message says what to do."""

    failure = Failure.CONFLICT


class MissingExtra(MainstemError):
    """Raised if the Python package for a kind of database is not installed."""

    failure = Failure.UNSUPPORTED


class UnknownConnector(MainstemError):
    """Raised if there is no connector of this name."""

    failure = Failure.NOT_FOUND

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no connector {name!r:.300}; see mainstem connector ls")
        self.name = name


class ConnectorExists(MainstemError):
    """Raised if there is a connector of this name already."""

    failure = Failure.EXISTS

    def __init__(self, name: str) -> None:
        super().__init__(
            f"there is a connector {name!r} already; remove it (mainstem connector rm {name}), or "
            "choose another name"
        )
        self.name = name


class ConnectorTaken(MainstemError):
    """Raised if another process runs the connector; the message says which."""

    failure = Failure.CONFLICT
    retriable = True


class LeaseEnded(MainstemError):
    """Raised if the lease with which a process publishes has ended; it must take a new one."""

    failure = Failure.FENCED

    def __init__(self) -> None:
        super().__init__(
            "the lease of the connector has ended: it was changed, taken by another process, or "
            "this process was silent for too long"
        )

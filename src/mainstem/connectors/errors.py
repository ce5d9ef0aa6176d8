"""The errors of connectors."""

from mainstem.core.errors import Failure, MainstemError


class SourceFailed(MainstemError):
    """The database cannot be reached, or has ended the connection; the connector tries again."""

    failure = Failure.UNAVAILABLE
    retriable = True


class SourceRefused(MainstemError):
    """The database cannot be followed until somebody acts; the connector stops."""

    failure = Failure.CONFLICT


class MissingExtra(MainstemError):
    """The package that talks to a database is not installed."""

    failure = Failure.UNSUPPORTED


class UnknownConnector(MainstemError):
    """There is no connector of this name."""

    failure = Failure.NOT_FOUND

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no connector {name!r:.300}; see mainstem connector ls")
        self.name = name


class ConnectorExists(MainstemError):
    """There is a connector of this name already."""

    failure = Failure.EXISTS

    def __init__(self, name: str) -> None:
        super().__init__(
            f"there is a connector {name!r} already; remove it (mainstem connector rm {name}), or "
            "choose another name"
        )
        self.name = name

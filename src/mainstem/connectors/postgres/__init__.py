"""PostgreSQL as a source of changes; needs the extra ``postgres``."""

from collections.abc import Callable
from importlib.util import find_spec

from mainstem.connectors.port import Kind, Source, SourceBlock
from mainstem.connectors.settings import ConnectorSettings
from mainstem.core.errors import Failure, MainstemError


class MissingExtra(MainstemError):
    """The package that talks to PostgreSQL is not installed."""

    failure = Failure.UNSUPPORTED


def _check(settings: ConnectorSettings) -> None:
    _require()
    from mainstem.connectors.postgres.connections import check_url  # noqa: PLC0415 - the extra

    check_url(settings.url)


def _open(settings: ConnectorSettings, password: Callable[[], str | None]) -> Source:
    _require()
    from mainstem.connectors.postgres.source import PostgresSource  # noqa: PLC0415 - the extra

    return PostgresSource(settings, password)


def _require() -> None:
    if find_spec("psycopg") is None:
        raise MissingExtra(
            "connectors to PostgreSQL need psycopg: pip install 'mainstem[postgres]'"
        )


KIND = Kind(
    name="postgresql",
    schemes=("postgres", "postgresql"),
    source=SourceBlock(
        "io.debezium.connector.postgresql.Source",
        (
            ("schema", "string", False),
            ("table", "string", False),
            ("txId", "int64", True),
            ("lsn", "int64", True),
            ("xmin", "int64", True),
            ("origin", "string", True),
            ("origin_lsn", "int64", True),
        ),
    ),
    check=_check,
    open=_open,
)

"""PostgreSQL as a source of changes; needs the extra ``postgres``."""

from mainstem.connectors.optional_source import OptionalSource
from mainstem.connectors.port import Kind, SourceBlock

_SOURCE = OptionalSource(
    "psycopg",
    "connectors to PostgreSQL need psycopg: pip install 'mainstem[postgres]'",
    "mainstem.connectors.postgres.connections",
    "mainstem.connectors.postgres.source:PostgresSource",
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
    check=_SOURCE.check,
    open=_SOURCE.open,
)

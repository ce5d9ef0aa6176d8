"""MariaDB and MySQL as sources of changes; need the extra ``mysql`` (PyMySQL)."""

from urllib.parse import urlsplit

from mainstem.connectors.optional_source import OptionalSource
from mainstem.connectors.port import Kind, SourceBlock

_SOURCE = OptionalSource(
    "pymysql",
    "connectors to MariaDB and MySQL need PyMySQL: pip install 'mainstem[mysql]'",
    "mainstem.connectors.mariadb.connections",
    "mainstem.connectors.mariadb.source:MariaDbSource",
)


def _kind(name: str) -> Kind:
    return Kind(
        name=name,
        schemes=(name,),
        source=SourceBlock(
            f"io.debezium.connector.{name}.Source",
            (
                ("table", "string", True),
                ("server_id", "int64", False),
                ("gtid", "string", True),
                ("file", "string", False),
                ("pos", "int64", False),
                ("row", "int32", False),
                ("thread", "int64", True),
                ("query", "string", True),
            ),
        ),
        check=_SOURCE.check,
        open=_SOURCE.open,
        schema_of_url=lambda url: urlsplit(url).path.strip("/"),
        has_schemas=False,
    )


MARIADB, MYSQL = _kind("mariadb"), _kind("mysql")

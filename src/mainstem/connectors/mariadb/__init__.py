"""MariaDB and MySQL as sources of changes; need the extra ``mysql``."""

from collections.abc import Callable
from importlib.util import find_spec
from urllib.parse import urlsplit

from mainstem.connectors.port import Kind, Source, SourceBlock
from mainstem.connectors.settings import ConnectorSettings
from mainstem.core.errors import Failure, MainstemError


class MissingExtra(MainstemError):
    """The package that talks to MariaDB is not installed."""

    failure = Failure.UNSUPPORTED


def _check(settings: ConnectorSettings) -> None:
    _require()
    from mainstem.connectors.mariadb.connections import check_url  # noqa: PLC0415 - the extra

    check_url(settings.url)


def _open(settings: ConnectorSettings, password: Callable[[], str | None]) -> Source:
    _require()
    from mainstem.connectors.mariadb.source import MariaDbSource  # noqa: PLC0415 - the extra

    return MariaDbSource(settings, password)


def _require() -> None:
    if find_spec("pymysql") is None:
        raise MissingExtra(
            "connectors to MariaDB and MySQL need PyMySQL: pip install 'mainstem[mysql]'"
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
        check=_check,
        open=_open,
        schema_of_url=lambda url: urlsplit(url).path.strip("/"),
    )


MARIADB, MYSQL = _kind("mariadb"), _kind("mysql")

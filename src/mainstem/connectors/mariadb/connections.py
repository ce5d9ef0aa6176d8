"""Connections to MariaDB and MySQL; the password is not part of the URL."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

import pymysql
from pymysql.connections import Connection
from pymysql.constants import CR, ER
from pymysql.converters import encoders

from mainstem.connectors.errors import SourceFailed, SourceRefused
from mainstem.core.errors import InvalidSetting

_PORT = 3306
_CONNECT_S = 10
_READ_S = 300
_OPTIONS = ("ssl_ca", "ssl")
_ACCESS_DENIED_PROXY = 1698
_NEEDS_RIGHTS = {
    *(ER.ACCESS_DENIED_ERROR, ER.DBACCESS_DENIED_ERROR, ER.TABLEACCESS_DENIED_ERROR),
    *(ER.COLUMNACCESS_DENIED_ERROR, ER.SPECIFIC_ACCESS_DENIED_ERROR, _ACCESS_DENIED_PROXY),
}
_REFUSED = {
    *(ER.BAD_DB_ERROR, ER.HOST_NOT_PRIVILEGED, ER.NO_SUCH_TABLE, ER.NOT_SUPPORTED_AUTH_MODE),
    *(ER.MASTER_FATAL_ERROR_READING_BINLOG,),
}


class Address(NamedTuple):
    """Where a database is, and as which user to connect."""

    host: str
    port: int
    user: str
    database: str
    options: Mapping[str, str]


def address_of(url: str) -> Address:
    """Parse a URL; raises InvalidSetting."""
    parts = urlsplit(url)
    if parts.password is not None:
        raise InvalidSetting(
            "the URL holds a password, which others would see in the process list: leave it out, "
            "and use --password-file or --password-env"
        )
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    for name in options:
        if name not in _OPTIONS:
            raise InvalidSetting(
                f"the URL's option {name!r:.60} is not supported; there are {', '.join(_OPTIONS)}"
            )
    try:
        port = parts.port or _PORT
    except ValueError as error:
        raise InvalidSetting(f"{url:.200}: {error}") from None
    database = unquote(parts.path.strip("/"))
    if not parts.hostname or not database or "/" in database or "." in database:
        raise InvalidSetting(
            f"{url:.200}: write {parts.scheme}://user@host:{_PORT}/database; the database's tables "
            "are captured, unless --tables names others"
        )
    user = unquote(parts.username or "")
    return Address(parts.hostname, port, user, database, options)


def check_url(url: str) -> None:
    """Raise InvalidSetting if the URL is wrong or has a password."""
    address_of(url)


class Connections:
    """Opens connections to one server."""

    def __init__(self, address: Address, password: Callable[[], str | None]) -> None:
        self.address = address
        self._password = password

    def open(self) -> Connection:
        """Open a connection with autocommit."""
        to, options = self.address, self.address.options
        tls: dict[str, object] = {"ssl_disabled": True}
        if "ssl_ca" in options:
            tls = {
                "ssl_ca": options["ssl_ca"],
                "ssl_verify_cert": True,
                "ssl_verify_identity": True,
            }
        elif options.get("ssl", "false") == "true":
            tls = {"ssl": {"check_hostname": False}}
        return pymysql.connect(
            host=to.host,
            port=to.port,
            user=to.user or None,
            password=self._password() or "",
            charset="utf8mb4",
            autocommit=True,
            connect_timeout=_CONNECT_S,
            read_timeout=_READ_S,
            program_name="mainstem",
            # Values are converted by ``values.py`` according to their columns, so PyMySQL must
            # leave them.
            conv=encoders,
            init_command="SET time_zone = '+00:00', sql_mode = '', net_write_timeout = 600",
            **tls,
        )


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Raise errors of PyMySQL and of sockets in the block as SourceFailed or SourceRefused."""
    try:
        yield
    except pymysql.err.Error as error:
        code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
        why = " ".join(str(each) for each in error.args[1:]) or str(error)
        if code in _NEEDS_RIGHTS:
            raise SourceRefused(
                f"{why}; the user needs a password that is right, and: GRANT SELECT, REPLICATION "
                "SLAVE, BINLOG MONITOR ON *.* (MySQL: REPLICATION CLIENT instead of the last)"
            ) from None
        if code == CR.CR_SERVER_LOST or code not in _REFUSED:
            raise SourceFailed(f"MariaDB: {why}") from None
        raise SourceRefused(f"MariaDB: {why}") from None
    except OSError as error:
        raise SourceFailed(f"MariaDB: {error}") from None


Row = tuple[str | bytes | None, ...]


def query(connection: Connection, statement: str, *values: object) -> list[Row]:
    """Run a statement and return its rows, with values as text."""
    with connection.cursor() as cursor:
        cursor.execute(statement, values or None)
        return list(cursor.fetchall())


def text_of(value: str | bytes | None) -> str:
    """Return a value of a result row as text; "" for NULL."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value or ""


def name(text: str) -> str:
    """Quote an identifier for SQL."""
    return "`" + text.replace("`", "``") + "`"

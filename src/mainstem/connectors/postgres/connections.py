"""Connections to a PostgreSQL database; the password is not part of the URL."""

import contextlib
from collections.abc import Callable, Iterator
from urllib.parse import parse_qsl, urlsplit

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from mainstem.connectors.errors import SourceFailed, SourceRefused
from mainstem.core.errors import InvalidSetting

_ALLOWED = {"host", "port", "sslmode", "sslrootcert", "target_session_attrs"}
_REFUSED = (
    "authentication failed",
    '" does not exist',
    "no password supplied",
    "no pg_hba.conf entry",
    "is not permitted to log in",
)
"""Parts of messages after which trying again does not help."""
_SESSION = {
    # Sets the text form of values that ``types`` reads, whatever the server's settings are.
    "datestyle": "ISO",
    "intervalstyle": "postgres",
    "timezone": "UTC",
    "lc_monetary": "C",
    "bytea_output": "hex",
    "extra_float_digits": "3",
    "statement_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
}


def check_url(url: str) -> None:
    """Raise InvalidSetting if the URL has a password, or options that connectors must not set."""
    parts = urlsplit(url)
    query = parse_qsl(parts.query, keep_blank_values=True)
    if parts.password or any(name == "password" for name, _ in query):
        raise InvalidSetting(
            "the URL holds a password, which others would see in the process list: leave it out, "
            "and use --password-file, --password-env, or the server's ~/.pgpass"
        )
    for name, _ in query:
        if name not in _ALLOWED:
            raise InvalidSetting(
                f"the URL's option {name!r:.60} is not supported; there are "
                f"{', '.join(sorted(_ALLOWED))}"
            )
    try:
        conninfo_to_dict(url)
    except psycopg.ProgrammingError as error:
        raise InvalidSetting(f"not a URL of PostgreSQL: {' '.join(str(error).split())}") from None


class Connections:
    """Opens connections to one database."""

    def __init__(self, url: str, name: str, password: Callable[[], str | None]) -> None:
        self._url = url
        self._name = name
        self._password = password

    @property
    def conninfo(self) -> str:
        """The connection string with the password, which is read anew every time."""
        options = " ".join(f"-c {name}={value}" for name, value in _SESSION.items())
        extra: dict[str, str | int] = {
            "application_name": f"mainstem {self._name}",
            "client_encoding": "UTF8",
            "connect_timeout": 10,
            "options": options,
            "keepalives_idle": 30,
            "keepalives_interval": 10,
        }
        password = self._password()
        if password is not None:
            extra["password"] = password
        return make_conninfo(self._url, **extra)

    @property
    def database(self) -> str:
        """The name of the database."""
        found = conninfo_to_dict(self._url)
        return str(found.get("dbname") or found.get("user") or "postgres")

    def open(self) -> psycopg.Connection:
        """Open a connection with autocommit."""
        return psycopg.connect(self.conninfo, autocommit=True)


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Raise psycopg's errors in the block as SourceFailed or SourceRefused."""
    try:
        yield
    except psycopg.errors.InsufficientPrivilege as error:
        raise SourceRefused(f"the user may not do that: {_clean(error)}") from None
    except psycopg.Error as error:
        why = _clean(error)
        # An error while connecting has no SQLSTATE.
        refused = any(each in why for each in _REFUSED)
        raise (SourceRefused if refused else SourceFailed)(why) from None


def _clean(error: BaseException) -> str:
    return " ".join(str(error).split())

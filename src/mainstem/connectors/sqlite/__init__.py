"""SQLite as a source of changes; needs nothing but Python."""

from collections.abc import Callable

from mainstem.connectors.port import Kind, Source, SourceBlock
from mainstem.connectors.settings import ConnectorSettings
from mainstem.connectors.sqlite.connections import path_of


def _check(settings: ConnectorSettings) -> None:
    path_of(settings.url)


def _open(settings: ConnectorSettings, _password: Callable[[], str | None]) -> Source:
    from mainstem.connectors.sqlite.source import SqliteSource  # noqa: PLC0415 - seldom needed

    return SqliteSource(settings)


KIND = Kind(
    name="sqlite",
    schemes=("sqlite",),
    source=SourceBlock(
        "mainstem.connector.sqlite.Source",
        (("schema", "string", False), ("table", "string", False), ("seq", "int64", True)),
    ),
    check=_check,
    open=_open,
    schema_of_url=lambda _: "main",
)

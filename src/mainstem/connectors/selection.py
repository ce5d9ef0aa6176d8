"""Which tables and columns a connector captures, and which values it masks."""

from collections.abc import Callable, Sequence

from mainstem.connectors.errors import SourceRefused
from mainstem.connectors.port import Column, Row, Table
from mainstem.connectors.settings import ConnectorSettings
from mainstem.core.names import is_pattern, matches

MASK = "*" * 8
"""What is published in place of a masked value."""
Reduce = Callable[[Row | None], Row | None]


class Selection:
    """The tables and columns that a connector's settings include, exclude or mask."""

    def __init__(self, settings: ConnectorSettings) -> None:
        self._tables = (*settings.tables, *settings.outbox) if settings.tables else ()
        self._exclude = settings.exclude
        self._exclude_columns = settings.exclude_columns
        self._mask_columns = settings.mask_columns

    def has(self, schema: str, name: str) -> bool:
        """Return whether a table is captured."""
        table = f"{schema}.{name}"
        if self._tables and not any(matches(each, table) for each in self._tables):
            return False
        return not any(matches(each, table) for each in self._exclude)

    def named(self) -> list[tuple[str, str]]:
        """Return schema and name of the tables that the settings name one by one."""
        named = [each.partition(".") for each in self._tables if not is_pattern(each)]
        return [(schema, table) for schema, _, table in named]

    def check_found(self, found: Sequence[str]) -> None:
        """Raise SourceRefused if a table named in the settings is missing, or none is captured.

        ``found`` are the names of the captured tables.
        """
        for each in self._tables:
            if not is_pattern(each) and each not in found:
                raise SourceRefused(f"there is no table {each}; correct --tables, or create it")
        if not found:
            raise SourceRefused("no table is captured; correct --tables and --exclude")

    def reduced(self, table: Table) -> tuple[Table, Reduce | None]:
        """Return the table without excluded columns, and a function that does so with a row.

        The function also masks values; it is None if there is nothing to exclude or mask.
        """
        left_out = {each.name for each in table.columns if self._matches(table, each, "exclude")}
        masked = {each.name for each in table.columns if self._matches(table, each, "mask")}
        masked -= left_out
        if not left_out and not masked:
            return table, None
        if in_key := [each for each in table.key if each in left_out | masked]:
            raise SourceRefused(
                f"{table.id}.{in_key[0]} is part of the key, so it can be neither left out nor "
                "masked: its events would be of no row"
            )
        columns = tuple(
            Column(each.name, each.type, {"type": "string"}, each.optional)
            if each.name in masked
            else each
            for each in table.columns
            if each.name not in left_out
        )

        def reduce(row: Row | None) -> Row | None:
            if row is None:
                return None
            return {
                name: MASK if name in masked and value is not None else value
                for name, value in row.items()
                if name not in left_out
            }

        return Table(table.schema, table.name, columns, table.key), reduce

    def _matches(self, table: Table, column: Column, how: str) -> bool:
        patterns = self._exclude_columns if how == "exclude" else self._mask_columns
        return any(matches(each, f"{table.id}.{column.name}") for each in patterns)

"""A captured table: converts PostgreSQL's text values to rows and keys."""

from collections.abc import Sequence
from typing import NamedTuple

from mainstem.connectors.errors import SourceRefused
from mainstem.connectors.port import Column, Key, Row, Table
from mainstem.connectors.postgres.pgoutput import UNCHANGED, Values
from mainstem.connectors.postgres.types import Convert, Mapped


class CapturedColumn(NamedTuple):
    """A column, and how its values are published."""

    name: str
    type_oid: int
    type_modifier: int
    type_text: str
    optional: bool
    mapped: Mapped


class Captured:
    """A captured table, with the columns that it had at one time."""

    def __init__(
        self, schema: str, name: str, columns: Sequence[CapturedColumn], key: tuple[str, ...]
    ) -> None:
        self.columns = tuple(columns)
        self.table = Table(
            schema,
            name,
            tuple(
                Column(each.name, each.type_text, each.mapped.schema, each.optional)
                for each in columns
            ),
            key,
        )
        self._plan: list[tuple[str, Convert | None, object]] = [
            (each.name, each.mapped.convert, each.mapped.unavailable) for each in columns
        ]
        names = [each.name for each in columns]
        self._key_places = [names.index(each) for each in key]

    def row(self, values: Values, old: Values | None = None) -> Row:
        """Return a row; a large value that an update did not send is taken from ``old`` if there.

        Otherwise it is Debezium's placeholder. Raises SourceRefused for a value that cannot be
        published.
        """
        row: Row = {}
        if len(values) != len(self._plan):
            raise self._mismatch(len(values))
        try:
            for place, value in enumerate(values):
                name, convert, unavailable = self._plan[place]
                if value is None:
                    row[name] = None
                elif value is UNCHANGED:
                    known = None if old is None else old[place]
                    if isinstance(known, str):
                        row[name] = known if convert is None else convert(known)
                    else:
                        row[name] = unavailable
                else:
                    row[name] = value if convert is None else convert(value)
        except (ValueError, OverflowError, ArithmeticError) as error:
            where = f"{self.table.id}.{name}"
            raise SourceRefused(
                f"a value of column {where} cannot be published: {error}; leave the column out "
                f"(--exclude-columns {where})"
            ) from None
        except SourceRefused as error:
            raise SourceRefused(f"{self.table.id}.{name}: {error}") from None
        return row

    def not_logged(self, values: Values, old: Values | None = None) -> tuple[str, ...]:
        """Return the names of the columns for which ``row`` returns a placeholder."""
        if UNCHANGED not in values:
            return ()
        return tuple(
            name
            for place, (name, _, _) in enumerate(self._plan)
            if values[place] is UNCHANGED and (old is None or not isinstance(old[place], str))
        )

    def whole_row(self, values: Sequence[str | None]) -> Row:
        """Do the same as ``row``, but faster, for values that were all sent."""
        if len(values) == len(self._plan):
            try:
                return {
                    name: value if convert is None or value is None else convert(value)
                    for (name, convert, _), value in zip(self._plan, values, strict=True)
                }
            except (ValueError, OverflowError, ArithmeticError, SourceRefused):
                pass
        # ``row`` converts again, one by one, to name the value that cannot be published.
        return self.row(list(values))

    def key_row(self, values: Values) -> Row:
        """Return a row with only the columns of the key."""
        if len(values) != len(self._plan):
            raise self._mismatch(len(values))
        row: Row = {}
        for place in self._key_places:
            name, convert, _ = self._plan[place]
            value = values[place]
            row[name] = convert(value) if convert and isinstance(value, str) else value
        return row

    def key(self, values: Values) -> Key:
        """Return the values of the key as text."""
        return tuple(str(values[place]) for place in self._key_places)

    def _mismatch(self, count: int) -> SourceRefused:
        return SourceRefused(
            f"a row of {self.table.id} has {count} columns, and {len(self._plan)} were expected"
        )

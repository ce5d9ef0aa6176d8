"""A captured table: converts the results of queries and the binlog's bytes to rows and keys."""

from collections.abc import Iterator, Sequence

from mainstem.connectors.errors import SourceFailed, SourceRefused
from mainstem.connectors.mariadb.columns import INTEGERS, Spec
from mainstem.connectors.mariadb.connections import name
from mainstem.connectors.mariadb.values import Decode, converter, decoder, schema_of
from mainstem.connectors.port import Column, Key, Row, Table
from mainstem.connectors.settings import Decimals

_NUMBERS = INTEGERS | {"decimal", "year", "float", "double", "enum", "set", "bit"}
_BINARIES = {"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"}
_Plan = list[tuple[str, Decode]]


class Captured:
    """A captured table, with the columns that it had at one time."""

    def __init__(
        self,
        schema: str,
        table: str,
        specs: Sequence[Spec],
        key: tuple[str, ...],
        decimals: Decimals,
    ) -> None:
        self.specs = tuple(specs)
        columns = tuple(
            Column(each.name, each.type_text, schema_of(each, decimals), each.optional)
            for each in specs
        )
        self.table = Table(schema, table, columns, key)
        self._names = [each.name for each in specs]
        self._converters = [converter(each, decimals) for each in specs]
        self._plan: _Plan = [(each.name, decoder(each, decimals)) for each in specs]
        by_name = {each.name: each for each in specs}
        self._key = [by_name[each] for each in key]

    # Queries

    def query(self, after: Key | None, limit: int | None) -> str:
        """Return a query for the rows after a key, in the order of the key.

        Its first columns are the key's values as text; ``after`` None means from the start.
        """
        selected = [*map(_key_text, self._key), *map(_selected, self.specs)]
        whole = f"{name(self.table.schema)}.{name(self.table.name)}"
        text = f"SELECT {', '.join(selected)} FROM {whole}"
        order = [_ordered(each) for each in self._key]
        # If the key has other columns now, the table is read again from its start.
        if after is not None and len(after) == len(order):
            bounds = [_literal(*each) for each in zip(self._key, after, strict=True)]
            text += f" WHERE {_is_after(order, bounds)}"
        if order:
            text += f" ORDER BY {', '.join(order)}"
        return text if limit is None else f"{text} LIMIT {limit}"

    def read(self, values: Sequence[str | bytes | None]) -> tuple[Row, Key]:
        """Convert a result row of ``query`` to a row and its key."""
        count = len(self._key)
        row: Row = {}
        for column, value, convert in zip(
            self._names, values[count:], self._converters, strict=True
        ):
            try:
                row[column] = None if value is None else convert(value)
            except (ValueError, OverflowError) as error:
                raise self._unpublished(column, error) from None
        key = [each.decode() if isinstance(each, bytes) else str(each) for each in values[:count]]
        return row, tuple(key)

    # The binlog

    def rows(self, data: bytes, present: Sequence[bool], after: Sequence[bool]) -> Iterator[Row]:
        """Yield the rows of a row event; for an update, each row before and then after it.

        ``present`` and ``after`` say which columns the event has.
        """
        at, end, turn = 0, len(data), 0
        plans = (self._present(present), self._present(after))
        while at < end:
            plan = plans[turn & 1]
            turn += 1
            first = at + (len(plan) + 7) // 8
            nulls = int.from_bytes(data[at:first], "little")
            at = first
            row: Row = {}
            column = ""
            try:
                for column, decode in plan:
                    if nulls & 1:
                        row[column] = None
                    else:
                        row[column], at = decode(data, at)
                    nulls >>= 1
            except (ValueError, OverflowError, IndexError) as error:
                raise self._unpublished(column, error) from None
            yield row
        if at != end:
            raise SourceFailed(f"binlog: a row of {self.table.id} ends {at - end} bytes too late")

    def _present(self, present: Sequence[bool]) -> _Plan:
        if all(present) and len(present) == len(self._plan):
            return self._plan
        raise SourceRefused(
            f"the binlog has only some columns of table {self.table.id}: a program has set its "
            "binlog_row_image, which must be FULL; then take a new snapshot (restart --snapshot)"
        )

    def _unpublished(self, column: str, error: Exception) -> SourceRefused:
        where = f"{self.table.id}.{column}"
        return SourceRefused(
            f"a value of column {where} cannot be published: {error}; leave the table out "
            f"(--exclude {self.table.id})"
        )


def _selected(spec: Spec) -> str:
    # MariaDB prints a float with fewer digits than it needs, but a double with all.
    return f"{name(spec.name)} + 0e0" if spec.kind == "float" else name(spec.name)


def _ordered(spec: Spec) -> str:
    """Return the SQL expression to order by; an enum is ordered by its number, as in an index."""
    plain = name(spec.name)
    return f"{plain} + 0" if spec.kind in ("enum", "set", "bit") else plain


def _key_text(spec: Spec) -> str:
    if spec.kind in _BINARIES:
        return f"HEX({name(spec.name)})"
    if spec.kind in ("float", "double"):
        return f"{name(spec.name)} + 0e0"
    return f"CAST({_ordered(spec)} AS CHAR)"


def _literal(spec: Spec, text: str) -> str:
    """Return a value of a key as an SQL literal."""
    if spec.kind in _NUMBERS:
        # The number comes from an earlier query; this rules out anything else.
        return str(float(text)) if spec.kind in ("float", "double") else _number(text)
    if spec.kind in _BINARIES:
        return f"X'{bytes.fromhex(text).hex()}'"
    return f"_utf8mb4 X'{text.encode().hex()}'"


def _number(text: str) -> str:
    if not text.lstrip("-").replace(".", "", 1).isdigit():
        raise SourceFailed(f"not a number in a key: {text:.60}")
    return text


def _is_after(columns: Sequence[str], bounds: Sequence[str]) -> str:
    """Return the SQL condition for rows after a key, in a form that can use an index."""
    cases = []
    for last, (column, bound) in enumerate(zip(columns, bounds, strict=True)):
        same = [f"{columns[place]} = {bounds[place]}" for place in range(last)]
        cases.append(" AND ".join([*same, f"{column} > {bound}"]))
    return f"{columns[0]} >= {bounds[0]} AND ({' OR '.join(f'({each})' for each in cases)})"

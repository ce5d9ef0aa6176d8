"""The fields of JSON values as columns: their types, and the SQL that extracts them.

How this works: a sample of the events tells which fields there are, and their types. One call of
``json_extract_string`` returns all fields that a query needs as texts, which are cast to their
types. A text is checked before it is cast to an integer, as DuckDB would round 1.5. A value that
does not fit its type fails the query with ``MISFIT`` in the error. Then the fields are inferred
from all events of the range, instead of a sample, and the query runs again. So a value is never
changed or lost because of the sample.
"""

from collections.abc import Callable, Container, Iterable, Mapping

import msgspec

MISFIT = "does not fit the column"

Kind = str | dict[str, "Kind"] | list["Kind"]
"""The type of a field: a DuckDB type, the fields of an object, or the one type of an array."""

UNKNOWN = "NULL"
"""Only null was seen."""
_MIXED = "VARCHAR"
_WHOLE = {"BIGINT", "HUGEINT"}
_NUMBERS = ["BIGINT", "HUGEINT", "DOUBLE"]
_SCALARS = frozenset({"VARCHAR", "BOOLEAN", "DOUBLE", *_WHOLE})


class Values:
    """The fields of a topic's JSON objects with their types, and counts of its other values.

    They are inferred from a sample of the events, or from all of them.
    """

    def __init__(self) -> None:
        self.fields: dict[str, Kind] = {}
        """The fields of the JSON objects."""
        self.objects = 0
        self.others = 0
        """Values that are no JSON objects; null is not counted."""
        self.invalid = 0
        """Those of them that are not JSON at all."""

    def learn(self, values: Iterable[bytes | None]) -> None:
        """Add values to those from which fields and types are inferred."""
        for value in values:
            if value is None:
                continue
            try:
                found = _decoder.decode(value)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                self.invalid += 1
                self.others += 1
                continue
            if isinstance(found, dict):
                self.objects += 1
                self.fields = _united(self.fields, _fields(found))
            else:
                self.others += 1

    @property
    def are_objects(self) -> bool:
        """Whether fields can be columns: more than half of the values are JSON objects."""
        return self.objects > self.others


_decoder = msgspec.json.Decoder()


def _fields(found: Mapping[str, object]) -> dict[str, Kind]:
    return {name: _kind(value) for name, value in found.items()}


def _kind(value: object) -> Kind:
    match value:
        case None:
            return UNKNOWN
        case bool():
            return "BOOLEAN"
        case int():
            return _whole_number(value)
        case float():
            return "DOUBLE"
        case dict() | list():
            return _nested(value)
    return "VARCHAR"


def _whole_number(value: int) -> Kind:
    if -(2**63) <= value < 2**63:
        return "BIGINT"
    return "HUGEINT" if abs(value) < 2**127 else "DOUBLE"


def _nested(value: dict[str, object] | list[object]) -> Kind:
    if isinstance(value, dict):
        return _fields(value)
    kind: Kind = UNKNOWN
    for each in value:
        kind = _joined(kind, _kind(each))
    return [kind]


def _united(one: dict[str, Kind], other: dict[str, Kind]) -> dict[str, Kind]:
    for name, kind in other.items():
        known = one.get(name)
        if known != kind:
            one[name] = kind if known is None else _joined(known, kind)
    return one


def _joined(one: Kind, other: Kind) -> Kind:
    """Return the narrowest type that can have the values of both types."""
    if other in (one, UNKNOWN):
        return one
    if one == UNKNOWN:
        return other
    if isinstance(one, dict) and isinstance(other, dict):
        return _united(dict(one), other)
    if isinstance(one, list) and isinstance(other, list):
        return [_joined(one[0], other[0])]
    if one in _NUMBERS and other in _NUMBERS:
        assert isinstance(one, str)
        assert isinstance(other, str)
        return max(one, other, key=_NUMBERS.index)
    return _MIXED


class Columns(msgspec.Struct, frozen=True):
    """The columns of JSON fields: which paths to extract, and the SQL expression of each column."""

    paths: list[str]
    expressions: dict[str, str]


def columns(
    fields: Mapping[str, Kind], used: Callable[[str], bool], dotted: Container[str]
) -> Columns:
    """Return the columns of the fields that are used; those in ``dotted`` become structs."""
    paths: list[str] = []
    expressions: dict[str, str] = {}
    taken: set[str] = set()
    for name, kind in fields.items():
        column = _free(name, taken)
        taken.add(column.lower())
        if used(column.lower()):
            as_struct = column.lower() in dotted
            expressions[column] = _expression(kind, _step(name), paths, column, as_struct=as_struct)
    return Columns(paths, expressions)


def _free(name: str, taken: Container[str]) -> str:
    """Return a column name that is not taken in any case, as DuckDB ignores the case of names."""
    found, number = name, 1
    while found.lower() in taken:
        found, number = f"{name}_{number}", number + 1
    return found


def _expression(kind: Kind, path: str, paths: list[str], column: str, *, as_struct: bool) -> str:
    if as_struct and isinstance(kind, dict) and kind:
        inner = ", ".join(
            f"{quoted(name)} := "
            + _expression(each, path + _step(name), paths, f"{column}.{name}", as_struct=True)
            for name, each in kind.items()
        )
        return f"struct_pack({inner})"
    paths.append(path)
    text = f"_fields[{len(paths)}]"
    match kind:
        case dict():
            return f"{text}::JSON"
        case [inner_kind]:
            return _array(inner_kind, text, column)
        case "BIGINT" | "HUGEINT":
            return _whole(text, f"{text}::{kind}", column)
        case "DOUBLE" | "BOOLEAN":
            return f"{text}::{kind}"
    return text


def _array(kind: Kind, text: str, column: str) -> str:
    if not isinstance(kind, str) or kind not in _SCALARS:
        return f"""from_json_strict({text}, '["JSON"]')"""
    array = f"""from_json_strict({text}, '["{kind}"]')"""
    return _whole(text, array, column) if kind in _WHOLE else array


def _whole(text: str, cast: str, column: str) -> str:
    told = literal(f"a value {MISFIT} {column}, which holds whole numbers: ")
    return f"CASE WHEN {text} ~ '[.eE]' THEN error({told} || {text}) ELSE {cast} END"


def _step(name: str) -> str:
    """Return a field's name as a step of a JSON path."""
    return '."' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def extraction(paths: list[str], value: str, *, checked: bool) -> str:
    """Return the SQL expression that extracts paths from a JSON text, as a list of texts.

    With ``checked``, a text that is not JSON gives null instead of an error.
    """
    listed = ", ".join(literal(f"${path}") for path in paths)
    found = f"json_extract_string({value}, [{listed}])"
    return f"CASE WHEN json_valid({value}) THEN {found} END" if checked else found


def quoted(name: str) -> str:
    """Return a name as a quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Return a text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"

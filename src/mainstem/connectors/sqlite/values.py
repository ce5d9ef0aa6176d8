"""SQLite's types and values: schemas by affinity, and key values as text."""

from collections.abc import Mapping

KeyValue = int | float | str | bytes | None
_SCHEMAS = (
    ("INT", "int64"),
    ("CHAR", "string"),
    ("CLOB", "string"),
    ("TEXT", "string"),
    ("BLOB", "bytes"),
    ("REAL", "double"),
    ("FLOA", "double"),
    ("DOUB", "double"),
    # From here on the affinity is NUMERIC; dates are mostly kept as text.
    ("BOOL", "int64"),
    ("DATE", "string"),
    ("TIME", "string"),
    ("JSON", "string"),
    ("ANY", "string"),
)
"""Parts of declared types, in the order in which SQLite looks for them."""


def schema_of_type(declared: str) -> Mapping[str, object]:
    """Return the schema for a column's declared type, by SQLite's rules of affinity."""
    text = declared.upper()
    found = next((kind for part, kind in _SCHEMAS if part in text), "double")
    # A column without a declared type may hold values of any type.
    return {"type": found if text else "string"}


def fitted(value: object, kind: str) -> object:
    """Return the value as one that a schema of type ``kind`` allows; raises ValueError."""
    if value is None:
        return None
    if kind == "double" and isinstance(value, int):
        if int(float(value)) == value:
            return float(value)
    elif isinstance(value, _CLASSES[kind]):
        return value
    raise ValueError(f"holds {_NAMES[type(value)]} {value!r:.60}, which is no {kind}")


_CLASSES: Mapping[str, type] = {"int64": int, "double": float, "string": str, "bytes": bytes}
_NAMES: Mapping[type, str] = {int: "INTEGER", float: "REAL", str: "TEXT", bytes: "BLOB"}


def key_to_text(value: object) -> str:
    """Return a key's value as text that includes its type."""
    if isinstance(value, bytes):
        return f"b{value.hex()}"
    if isinstance(value, float):
        return f"f{value.hex()}"
    if value is None:
        return "n"
    return f"i{value}" if isinstance(value, int) else f"t{value}"


def key_from_text(text: str) -> KeyValue:
    """Return the value that ``key_to_text`` made a text of."""
    kind, rest = text[0], text[1:]
    if kind == "n":
        return None
    if kind == "b":
        return bytes.fromhex(rest)
    if kind == "f":
        return float.fromhex(rest)
    return int(rest) if kind == "i" else rest

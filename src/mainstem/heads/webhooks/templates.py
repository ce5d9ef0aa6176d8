"""Templates of payloads: a JSON document in which ``{{FIELD}}`` stands for a field of the event.

A field is ``id``, ``topic``, ``partition``, ``offset``, ``timestamp``, ``key``, ``header.NAME``,
``value`` or ``value.PATH``; a path is the names of nested JSON members, separated by dots. A text
that is only one field is replaced by that field with its JSON type, or null if it is absent; in a
longer text a field is inserted as text. There are neither conditions nor loops. The document is
parsed before the fields are inserted, so no event can change its structure.
"""

import re
from collections.abc import Callable, Mapping

import msgspec

from mainstem.core.errors import InvalidSetting

MAX_TEMPLATE = 16 * 1024
MAX_FIELDS = 20
"""Maximum number of fields in a template: each may be as large as an event."""
_FIELD = re.compile(r"\{\{\s*([^{}]*?)\s*\}\}")
_PLAIN = ("id", "topic", "partition", "offset", "timestamp", "key", "value")

Find = Callable[[str], object]
"""Returns the value of a field by its name, None if it is absent."""


class Template:
    """A parsed template."""

    def __init__(self, text: str) -> None:
        """Parse a template; raises InvalidSetting."""
        if len(text.encode()) > MAX_TEMPLATE:
            raise InvalidSetting(f"a template has at most {MAX_TEMPLATE} bytes")
        try:
            self._document: object = msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError) as error:
            raise InvalidSetting(f"the template is not JSON: {error}") from None
        fields = [name for each in _texts(self._document) for name in _FIELD.findall(each)]
        if len(fields) > MAX_FIELDS:
            raise InvalidSetting(f"a template has at most {MAX_FIELDS} fields")
        for name in fields:
            kind, dot, rest = name.partition(".")
            if name not in _PLAIN and not (dot and rest and kind in {"header", "value"}):
                raise InvalidSetting(
                    f"the template has the unknown field {name!r:.100}; there are "
                    f"{', '.join(_PLAIN)}, header.NAME and value.PATH"
                )

    def filled(self, find: Find) -> object:
        """Return the document with all fields inserted; ``find`` returns the value of a field."""
        return _filled(self._document, find)


def member(value: object, path: str) -> object:
    """Return the member of a JSON value at a path of names; None if there is none."""
    for name in path.split("."):
        if not isinstance(value, Mapping) or name not in value:
            return None
        value = value[name]
    return value


def _texts(node: object) -> list[str]:
    match node:
        case str():
            return [node]
        case list():
            return [text for each in node for text in _texts(each)]
        case dict():
            return [text for each in node.values() for text in _texts(each)]
    return []


def _filled(node: object, find: Find) -> object:
    match node:
        case str():
            if whole := _FIELD.fullmatch(node):
                return find(whole[1])
            return _FIELD.sub(lambda found: _as_text(find(found[1])), node)
        case list():
            return [_filled(each, find) for each in node]
        case dict():
            return {name: _filled(each, find) for name, each in node.items()}
    return node


def _as_text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, msgspec.Raw) and bytes(value)[:1] == b'"':
        value = msgspec.json.decode(value)
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()

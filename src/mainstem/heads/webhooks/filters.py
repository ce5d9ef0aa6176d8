"""Filters of endpoints: conditions on key, headers and JSON value, all of which must hold.

A condition is ``key=PATTERN``, ``header.NAME=PATTERN`` or ``value.PATH=PATTERN``, or the same with
``!=``. In a pattern ``*`` stands for any characters and ``?`` for one. A path is the names of
nested JSON members, separated by dots; numbers, true, false and null are compared as JSON text. An
absent key, header or member matches no pattern.
"""

from collections.abc import Callable, Sequence

import msgspec

from mainstem.core.errors import InvalidSetting, MainstemError
from mainstem.core.event import Event
from mainstem.core.names import matches

MAX_CONDITIONS = 20
MAX_CONDITION = 500

Condition = Callable[["_Fields"], bool]
_Find = Callable[["_Fields"], str | None]


class Filter:
    """The filter of one endpoint: an event passes if all conditions hold for it."""

    def __init__(self, conditions: Sequence[str]) -> None:
        """Parse the conditions; raises InvalidSetting for invalid ones."""
        if len(conditions) > MAX_CONDITIONS:
            raise InvalidSetting(f"a filter has at most {MAX_CONDITIONS} conditions")
        self._conditions = [_parsed(each) for each in conditions]

    def passes(self, event: Event) -> bool:
        """Tell whether all conditions hold for an event."""
        if not self._conditions:
            return True
        fields = _Fields(event)
        return all(holds(fields) for holds in self._conditions)


class _Fields:
    """The fields of an event that conditions compare; the value is decoded on first use."""

    def __init__(self, event: Event) -> None:
        self._event = event
        self._json: object = msgspec.UNSET

    def key(self) -> str | None:
        """Return the key as text; None if there is no key, or it is not UTF-8."""
        return _text(self._event.key)

    def header(self, name: str) -> str | None:
        """Return the last header of this name (in lower case) as text, None if there is none."""
        found = [value for each, value in self._event.headers if each.lower() == name]
        return _text(found[-1]) if found else None

    def member(self, path: Sequence[str]) -> str | None:
        """Return the member of the JSON value at a path as text, None if there is none."""
        if self._json is msgspec.UNSET:
            try:
                self._json = self._event.json()
            except MainstemError:
                self._json = None
        found = self._json
        for name in path:
            if not isinstance(found, dict) or name not in found:
                return None
            found = found[name]
        return found if isinstance(found, str) else msgspec.json.encode(found).decode()


def _parsed(condition: str) -> Condition:
    field, equals, pattern = condition.partition("=")
    negated = field.endswith("!")
    field = field.removesuffix("!").strip()
    find = _found(field)
    if not equals or find is None or len(condition) > MAX_CONDITION:
        raise InvalidSetting(
            f"the condition {condition!r:.100} cannot be understood; write key=PATTERN, "
            "header.NAME=PATTERN or value.PATH=PATTERN, or != for =, with at most "
            f"{MAX_CONDITION} characters"
        )

    def holds(fields: _Fields) -> bool:
        text = find(fields)
        return (text is not None and matches(pattern, text)) != negated

    return holds


def _found(field: str) -> _Find | None:
    if field == "key":
        return _Fields.key
    kind, dot, rest = field.partition(".")
    if not dot or not rest:
        return None
    if kind == "header":
        return lambda fields: fields.header(rest.lower())
    if kind == "value":
        return lambda fields: fields.member(rest.split("."))
    return None


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "replace")

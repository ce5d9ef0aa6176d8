"""Selects events by key, header or JSON field: ``value.customer.id==7``, ``header.trace~abc``."""

import operator
import re
from collections.abc import Callable, Sequence

import msgspec

from mainstem.core.errors import InvalidSetting
from mainstem.core.event import Event

Matches = Callable[[Event], bool]
MAX_FILTERS = 16
_MAX_LENGTH = 1_000
_FORM = re.compile(r"(key|header\.[^=!<>~]+|value(?:\.[^=!<>~]+)?)(==|!=|<=|>=|<|>|~)(.*)", re.S)
_MISSING = object()
_COMPARE = {"<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt}
_parse = msgspec.json.Decoder().decode


def matching(key: str | None, filters: Sequence[str]) -> Matches | None:
    """Return a function that tells whether an event has this key and passes all filters.

    None if there is neither a key nor a filter. Raises InvalidSetting for invalid filters.
    """
    if len(filters) > MAX_FILTERS:
        raise InvalidSetting(f"a request may have up to {MAX_FILTERS} filters")
    every = [_filter(each) for each in filters]
    if key is not None:
        wanted = key.encode()
        every.insert(0, lambda event: event.key == wanted)
    if not every:
        return None
    return every[0] if len(every) == 1 else lambda event: all(each(event) for each in every)


def _filter(text: str) -> Matches:
    found = _FORM.fullmatch(text) if len(text) <= _MAX_LENGTH else None
    if found is None:
        raise InvalidSetting(
            f"filter {text!r:.200}: write FIELD OPERATOR VALUE, where the field is key, "
            "header.NAME, value or value.PATH, and the operator one of == != < <= > >= ~"
        )
    field, sign, said = found.groups()
    wanted = _wanted(said)
    if field == "key":
        return lambda event: _holds(_as_text(event.key), sign, said)
    if field.startswith("header."):
        name = field.removeprefix("header.")
        return lambda event: any(
            _holds(_as_text(value), sign, said) for each, value in event.headers if each == name
        )
    path = field.split(".")[1:]
    return lambda event: _holds(_at(event.value, path), sign, wanted)


def _wanted(said: str) -> object:
    """Return a text's value as JSON; the text itself if it is not JSON."""
    try:
        return _parse(said)
    except (msgspec.MsgspecError, RecursionError):
        return said


def _at(value: bytes | None, path: Sequence[str]) -> object:
    if value is None:
        return _MISSING
    try:
        found: object = _parse(value)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _MISSING if path else _as_text(value)
    for name in path:
        if isinstance(found, dict):
            found = found.get(name, _MISSING)
        elif isinstance(found, list) and name.isdigit() and int(name) < len(found):
            found = found[int(name)]
        else:
            return _MISSING
    return found


def _as_text(value: bytes | None) -> object:
    return _MISSING if value is None else value.decode("utf-8", "replace")


def _holds(found: object, sign: str, wanted: object) -> bool:
    if found is _MISSING:
        return False
    if sign in ("==", "!="):
        return _equal(found, wanted) == (sign == "==")
    if sign == "~":
        return isinstance(found, str) and str(wanted) in found
    if isinstance(found, str) and isinstance(wanted, str):
        return bool(_COMPARE[sign](found, wanted))
    if isinstance(found, int | float) and isinstance(wanted, int | float):
        are_numbers = not isinstance(found, bool) and not isinstance(wanted, bool)
        return are_numbers and bool(_COMPARE[sign](found, wanted))
    return False


def _equal(found: object, wanted: object) -> bool:
    # In Python True equals 1, in JSON it does not.
    return found == wanted and isinstance(found, bool) == isinstance(wanted, bool)

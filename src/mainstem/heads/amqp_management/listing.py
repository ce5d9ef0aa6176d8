"""Filters, sorts and pages lists, and cuts their items to the requested columns."""

from collections.abc import Callable, Mapping, Sequence
from typing import cast

from mainstem.core.errors import Failure
from mainstem.heads.admin_operations import OperationFailed
from mainstem.heads.amqp_management.call import Answer, Call, Item

MAX_PAGE = 500
"""The largest page, as in RabbitMQ."""
_DEFAULT_PAGE = 100


def list_of(items: Callable[[Call], Sequence[Item]]) -> Answer:
    """Return the answer to requests for a list of these items."""
    return lambda call: listed(items(call), call.query)


def listed(items: Sequence[Item], query: Mapping[str, str]) -> object:
    """Return a list as the query asks for it: sorted, as a whole or one page."""
    found = _named(items, query) if "page" in query else list(items)
    if sort := query.get("sort"):
        found.sort(key=lambda each: _rank(value_at(each, sort)))
        if query.get("sort_reverse", "").lower() == "true":
            found.reverse()
    columns = [each for each in query.get("columns", "").split(",") if each]
    if "page" not in query:
        return [narrowed(each, columns) for each in found]
    size = _number(query, "page_size", _DEFAULT_PAGE, MAX_PAGE)
    pages = max(1, -(-len(found) // size))
    page = _number(query, "page", 1, pages)
    shown = found[(page - 1) * size : page * size]
    return {
        "filtered_count": len(found),
        "item_count": len(shown),
        "items": [narrowed(each, columns) for each in shown],
        "page": page,
        "page_count": pages,
        "page_size": size,
        "total_count": len(items),
    }


def narrowed(item: Item, columns: Sequence[str]) -> Item:
    """Return an item with only these columns; ``a.b`` is the field ``b`` of the field ``a``."""
    if not columns:
        return item
    found: Item = {}
    for column in columns:
        value = value_at(item, column)
        if value is None:
            continue
        at, *path, last = found, *column.split(".")
        for name in path:
            inner = at.setdefault(name, {})
            at = cast(Item, inner) if isinstance(inner, dict) else {}
        at[last] = value
    return found


def value_at(item: Item, column: str) -> object:
    """Return the value of a column, None if the item has none."""
    value: object = item
    for name in column.split("."):
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value


def _named(items: Sequence[Item], query: Mapping[str, str]) -> list[Item]:
    if query.get("use_regex", "").lower() == "true":
        why = "regular expressions are not supported; name=TEXT finds what contains a text"
        raise OperationFailed(Failure.UNSUPPORTED, why)
    text = query.get("name", "").lower()
    return [each for each in items if text in str(each.get("name", "")).lower()]


def _rank(value: object) -> tuple[int, float, str]:
    """Return a sort key for a value: absent ones first, then numbers, then texts."""
    if value is None:
        return 0, 0, ""
    if isinstance(value, int | float):
        return 1, value, ""
    return 2, 0, str(value)


def _number(query: Mapping[str, str], name: str, default: int, most: int) -> int:
    text = query.get(name, str(default))
    if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= most):
        why = f"{name} must be a whole number, 1 to {most}, not {text!r:.100}"
        raise OperationFailed(Failure.INVALID, why)
    return int(text)

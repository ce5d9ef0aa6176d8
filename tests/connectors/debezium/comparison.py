"""Events of Debezium and of ours, compared field by field, without what differs each time."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.connectors.debezium.engine import Record

_OF_PROCESSING = ("ts_ms", "ts_us", "ts_ns")
"""When a connector has handled the event."""
_OF_READING = ("ts_ms", "ts_us", "ts_ns", "txId", "lsn", "sequence", "snapshot")
"""Each connector reads its own snapshot."""
COMMON = {
    "defaults are not part of schemas": r"\.fields\.[a-e]\.default$",
    "null is null, also with a default": r"payload\.(before|after)\.[a-e]$",
}
"""Known differences of every database."""


def column_of(types: Sequence[tuple[str, str, object]], kind: str, text: str | None = None) -> str:
    """Return the column of a type, and of a value if the type is there more than once."""
    places = [
        place for place, each in enumerate(types) if each[0] == kind and text in (None, each[1])
    ]
    return f"c{places[0]}"


def told(key: bytes | str | None, value: bytes | str | None) -> dict[str, Any]:
    """Return an event without what is different each time."""
    found: dict[str, Any] = {"key": key and json.loads(key), "value": value and json.loads(value)}
    if found["value"] is None:
        return found
    payload = found["value"]["payload"]
    if "status" in payload:
        return transaction_told(found)
    if payload["transaction"] is not None:
        payload["transaction"]["id"] = number_of(payload["transaction"])
    for name in _OF_PROCESSING:
        del payload[name]
    del payload["source"]["version"]
    for name in _OF_READING if payload["op"] == "r" else ():
        payload["source"].pop(name, None)
    return found


def number_of(transaction: dict[str, str]) -> str:
    """Return the transaction's number; what follows it in Debezium's id is another each time."""
    return transaction["id"].partition(":")[0]


def transaction_told(found: dict[str, Any]) -> dict[str, Any]:
    for each in (found["key"]["payload"], found["value"]["payload"]):
        each["id"] = number_of(each)
    return found


def paths(found: object, at: str = "") -> Iterator[tuple[str, object]]:
    """Return the leaves of a document with their paths; fields of schemas by their names."""
    if isinstance(found, dict):
        for name, each in found.items():
            yield from paths(each, f"{at}.{name}")
    elif isinstance(found, list) and found and isinstance(found[0], dict) and "field" in found[0]:
        yield f"{at}#order", [each["field"] for each in found]
        for each in found:
            yield from paths(each, f"{at}.{each['field']}")
    else:
        yield at, found


def differences(ours: dict[str, Any], theirs: dict[str, Any]) -> dict[str, tuple[object, object]]:
    mine, other = dict(paths(ours)), dict(paths(theirs))
    return {
        path: (mine.get(path, "(none)"), other.get(path, "(none)"))
        for path in sorted(mine.keys() | other.keys())
        if mine.get(path, "(none)") != other.get(path, "(none)")
    }


def by_topic(records: list[Record], topic: str) -> list[dict[str, Any]]:
    return [told(each.key, each.value) for each in records if each.topic == topic]


def text_in(document: str | None) -> bytes | None:
    """Return the text in a document with schema; a converter for text would write it as it is."""
    payload = document and json.loads(document)["payload"]
    return payload.encode() if payload else None


Events = Mapping[str, Sequence[dict[str, Any]]]
"""The events of each topic, as ``told`` returns them."""


def compare(
    ours: Events, theirs: Events, known: Mapping[str, str]
) -> tuple[dict[tuple[str, int, str], tuple[object, object]], set[str]]:
    """Return the differences that are not known by their paths, and which known ones there are."""
    seen, found = set(), {}
    for topic, events in ours.items():
        assert len(events) == len(theirs[topic]), topic
        for place, (mine, other) in enumerate(zip(events, theirs[topic], strict=True)):
            for path, values in differences(mine, other).items():
                reasons = {why for why, pattern in known.items() if re.search(pattern, path)}
                seen |= reasons
                if not reasons:
                    found[topic, place, path] = values
    return found, seen

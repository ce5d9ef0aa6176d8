"""Transaction metadata: the ``transaction`` block of events, and the topic ``NAME.transaction``.

The layout is Debezium's ("Transaction metadata" in its documentation). The id is the same in all
events of a transaction, whereas the id of Debezium differs in each event, by the event's position.
"""

from collections import Counter
from collections.abc import Mapping

import msgspec

from mainstem.core.event import Event

_ENVELOPE = "io.debezium.connector.common.TransactionMetadata"


def topic_of_transactions(prefix: str) -> str:
    """Return the topic in which the begins and ends of transactions are published."""
    return f"{prefix}.transaction"


class TransactionOrder:
    """Numbers the events of one transaction."""

    def __init__(self, transaction: str, committed_us: int, *, with_schema: bool) -> None:
        self._id = transaction
        self._time_ms = committed_us // 1000
        self._with_schema = with_schema
        self._counts: Counter[str] = Counter()

    def next(self, table: str) -> Mapping[str, object]:
        """Count one more event of a table; return the event's ``transaction`` block."""
        self._counts[table] += 1
        return {
            "id": self._id,
            "total_order": self._counts.total(),
            "data_collection_order": self._counts[table],
        }

    def begin(self) -> Event:
        """Return the event that says that the transaction begins."""
        return self._event("BEGIN", None, None)

    def end(self) -> Event:
        """Return the event that says that the transaction is complete, with its event counts."""
        collections = [
            {"data_collection": table, "event_count": count}
            for table, count in self._counts.items()
        ]
        return self._event("END", self._counts.total(), collections)

    def _event(self, status: str, count: int | None, collections: object) -> Event:
        key: Mapping[str, object] = {"id": self._id}
        value: Mapping[str, object] = {
            "status": status,
            "id": self._id,
            "event_count": count,
            "data_collections": collections,
            "ts_ms": self._time_ms,
        }
        if self._with_schema:
            key = {"schema": _KEY, "payload": key}
            value = {"schema": _VALUE, "payload": value}
        return Event(msgspec.json.encode(value), msgspec.json.encode(key), (), self._time_ms)


def _field(name: str, kind: str, *, optional: bool, **more: object) -> dict[str, object]:
    return {"type": kind, **more, "optional": optional, "field": name}


def _struct(name: str, fields: list[dict[str, object]], **more: object) -> dict[str, object]:
    return {
        "type": "struct",
        "fields": fields,
        "optional": False,
        "name": name,
        "version": 1,
    } | more


_COUNT = _struct(
    "event.collection",
    [
        _field("data_collection", "string", optional=False),
        _field("event_count", "int64", optional=False),
    ],
    optional=True,
)
_KEY = _struct(f"{_ENVELOPE}Key", [_field("id", "string", optional=False)])
_VALUE = _struct(
    f"{_ENVELOPE}Value",
    [
        _field("status", "string", optional=False),
        _field("id", "string", optional=False),
        _field("event_count", "int64", optional=True),
        _field("data_collections", "array", optional=True, items=_COUNT),
        _field("ts_ms", "int64", optional=False),
    ],
)

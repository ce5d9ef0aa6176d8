"""Changes as CloudEvents 1.0 in JSON, with the attributes of Debezium's CloudEvents converter.

Attributes without a value are left out, as CloudEvents demands. The ``id`` includes the kind of
change, and for a row of a snapshot the row's key, so that no two events have the same id.
"""

import base64
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from mainstem.connectors.port import Op

_ORDER = {
    "id": "iodebeziumtxid",
    "total_order": "iodebeziumtxtotalorder",
    "data_collection_order": "iodebeziumtxdatacollectionorder",
}
_NAMES = {"txId": "iodebeziumxid"}
"""CloudEvents allows no upper case, and ``iodebeziumtxid`` is the transaction's id."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def cloud_event(
    payload: Mapping[str, object], specific: Mapping[str, object], key: bytes | None
) -> dict[str, object]:
    """Return a CloudEvent for a change in Debezium's envelope (``payload``).

    ``specific`` has the fields of its ``source`` that only this kind of database has.
    """
    source, op, transaction = payload["source"], payload["op"], payload["transaction"]
    assert isinstance(source, Mapping)
    place = {name: each for name, each in specific.items() if name not in ("schema", "table")}
    parts = {"name": source["name"], **place, "op": op}
    if op == Op.READ:
        parts["key"] = None if key is None else base64.b64encode(key).decode()
    ts_us = source["ts_us"]
    assert isinstance(ts_us, int)
    time = (_EPOCH + timedelta(microseconds=ts_us)).isoformat(timespec="milliseconds")
    attributes: dict[str, object] = {
        "id": ";".join(f"{name}:{each}" for name, each in parts.items() if each is not None),
        "source": f"/debezium/{source['connector']}/{source['name']}",
        "specversion": "1.0",
        "type": f"io.debezium.connector.{source['connector']}.DataChangeEvent",
        "time": time.replace("+00:00", "Z"),
        "datacontenttype": "application/json",
        "iodebeziumop": op,
    }
    for name, each in source.items():
        if each is not None:
            attributes[_NAMES.get(name) or f"iodebezium{name.replace('_', '')}"] = str(each)
    if isinstance(transaction, Mapping):
        attributes |= {ours: str(transaction[name]) for name, ours in _ORDER.items()}
    data = {"before": payload["before"], "after": payload["after"]}
    return {**attributes, "data": data}

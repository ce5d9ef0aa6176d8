"""The part of the demo's screen about its shop: row, event and result side by side."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import msgspec

from mainstem.cli.demo.shop import Shop
from mainstem.cli.output.tables import table
from mainstem.core.errors import MainstemError
from mainstem.pipelines.definitions.table import Pipeline, Table
from mainstem.pipelines.errors import InvalidDefinition
from mainstem.pipelines.running.source_comparison import compare_with_source
from mainstem.pipelines.sinks.delta import DeltaSink
from mainstem.pipelines.sinks.redis import RedisSink
from mainstem.pipelines.sinks.search import SearchSink, search_index
from mainstem.pipelines.state.table_state import TableStatus

_COLUMNS = ("row in PostgreSQL", "its event", "what Spark keeps")


def shop_picture(shop: Shop, pipeline: Pipeline, known: Mapping[str, TableStatus]) -> str:
    """Return the newest changes as a text table, with the time they take above it."""
    tables = {each.name: each for each in pipeline.tables}
    fresh = [
        f"{name} {status.freshness.last_ms / 1000:.1f} s"
        for name, status in known.items()
        if status.freshness is not None
    ]
    title = f"shop: {shop.transactions:,} transactions in PostgreSQL"
    if fresh:
        title += f"; commit to sink: {', '.join(sorted(fresh))}"
    rows = [dict(zip(_COLUMNS, each, strict=True)) for each in _lines(shop, tables)]
    return f"{title}\n{table(rows) if rows else '  no changes yet'}\n"


def _lines(shop: Shop, tables: Mapping[str, Table]) -> Iterator[tuple[str, str, str]]:
    if newest := shop.newest.get("products"):
        key, row = newest
        shown = f"product {key}: {_product(row)}"
        event = shop.events.get(("products", key), "-")
        yield shown, event, f"index: {_product(_indexed(tables['products'], row))}"
        if "cache" in tables:
            yield "", "", f"cache: {_product(_cached(tables['cache'], key))}"
    if newest := shop.newest.get("orders"):
        key, row = newest
        shown = f"order {key}: {row['status'] if row else 'deleted'}"
        yield shown, shop.events.get(("orders", key), "-"), _history(tables["orders"], key)


def _product(row: Mapping[str, Any] | None) -> str:
    return f"{row['name']} {row['price']}, {row['stock']} left" if row else "-"


def _indexed(products: Table, row: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return a product's row in the search index, found by its name; None if it is not there."""
    try:
        directory = Path(cast("SearchSink", products.sink).path)
        found = search_index(directory, f'name:"{row["name"] if row else ""}"', 1)
    except InvalidDefinition:
        return None
    return found[0].row if found else None


def _cached(cache: Table, key: int) -> Mapping[str, Any] | None:
    import redis  # noqa: PLC0415 - an extra

    sink = cast("RedisSink", cache.sink)
    with redis.Redis.from_url(sink.url, protocol=2) as base:
        found = base.get(f"{sink.prefix}:{key}")
    return msgspec.json.decode(cast("bytes", found)) if found else None


def _history(orders: Table, key: int) -> str:
    """Return the versions of an order as text, each with the time from which it was valid."""
    import pyarrow.dataset as ds  # noqa: PLC0415 - slow to load
    from deltalake import DeltaTable  # noqa: PLC0415

    path = cast("DeltaSink", orders.sink).path
    if not DeltaTable.is_deltatable(path):
        return "history: -"
    rows = DeltaTable(path).to_pyarrow_dataset().to_table(filter=ds.field("id") == key)
    versions = sorted(rows.to_pylist(), key=lambda each: str(each["_position"]))
    parts = [f"{each['status']} {each['valid_from']:%M:%S}" for each in versions]
    if versions and versions[-1]["valid_to"]:
        parts.append(f"deleted {versions[-1]['valid_to']:%M:%S}")
    return f"history: {', '.join(parts) or '-'}"


def is_equal(shop: Shop, pipeline: Pipeline) -> bool:
    """Return whether search index, cache and history have exactly what the database has now."""
    try:
        return all(each.equal for each in compare_with_source(pipeline, shop.database))
    except MainstemError:
        # Nothing is written yet.
        return False

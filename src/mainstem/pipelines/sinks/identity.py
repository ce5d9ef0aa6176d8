"""Tells whether two sinks write to the same table, however path or address are spelled."""

import os
from collections.abc import Hashable

from mainstem.pipelines.sinks.delta import DeltaSink
from mainstem.pipelines.sinks.directories import is_local
from mainstem.pipelines.sinks.parquet import ParquetSink
from mainstem.pipelines.sinks.port import Sink
from mainstem.pipelines.sinks.postgres import PostgresSink
from mainstem.pipelines.sinks.redis import RedisSink
from mainstem.pipelines.sinks.search import SearchSink
from mainstem.pipelines.sinks.sqlite import SqliteSink
from mainstem.pipelines.sinks.topic import TopicSink


def identity(sink: Sink) -> Hashable | None:
    """Return a value that is equal for sinks of one place; None for sinks that cannot conflict."""
    match sink:
        case DeltaSink(path=path) | ParquetSink(path=path) | SearchSink(path=path):
            return ("directory", _real(path))
        case SqliteSink(path=path, table=table):
            # SQLite's table names are case-insensitive.
            return ("sqlite", _real(path), table.lower())
        case PostgresSink(dsn=dsn, table=table):
            return ("postgres", _database(dsn), table)
        case RedisSink(url=url, prefix=prefix):
            return ("redis", url, prefix)
        case TopicSink(topic=topic, address=address):
            return ("topic", address, topic)
    return None


def _real(path: str) -> str:
    if is_local(path):
        return os.path.realpath(path.removeprefix("file://"))
    return path.rstrip("/")


def _database(dsn: str) -> Hashable:
    """Return host, port and name of a database; the DSN itself if psycopg cannot parse it."""
    try:
        from psycopg import ProgrammingError  # noqa: PLC0415 - an extra
        from psycopg.conninfo import conninfo_to_dict  # noqa: PLC0415
    except ImportError:
        return dsn
    try:
        found = conninfo_to_dict(dsn)
    except ProgrammingError:
        # Reported when it is opened.
        return dsn
    user = found.get("user") or os.environ.get("PGUSER")
    return (
        found.get("host") or found.get("hostaddr") or os.environ.get("PGHOST"),
        str(found.get("port") or os.environ.get("PGPORT") or 5432),
        found.get("dbname") or os.environ.get("PGDATABASE") or user,
    )

"""Makes a sink from the ``place`` in a table's stored status, to read the table's rows."""

import re

from mainstem.pipelines.sinks.delta import DeltaSink
from mainstem.pipelines.sinks.parquet import ParquetSink
from mainstem.pipelines.sinks.port import Sink
from mainstem.pipelines.sinks.sqlite import SqliteSink

_DELTA, _PARQUET = DeltaSink("").place, ParquetSink("").place
_SQLITE = re.compile(r"SQLite table (\S+) in (.+)", re.DOTALL)


def sink_at(place: str) -> Sink | None:
    """Return the sink at ``place``; None unless it is a Delta, Parquet or SQLite table."""
    if place.startswith(_DELTA):
        return DeltaSink(place.removeprefix(_DELTA))
    if place.startswith(_PARQUET):
        return ParquetSink(place.removeprefix(_PARQUET))
    found = _SQLITE.fullmatch(place)
    return SqliteSink(found[2], found[1]) if found else None

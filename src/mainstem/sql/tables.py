"""The tables of a query: topics as views with columns for metadata and fields; stored tables."""

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from mainstem.remote.cluster import Cluster
from mainstem.sql import events, fields
from mainstem.sql.avro import AvroValues
from mainstem.sql.fields import Values
from mainstem.sql.worker_messages import Parsed, Span, View

_ROWS = 50_000
_SHOWN = (events.KEY, "_partition", "_offset", "_timestamp")
"""The metadata columns that ``*`` stands for, after the fields."""


class StoredTable:
    """A table that is not a topic, such as a Delta table of a pipeline."""

    def __init__(self, name: str, path: list[str], rows: pa.Table) -> None:
        self.name, self.path, self._rows = name, path, rows

    @property
    def columns(self) -> list[str]:
        """The names of all columns."""
        return list(self._rows.column_names)

    def view(self) -> View:
        """Return the view for the worker; it has all columns."""
        schema = memoryview(self._rows.schema.serialize()).tobytes()
        return View(self.path, "SELECT * FROM {scan}", schema, [])

    def read(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        """Yield all rows with the columns asked for."""
        yield from self._rows.select(columns).to_batches(max_chunksize=_ROWS)


class Topic:
    """A topic in a query, and what was inferred of its values."""

    def __init__(self, name: str, path: list[str], avro: AvroValues | None = None) -> None:
        self.name, self.path, self._avro = name, path, avro
        self.values = Values()
        self._bytes: set[str] = set()
        self._has_fields = self._learned = False
        self.whole = False
        """Whether all events of the snapshot have been looked at, and not only a sample."""

    @property
    def learned(self) -> bool:
        """Whether columns were inferred from events."""
        return self._learned

    def learn(self, batches: Iterable[pa.RecordBatch], *, whole: bool = False) -> None:
        """Infer the columns from these events, and forget what others told.

        The batches have ``_key`` and ``_value`` as bytes; ``whole`` says that they are all events
        of the snapshot, not a sample.
        """
        self.values, self._bytes = Values(), set()
        for batch in batches:
            keys, values = (batch.column(name).to_pylist() for name in (events.KEY, events.VALUE))
            for name, found in ((events.KEY, keys), (events.VALUE, values)):
                if not all(map(_is_text, found)):
                    self._bytes.add(name)
            self.values.learn(values)
        self.whole, self._learned = whole, True
        self._has_fields = self._has_fields or self.values.are_objects

    @property
    def has_fields(self) -> bool:
        """Whether the fields of JSON values are columns."""
        return self._has_fields

    @property
    def schema(self) -> pa.Schema:
        """The columns that a scan of the topic can return."""
        return events.schema(frozenset((events.KEY, events.VALUE)) - self._bytes)

    def read(
        self, cluster: Cluster, spans: Sequence[Span], columns: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        """Yield the events in offset ranges, with Avro values converted to JSON."""
        if self._avro is None:
            yield from events.read(cluster, self.name, spans, columns)
            return
        at = columns.get_field_index(events.VALUE)
        stored = columns if at < 0 else columns.set(at, pa.field(events.VALUE, pa.binary()))
        for batch in self._avro.decoded(events.read(cluster, self.name, spans, stored)):
            yield batch.cast(columns)

    @property
    def has_misfits(self) -> bool:
        """Whether values were read that the topic's Avro schema does not fit."""
        return self._avro is not None and self._avro.has_misfits

    def view(self, query: Parsed, spans: Iterable[Span]) -> View:
        """Return the view for the worker, with the columns that the query may use."""
        words = frozenset(query.words)
        metadata = [name for name in events.METADATA if name in words]
        if query.star:
            shown = _SHOWN if self.has_fields else (events.VALUE, *_SHOWN)
            metadata = [*shown, *(name for name in metadata if name not in shown)]
        schema = memoryview(self.schema.serialize()).tobytes()
        return View(self.path, self._select(query, words, metadata), schema, list(spans))

    @property
    def columns(self) -> list[str]:
        """The names of all columns."""
        return [*(self.values.fields if self.has_fields else ()), *events.METADATA]

    def _select(self, query: Parsed, words: frozenset[str], metadata: list[str]) -> str:
        plain = ", ".join(metadata)
        known = self.values.fields if self.has_fields else {}
        columns = fields.columns(
            {name: kind for name, kind in known.items() if name.lower() not in events.METADATA},
            lambda name: query.star or name in words,
            frozenset(query.dotted),
        )
        if not columns.expressions:
            return f"SELECT {plain or '_offset'} FROM {{scan}}"
        text = "TRY(decode(_value))" if events.VALUE in self._bytes else events.VALUE
        found = fields.extraction(columns.paths, text, checked=self.values.invalid > 0)
        shown = ", ".join(
            f"{expression} AS {fields.quoted(name)}"
            for name, expression in columns.expressions.items()
        )
        inner = ", ".join([*metadata, f"{found} AS _fields"])
        return f"SELECT {', '.join([shown, *metadata])} FROM (SELECT {inner} FROM {{scan}})"


def _is_text(value: bytes | None) -> bool:
    if value is None:
        return True
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True

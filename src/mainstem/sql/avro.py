"""Converts Avro values to JSON, so that queries find their fields as those of JSON values."""

import io
import json
import struct
from collections.abc import Iterable, Iterator
from typing import Self, cast

import msgspec
import pyarrow as pa

from mainstem.core.errors import InvalidSetting
from mainstem.sql.errors import MissingSql
from mainstem.sql.events import VALUE

_PREFIX_BYTES = 5
"""A zero byte and the id of the schema in a registry, which many producers write before values."""
_NOT_AVRO = (
    *(ArithmeticError, AssertionError, AttributeError, EOFError, LookupError, MemoryError),
    *(RecursionError, StopIteration, TypeError, ValueError, struct.error),
)
"""What fastavro raises for bytes that are no value of a schema."""
_NO_SCHEMA = (AttributeError, LookupError, RecursionError, TypeError, ValueError)
_Json = str | list[object] | dict[str, object]
_encode = msgspec.json.Encoder(enc_hook=str).encode


class AvroValues:
    """Decodes the values of a topic by one Avro schema; values that do not fit become null."""

    def __init__(self, schema: object, named: str) -> None:
        """``named`` is what error messages call the schema."""
        try:
            import fastavro  # noqa: PLC0415 - only topics with a schema need it
        except ImportError:
            raise MissingSql("fastavro is not installed: pip install 'mainstem[sql]'") from None
        try:
            self._schema = fastavro.parse_schema(cast(_Json, schema))
        except (*_NO_SCHEMA, fastavro.schema.SchemaParseException) as error:
            raise InvalidSetting(f"{named} is no Avro schema: {error}") from None
        self._reader = fastavro.schemaless_reader
        self.has_misfits = False
        """Whether values were read that are not Avro of the schema."""

    @classmethod
    def of(cls, text: bytes, named: str) -> Self:
        """Return a decoder for a schema given as JSON text; raises InvalidSetting."""
        try:
            schema = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise InvalidSetting(f"{named} is no Avro schema: {error}") from None
        return cls(schema, named)

    def decoded(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the batches with their values replaced by JSON text in UTF-8."""
        for batch in batches:
            at = batch.schema.get_field_index(VALUE)
            if at < 0:
                yield batch
                continue
            values = [self._json(value) for value in batch.column(at).to_pylist()]
            yield batch.set_column(at, batch.schema.field(at), pa.array(values, pa.binary()))

    def _json(self, value: bytes | None) -> bytes | None:
        if value is None:
            return None
        found = self._whole(value)
        if found is None and value[:1] == b"\0":
            found = self._whole(value[_PREFIX_BYTES:])
        self.has_misfits = self.has_misfits or found is None
        return found

    def _whole(self, value: bytes) -> bytes | None:
        rest = io.BytesIO(value)
        try:
            found = _encode(self._reader(rest, self._schema, None))
        except _NOT_AVRO:
            return None
        return None if rest.read(1) else found

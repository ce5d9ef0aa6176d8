"""The same messages in kio, an independent implementation to compare with.

Fields are matched by their order; kio gives times, durations, errors and ids types of their own.
"""

import dataclasses
import io
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import cast, get_args, get_type_hints
from uuid import UUID

from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer
from kio.static.protocol import Entity
from tests.kafka_protocol.values import Narrowed

from mainstem.kafka_protocol.fields import NO_ID, Field, Wire, layout

_ERRORS = st.sampled_from([int(code) for code in ErrorCode])
_TIMES = st.integers(0, 2**41)
# What kio can hold: errors that have a name, and times that a datetime can be.
WHAT_KIO_CAN_HOLD: Narrowed = {
    "error_code": _ERRORS,
    "partition_error_code": _ERRORS,
    "log_append_time_ms": _TIMES | st.just(-1),
    "transaction_start_time_ms": _TIMES,
    "retention_time_ms": _TIMES,
    "session_lifetime_ms": _TIMES,
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ONE_MS = timedelta(milliseconds=1)

_FROM_KIO: dict[str, Callable[..., object]] = {
    "error_code": int,
    "timedelta_i32": lambda value: value // _ONE_MS,
    "timedelta_i64": lambda value: value // _ONE_MS,
    "datetime_i64": lambda value: -1 if value is None else (value - _EPOCH) // _ONE_MS,
    "uuid": lambda value: NO_ID if value is None else value.bytes,
}
_TO_KIO: dict[str, Callable[..., object]] = {
    "error_code": ErrorCode,
    "timedelta_i32": lambda value: timedelta(milliseconds=value),
    "timedelta_i64": lambda value: timedelta(milliseconds=value),
    "datetime_i64": lambda value: None if value == -1 else _EPOCH + timedelta(milliseconds=value),
    "uuid": lambda value: None if value == NO_ID else UUID(bytes=value),
}


def write(entity: type[Entity], message: Wire, version: int) -> bytes:
    """Return what kio writes for the same values."""
    buffer = io.BytesIO()
    entity_writer(entity)(buffer, cast(Entity, _to_kio(entity, type(message), version, message)))
    return buffer.getvalue()


def read(entity: type[Entity], message: type[Wire], version: int, data: bytes) -> object:
    """Return what kio reads, in our classes."""
    value, size = entity_reader(entity)(data, 0)
    assert size == len(data)
    return _from_kio(value, message, version)


def _to_kio(entity: type[Entity], struct: type[Wire], version: int, message: Wire) -> object:
    ours = [field for field in layout(struct, version) if field.shape is not None]
    hints = get_type_hints(entity)
    converted: dict[str, object] = {}
    for theirs, field in zip(dataclasses.fields(entity), ours, strict=True):
        value = getattr(message, field.name)
        kind = theirs.metadata.get("kafka_type")
        if kind is None:
            nested = _entity_in(hints[theirs.name])
            value = _each(partial(_to_kio_or_null, nested, _struct_in(field), version), value)
        elif kind in _TO_KIO:
            value = _each(_TO_KIO[kind], value)
        converted[theirs.name] = value
    return entity(**converted)


def _from_kio(entity: object, message: type[Wire], version: int) -> Wire:
    ours = [field for field in layout(message, version) if field.shape is not None]
    converted: dict[str, object] = {}
    assert dataclasses.is_dataclass(entity)
    for theirs, field in zip(dataclasses.fields(entity), ours, strict=True):
        value = getattr(entity, theirs.name)
        kind = theirs.metadata.get("kafka_type")
        if kind is None:
            value = _each(partial(_from_kio_or_null, _struct_in(field), version), value)
        elif kind in _FROM_KIO:
            value = _each(_FROM_KIO[kind], value)
        converted[field.name] = value
    return message(**converted)


def _to_kio_or_null(
    entity: type[Entity], struct: type[Wire], version: int, message: Wire | None
) -> object:
    return None if message is None else _to_kio(entity, struct, version, message)


def _from_kio_or_null(message: type[Wire], version: int, entity: object) -> Wire | None:
    return None if entity is None else _from_kio(entity, message, version)


def _struct_in(field: Field) -> type[Wire]:
    """Return the struct that a field is, or is an array of."""
    assert field.shape is not None
    struct = (field.shape.element or field.shape).struct
    assert struct is not None
    return struct


def _each(convert: Callable[..., object], value: object) -> object:
    """Convert a value, or each of an array."""
    if isinstance(value, tuple | list):
        return tuple(convert(one) for one in value)
    return convert(value)


def _entity_in(hint: object) -> type[Entity]:
    """Return the class inside an annotation such as ``tuple[Broker, ...] | None``."""
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return cast(type[Entity], hint)
    return next(_entity_in(part) for part in get_args(hint) if part is not type(None))


_TYPES = {
    "int8": "b",
    "int16": "h",
    "error_code": "h",
    "uint16": "H",
    "int32": "i",
    "timedelta_i32": "i",
    "int64": "q",
    "timedelta_i64": "q",
    "datetime_i64": "q",
    "bool": "?",
    "uuid": "16s",
}
# kio reads a zero id, and the time -1, as null; on the wire neither is.
_NULL_IN_KIO_ONLY = {"uuid", "datetime_i64"}

Outline = list[tuple[str, bool, int | None, object]]
"""Of each field: its type, whether it may be null, its tag, and what is in it."""


def outline(entity: type[Entity]) -> Outline:
    """Return how kio declares a message."""
    hints = get_type_hints(entity)
    fields: Outline = []
    for field in dataclasses.fields(entity):
        hint, kind = hints[field.name], field.metadata.get("kafka_type")
        nullable = type(None) in get_args(hint) and kind not in _NULL_IN_KIO_ONLY
        name = "struct" if kind is None else _TYPES.get(kind, kind)
        is_array = "tuple[" in str(hint)
        inside = outline(_entity_in(hint)) if kind is None else None
        fields.append(
            (f"[{name}]" if is_array else name, nullable, field.metadata.get("tag"), inside)
        )
    return fields


def our_outline(message: type[Wire], version: int) -> Outline:
    """Return how we declare it."""
    fields: Outline = []
    for field in layout(message, version):
        if field.shape is not None:
            inner = field.shape.element or field.shape
            name = inner.code or inner.kind
            inside = our_outline(inner.struct, version) if inner.struct else None
            is_array = field.shape.element is not None
            fields.append(
                (f"[{name}]" if is_array else name, field.shape.nullable, field.tag, inside)
            )
    return fields

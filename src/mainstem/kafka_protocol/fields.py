"""Declares messages of the Kafka protocol, and derives the layout of each version.

A message is a frozen Struct. The annotation of a field gives its wire type, the versions that have
it, and since when it may be null; the default is used in versions that lack it:

    class Broker(Wire, frozen=True):
        node_id: Int32 = 0
        host: String = ""
        rack: Annotated[String | None, Since(1), IGNORABLE] = None

Fields are in wire order, those of a base class first. A struct may be generic in the type of its
arrays' elements. Compact lengths and tagged fields are not declared here: they follow from the
version ("flexible" from some version on).
"""

from functools import cache
from types import UnionType
from typing import Annotated, Protocol, Union, cast, get_args, get_origin, get_type_hints

import msgspec

from mainstem.kafka_protocol.wire import Fixed, Sized


class Wire(msgspec.Struct, frozen=True, gc=False):
    """Base class of all messages and nested structs; optimized for fast creation."""


NO_ID = bytes(16)


class Since(msgspec.Struct, frozen=True):
    """Annotation: the first version that has the field."""

    version: int


class Until(msgspec.Struct, frozen=True):
    """Annotation: the last version that has the field."""

    version: int


class NullSince(msgspec.Struct, frozen=True):
    """Annotation: the first version in which the field may be null; earlier ones refuse null."""

    version: int


class Tag(msgspec.Struct, frozen=True):
    """Annotation: the field is tagged, with this number; not on the wire if it has its default."""

    number: int


class Ignorable(msgspec.Struct, frozen=True):
    """Annotation: versions that lack the field drop its value; otherwise that is an error."""


IGNORABLE = Ignorable()


class Shape(msgspec.Struct, frozen=True):
    """How a value is encoded in one version of a message."""

    kind: str
    """``fixed``, ``struct``, or the ``kind`` of its Sized type, such as ``string``."""
    nullable: bool = False
    code: str = ""
    """The format letter of a fixed size, for the struct module."""
    size: int = 0
    element: "Shape | None" = None
    """The shape of the elements of an array."""
    struct: type[Wire] | None = None


class Field(msgspec.Struct, frozen=True):
    """A field of a message in one version; ``shape`` is None if the version lacks the field."""

    name: str
    default: object
    shape: Shape | None
    tag: int | None = None
    ignorable: bool = False


class _Open(Protocol):
    """An annotation that contains a type variable, as fields of generic structs have."""

    def __getitem__(self, elements: tuple[object, ...]) -> object: ...


@cache
def layout(struct: type[Wire], version: int) -> tuple[Field, ...]:
    """Return all fields of a struct in one version, in wire order."""
    made_by = constructor(struct)
    hints = get_type_hints(made_by, include_extras=True)
    elements = get_args(struct)
    return tuple(
        _field(info.name, info.default, _filled(hints[info.name], elements), version)
        for info in msgspec.structs.fields(made_by)
    )


def constructor(struct: type[Wire]) -> type[Wire]:
    """Return the class to instantiate for a struct: itself, or the base of a generic struct."""
    return get_origin(struct) or struct


def _filled(hint: object, elements: tuple[object, ...]) -> object:
    """Return the annotation of a generic struct's field with the type variable replaced."""
    is_open = bool(elements) and bool(getattr(hint, "__parameters__", ()))
    return cast(_Open, hint)[elements] if is_open else hint


def _field(name: str, default: object, hint: object, version: int) -> Field:
    inner, rules = _unwrap(hint)
    first = next((rule.version for rule in rules if isinstance(rule, Since)), 0)
    last = next((rule.version for rule in rules if isinstance(rule, Until)), version)
    null_from = next((rule.version for rule in rules if isinstance(rule, NullSince)), 0)
    present = first <= version <= last
    return Field(
        name=name,
        default=default,
        shape=_shape(inner, rules, null_from <= version) if present else None,
        tag=next((rule.number for rule in rules if isinstance(rule, Tag)), None),
        ignorable=IGNORABLE in rules,
    )


def _unwrap(hint: object) -> tuple[object, tuple[object, ...]]:
    """Split an ``Annotated`` type into the type and its annotations (versions, tag, null)."""
    if get_origin(hint) is Annotated:
        inner, *rules = get_args(hint)
        return inner, tuple(rules)
    return hint, ()


def _shape(inner: object, rules: tuple[object, ...], may_be_null: bool) -> Shape:
    if get_origin(inner) in {Union, UnionType} and type(None) in get_args(inner):
        (full,) = (part for part in get_args(inner) if part is not type(None))
        return msgspec.structs.replace(_shape(*_unwrap(full), False), nullable=may_be_null)
    for rule in rules:
        if isinstance(rule, Fixed):
            return Shape("fixed", code=rule.code, size=rule.size)
        if isinstance(rule, Sized):
            element = _shape(*_unwrap(get_args(inner)[0]), False) if rule.kind == "array" else None
            return Shape(rule.kind, element=element)
    made_by = get_origin(inner) or inner
    if isinstance(made_by, type) and issubclass(made_by, Wire):
        return Shape("struct", struct=cast(type[Wire], inner))
    raise TypeError(f"{inner!r} has no wire type; use those of wire.py")

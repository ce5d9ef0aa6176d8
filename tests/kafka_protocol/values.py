"""Values of every message, drawn from the layout of one version."""

from collections.abc import Mapping

from hypothesis import strategies as st

from mainstem.kafka_protocol.apis import APIS
from mainstem.kafka_protocol.fields import Field, Shape, Wire, layout

Narrowed = Mapping[str, st.SearchStrategy[object]]

EVERY_API = [(api, version) for api in APIS.values() for version in range(api.first, api.last + 1)]
EVERY_API_IDS = [f"{api.name}-v{version}" for api, version in EVERY_API]

_BITS = {"b": 8, "h": 16, "i": 32, "q": 64}
_FIXED: dict[str, st.SearchStrategy[object]] = {
    "?": st.booleans(),
    "H": st.integers(0, 2**16 - 1),
    "d": st.floats(allow_nan=False),
    "16s": st.binary(min_size=16, max_size=16),
} | {code: st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for code, bits in _BITS.items()}
_SIZED: dict[str, st.SearchStrategy[object]] = {
    "string": st.text(st.characters(codec="utf-8"), max_size=4) | st.just("x" * 200),
    "bytes": st.binary(max_size=4) | st.just(b"\0" * 200),
    "records": st.binary(max_size=4) | st.just(b"r" * 20_000),
}


def values(struct: type[Wire], version: int, narrowed: Narrowed | None = None) -> st.SearchStrategy:
    """Draw a struct; fields that the version lacks keep their defaults."""
    fields = {
        field.name: _field(field, version, narrowed or {})
        for field in layout(struct, version)
        if field.shape is not None
    }
    return st.builds(struct, **fields)


def _field(field: Field, version: int, narrowed: Narrowed) -> st.SearchStrategy[object]:
    assert field.shape is not None
    if field.name in narrowed:
        return narrowed[field.name]
    drawn = _value(field.shape, version, narrowed)
    return drawn if field.tag is None else drawn | st.just(field.default)


def _value(shape: Shape, version: int, narrowed: Narrowed) -> st.SearchStrategy[object]:
    if shape.kind == "fixed":
        drawn = _FIXED[shape.code]
    elif shape.kind == "struct":
        assert shape.struct is not None
        drawn = values(shape.struct, version, narrowed)
    elif shape.kind == "array":
        assert shape.element is not None
        element = _value(shape.element, version, narrowed)
        drawn = st.lists(element, max_size=3).map(tuple)
        if shape.element.kind == "fixed":
            drawn |= element.map(lambda one: (one,) * 200)
    else:
        drawn = _SIZED[shape.kind]
    return drawn | st.none() if shape.nullable else drawn


def filled(struct: type[Wire], version: int) -> Wire:
    """Return a struct in which nothing is null or empty, and every array has two elements."""
    return struct(
        **{
            field.name: _filled(field.shape, version)
            for field in layout(struct, version)
            if field.shape is not None
        }
    )


def _filled(shape: Shape, version: int) -> object:
    if shape.kind == "array":
        assert shape.element is not None
        return (_filled(shape.element, version),) * 2
    if shape.kind == "struct":
        assert shape.struct is not None
        return filled(shape.struct, version)
    if shape.kind == "string":
        return "é"
    if shape.kind == "fixed":
        return {"?": True, "16s": b"0123456789abcdef"}.get(shape.code, 7)
    return b"bytes"

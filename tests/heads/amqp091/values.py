"""Any methods and tables of AMQP, for tests that draw them."""

from hypothesis import strategies as st

from mainstem.heads.amqp091 import methods
from mainstem.heads.amqp091.fields import Binary, Timestamp, Value
from mainstem.heads.amqp091.methods import Method

SHORT = st.text(st.characters(codec="utf-8"), max_size=32)
"""At most 128 bytes: pamqp cuts longer names off."""
SECONDS = st.integers(0, 2**32 - 1)
"""Those that pamqp does not take for milliseconds."""
THEIR_SCALARS: st.SearchStrategy[Value] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, width=32),
    st.text(st.characters(codec="utf-8"), max_size=40),
    st.builds(Binary, st.binary(max_size=40)),
    st.builds(Timestamp, SECONDS),
    st.decimals(-1000, 1000, places=3),
)


def tables(scalars: st.SearchStrategy[Value]) -> st.SearchStrategy[dict[str, Value]]:
    values: st.SearchStrategy[Value] = st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(SHORT, inner, max_size=4),
        max_leaves=8,
    )
    return st.dictionaries(SHORT, values, max_size=4)


TABLES = tables(THEIR_SCALARS | st.floats(allow_nan=False) | st.just(b"\xff\xfe is not UTF-8"))
THEIR_TABLES = tables(THEIR_SCALARS)
"""pamqp reads doubles, and bytes that are not UTF-8, but does not write them."""
KINDS: dict[str, st.SearchStrategy[object]] = {
    "octet": st.integers(0, 255),
    "short": st.integers(0, 2**16 - 1),
    "long": st.integers(0, 2**32 - 1),
    "longlong": st.integers(0, 2**63 - 1),
    "bit": st.booleans(),
    "shortstr": SHORT,
    "longstr": st.binary(max_size=60),
    "table": TABLES,
}
THEIR_KINDS = {**KINDS, "longstr": SHORT.map(str.encode), "table": THEIR_TABLES}


def layout(method: type[Method]) -> tuple[tuple[str, str], ...]:
    return methods._LAYOUTS[method]


def drawn(
    method: type[Method], kinds: dict[str, st.SearchStrategy[object]] = KINDS
) -> st.SearchStrategy[Method]:
    return st.builds(method, *(kinds[kind] for _, kind in layout(method)))

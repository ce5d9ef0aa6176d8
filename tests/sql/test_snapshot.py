"""Snapshots as texts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.core.errors import InvalidSetting
from mainstem.sql.snapshot import Snapshot, TopicSnapshot, parse
from mainstem.sql.worker_messages import Span

SPANS = st.builds(
    lambda partition, start, count: Span(partition, start, start + count),
    st.integers(0, 99),
    st.integers(0, 2**62),
    st.integers(0, 2**62),
)
TOPICS = st.builds(
    lambda name, spans: (name, TopicSnapshot(name.encode().hex()[:8], tuple(spans))),
    st.from_regex(r"[a-zA-Z0-9._-]{1,20}", fullmatch=True),
    st.lists(SPANS, max_size=4),
)


@given(topics=st.lists(TOPICS, min_size=1, max_size=3))
def test_a_snapshot_is_read_back_from_its_text(topics: list[tuple[str, TopicSnapshot]]) -> None:
    snapshot = Snapshot(dict(topics))

    assert parse(str(snapshot)) == snapshot


@pytest.mark.parametrize(
    "text", ["", "orders", "orders~12:0=5-3", "a~1:0=1", "a~1:x=1-2", "a b~1:0=1-2,"]
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(InvalidSetting, match="snapshot"):
        parse(text)


def test_what_came_after_a_snapshot_is_a_snapshot() -> None:
    before = parse("orders~ab:0=0-10,1=5-5")
    after = parse("orders~ab:0=3-12,1=5-9,2=0-4")

    assert str(after.after(before)) == "orders~ab:0=10-12,1=5-9,2=0-4"
    assert after.after(before).events == 10

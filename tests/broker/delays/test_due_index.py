"""The due index: earliest entry first, about 16 bytes per event, no entry twice."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.broker.delays import due_index
from mainstem.broker.delays.due_index import DueIndex, Entry

OFFSETS = st.integers(0, 3_000)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 50), st.integers(1, 300)),
        st.tuples(st.just("remove"), OFFSETS, OFFSETS),
        st.tuples(st.just("take"), st.integers(0, 60), st.integers(1, 40)),
    ),
    max_size=30,
)


@given(STEPS, st.booleans())
def test_it_is_a_sorted_set(steps: list[tuple[str, int, int]], puts_back: bool) -> None:
    index = DueIndex()
    expected: set[Entry] = set()
    offset = 0

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(due_index, "RUN_LENGTH", 16)
        for what, first, second in steps:
            if what == "add":
                for each in range(offset, offset + second):
                    due_ms = first + each * 7 % 11
                    index.add(each, due_ms)
                    expected.add((due_ms, each))
                offset += second
            elif what == "remove":
                low, high = sorted((first, second))
                index.remove([(low, high)])
                expected = {entry for entry in expected if not low <= entry[1] <= high}
            else:
                taken = index.take(first, second)
                assert taken == sorted(entry for entry in expected if entry[0] <= first)[:second]
                if puts_back:
                    index.put_back(taken)
                else:
                    index.remove([(each, each) for _, each in taken])
                    expected -= set(taken)
            assert len(index) == len(expected)
            assert index.next_due_ms() == min((due_ms for due_ms, _ in expected), default=None)

        assert index.entries() == sorted(expected)
        assert list(index.offsets()) == sorted(each for _, each in expected)
        assert index.take(1_000, 10_000) == sorted(expected)


def test_each_entry_takes_little_more_than_16_bytes() -> None:
    count = 10 * (due_index.RUN_LENGTH + 1)
    tracemalloc.start()

    index = DueIndex()
    for offset in range(count):
        index.add(offset, 1_700_000_000_000 + offset * 7919 % 1_000_003)
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert len(index) == count
    assert used / count < 24

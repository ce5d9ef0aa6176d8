"""Deadlines: returned in order of time, and freed when they are cleared."""

from hypothesis import given
from hypothesis import strategies as st

from mainstem.broker.deadlines import SPARE_PLACES, Deadlines

FAR_MS = 1_000_000
ROOM = SPARE_PLACES + 2


def places(deadlines: Deadlines[int]) -> int:
    """Return how many places the deadlines take that hold, and those that do not any more."""
    return max(len(deadlines._heap), len(deadlines._queued))


def test_what_was_cleared_takes_no_place_behind_something_that_is_due_earlier() -> None:
    deadlines = Deadlines[int]()
    deadlines.set(0, 1_000)

    most = 0
    for key in range(1, 10_000):
        deadlines.set(key, FAR_MS)
        deadlines.clear(key)
        most = max(most, places(deadlines))

    assert most <= ROOM
    assert deadlines.next() == 1_000


def test_what_is_moved_earlier_again_and_again_takes_no_place_for_each_move() -> None:
    deadlines = Deadlines[int]()
    deadlines.set(0, 0)

    most = 0
    for move in range(10_000):
        deadlines.set(1, FAR_MS - move)
        most = max(most, places(deadlines))

    assert most <= ROOM + 2
    assert deadlines.take(FAR_MS) == 0
    assert deadlines.take(FAR_MS) == 1
    assert deadlines.take(FAR_MS) is None


def test_places_are_seldom_put_in_order_anew() -> None:
    deadlines = Deadlines[int]()
    for key in range(10_000):
        deadlines.set(key, FAR_MS + key)

    heaps = [deadlines._heap]
    for key in range(10_000):
        deadlines.clear(key)
        if deadlines._heap is not heaps[-1]:
            heaps.append(deadlines._heap)

    # Each leaves half of the places, from ten thousand down to the spare ones.
    assert len(heaps) <= 10


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("set"), st.integers(0, 5), st.integers(0, 100)),
            st.tuples(st.just("clear"), st.integers(0, 5), st.just(0)),
            st.tuples(st.just("take"), st.just(0), st.integers(0, 100)),
            st.tuples(st.just("many"), st.integers(6, 90), st.integers(0, 100)),
        ),
        max_size=60,
    )
)
def test_what_is_due_longest_is_taken_first_whatever_happened_before(
    steps: list[tuple[str, int, int]],
) -> None:
    deadlines = Deadlines[int]()
    model: dict[int, int] = {}
    for what, key, time_ms in steps:
        if what == "set":
            deadlines.set(key, time_ms)
            model[key] = time_ms
        elif what == "clear":
            deadlines.clear(key)
            model.pop(key, None)
        elif what == "many":
            for each in range(6, key):
                deadlines.set(each, time_ms)
                deadlines.clear(each)
                model.pop(each, None)
        else:
            first = min(((due_ms, each) for each, due_ms in model.items()), default=(101, 0))
            expected = first[1] if first[0] <= time_ms else None
            assert deadlines.take(time_ms) == expected
            if expected is not None:
                del model[expected]
        assert deadlines.next() == min(model.values(), default=None)
        assert len(deadlines) == len(model)
        assert places(deadlines) <= 2 * len(model) + SPARE_PLACES

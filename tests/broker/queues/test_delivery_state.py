"""A queue's state in one partition: events that wait for their key, and the cost of that."""

import pytest

from mainstem.broker.queues.delivery_state import Window
from mainstem.broker.queues.records import WindowSet

MANY = 1_000


class Offset(int):
    """An offset that counts how often one was compared with another."""

    compared = 0

    def __lt__(self, other: int) -> bool:
        Offset.compared += 1
        return int(self) < int(other)

    def __eq__(self, other: object) -> bool:
        Offset.compared += 1
        return int(self) == other

    __hash__ = int.__hash__


def keyed(*keys: bytes) -> Window:
    window = Window(WindowSet(0), None, keyed=True)
    for number, key in enumerate(keys):
        if window.add(Offset(number), key):
            window.put_back(Offset(number))
    return window


def settled_one_by_one(window: Window) -> list[int]:
    found = []
    while (offset := window.ready()) is not None:
        window.give(offset, "ann", 1, 0)
        window.apply({offset: None})
        found.append(offset)
    return found


@pytest.mark.parametrize("at_once", [False, True])
def test_what_waits_behind_one_key_is_settled_at_the_same_cost_each(at_once: bool) -> None:
    window = keyed(*[b"hot"] * MANY)
    Offset.compared = 0

    if at_once:
        window.lost(MANY)
    else:
        assert settled_one_by_one(window) == list(range(MANY))

    assert not window.entries
    assert not window.lines
    assert Offset.compared < 100 * MANY


def test_what_is_gone_in_the_midst_of_a_line_is_passed_over() -> None:
    window = keyed(b"a", b"a", b"b", b"a", b"a")

    window.apply({1: None, 3: None})

    assert settled_one_by_one(window) == [0, 2, 4]
    assert not window.lines


def test_an_offset_that_is_taken_back_may_come_again_with_another_key() -> None:
    window = keyed(b"a", b"a", b"a", b"a")

    window.cut(1)
    for offset, key in enumerate((b"b", b"a", b"a"), start=1):
        if window.add(offset, key):
            window.put_back(offset)

    assert settled_one_by_one(window) == [0, 1, 2, 3]
    assert not window.lines

"""Settlements with ``wait=False``: when they are written, and where their errors are raised."""

import threading
from collections.abc import Iterator, Sequence

import pytest

from mainstem.broker.door import AT_ONCE, Durable, Settled, Settlement
from mainstem.client.embedded.ack_batching import MAX_WRITES, WINDOW, SettlementWindow
from mainstem.core.errors import Closed, MainstemError, StaleDelivery, StorageFull
from mainstem.log.commit.durable import Commit

PATIENCE_S = 30
NEVER_S = 3600.0


class Writes:
    """Keeps what a window writes."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.refused: dict[int, MainstemError] = {}
        self.error: MainstemError | None = None
        self.durable: Durable = AT_ONCE
        self.is_written = threading.Event()

    def __call__(self, settlements: Sequence[Settlement]) -> Settled:
        self.sizes.append(len(settlements))
        self.is_written.set()
        if self.error is not None:
            raise self.error
        return Settled(self.durable, self.refused)


@pytest.fixture
def writes() -> Writes:
    return Writes()


@pytest.fixture
def window(writes: Writes) -> Iterator[SettlementWindow]:
    made = SettlementWindow(writes, NEVER_S)
    yield made
    made.close()


def fill(window: SettlementWindow, count: int = WINDOW) -> list[Durable]:
    return [window.add(Settlement(0, offset)) for offset in range(count)]


def test_a_full_window_is_written_at_once_and_together(
    window: SettlementWindow, writes: Writes
) -> None:
    fill(window, 2 * WINDOW + 1)

    assert writes.sizes == [WINDOW, WINDOW]
    window.flush()
    assert writes.sizes == [WINDOW, WINDOW, 1]
    window.flush()
    assert window.written == 3


def test_few_are_written_a_little_later_though_nobody_asks(writes: Writes) -> None:
    window = SettlementWindow(writes)

    for _ in range(2):
        writes.is_written.clear()
        fill(window, 1)
        assert writes.is_written.wait(PATIENCE_S)

    assert writes.sizes == [1, 1]


def test_who_has_too_many_writes_under_way_waits_for_the_oldest(
    window: SettlementWindow, writes: Writes
) -> None:
    under_way = []
    for _ in range(MAX_WRITES):
        writes.durable = Commit()
        under_way.append(writes.durable)
        assert all(each.done for each in fill(window))

    writes.durable = Commit()
    *others, last = fill(window)

    assert all(each.done for each in others)
    assert last is under_way[0]


def test_what_is_refused_is_raised_once_with_the_others(
    window: SettlementWindow, writes: Writes
) -> None:
    writes.refused = {0: StaleDelivery("orders[0]@0", "ann", "it is settled"), 7: StorageFull("x")}
    fill(window)

    with pytest.raises(StaleDelivery) as raised:
        window.check()
    window.check()

    (note,) = raised.value.__notes__
    assert note == f"as well: {writes.refused[7]}"


def test_a_write_that_fails_at_once_or_later_is_raised(
    window: SettlementWindow, writes: Writes
) -> None:
    writes.error = StorageFull("no space is left")
    fill(window)
    with pytest.raises(StorageFull):
        window.check()

    writes.error, writes.durable = None, (commit := Commit())
    fill(window)
    window.check()
    commit.settle(StorageFull("no space is left"))
    with pytest.raises(StorageFull):
        window.check()


def test_closing_writes_the_rest_and_refuses_more(window: SettlementWindow, writes: Writes) -> None:
    fill(window, 3)

    window.close()

    assert writes.sizes == [3]
    with pytest.raises(Closed):
        fill(window, 1)

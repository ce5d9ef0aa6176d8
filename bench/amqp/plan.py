"""What is measured: sizes and modes of messages, numbers of queues, prefetch limits."""

from typing import NamedTuple

TRANSIENT, PERSISTENT = 1, 2
MODES = {TRANSIENT: "transient", PERSISTENT: "persistent"}
WINDOW = 1000
"""Messages that a publisher may have unconfirmed."""


class Cell(NamedTuple):
    """Messages that are published, and consumed again."""

    size: int
    mode: int
    queues: int


class Plan(NamedTuple):
    """How much is measured."""

    rounds: int
    cells: tuple[Cell, ...]
    portions: tuple[tuple[int, int], ...]
    """Prefetch limits, and how many of a cell's messages are consumed with each."""
    paced: int
    rate: int
    tasks: int
    backlog: int
    starts: int

    @property
    def published(self) -> int:
        """How many messages a turn publishes: as many as are consumed."""
        return sum(count for _, count in self.portions)


def _cells(*queues: int) -> tuple[Cell, ...]:
    return tuple(
        Cell(size, mode, number) for number in queues for size in (100, 1000) for mode in MODES
    )


FULL = Plan(
    rounds=3,
    cells=_cells(1, 50),
    portions=((1, 2_000), (10, 6_000), (100, 12_000)),
    paced=2_000,
    rate=1_000,
    tasks=1_000,
    backlog=1_000_000,
    starts=3,
)
QUICK = FULL._replace(
    rounds=1,
    portions=((1, 500), (10, 2_000), (100, 5_000)),
    paced=500,
    tasks=200,
    backlog=50_000,
    starts=1,
)
TINY = QUICK._replace(
    cells=(Cell(100, TRANSIENT, 1), Cell(100, PERSISTENT, 3)),
    portions=((1, 20), (10, 50), (100, 200)),
    paced=50,
    tasks=5,
    backlog=500,
)
"""For the test of the bench."""

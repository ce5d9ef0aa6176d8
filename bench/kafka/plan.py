"""What is measured: sizes of events, ways to produce them, numbers of partitions."""

import msgspec


class Way(msgspec.Struct, frozen=True):
    """Client settings, and the share of events it gets, since some are slow."""

    name: str
    settings: dict[str, object]
    share: float = 1.0


DEFAULTS = Way("librdkafka's defaults", {})
SMALL_BATCHES = Way("batches of 16 KB", {"batch.size": 16384}, 0.6)
JAVA = Way("batches of 16 KB, idempotent", {"batch.size": 16384, "enable.idempotence": True}, 0.2)
SINGLE = Way("one event per request", {"batch.num.messages": 1}, 0.2)
ROUND_TRIPS = Way(
    "one event per request, one in flight", {"batch.num.messages": 1, "max.in.flight": 1}, 0.008
)
WAYS = (DEFAULTS, SMALL_BATCHES, JAVA, SINGLE, ROUND_TRIPS)
# librdkafka otherwise stays with one partition for 10 ms, and the others have nothing to do.
SPREAD = {"sticky.partitioning.linger.ms": 0}
TURN_S = 0.7
"""Target length of a producing turn in the comparison with peers."""


class Cell(msgspec.Struct, frozen=True):
    """One thing that is produced, and read again."""

    size: int
    way: Way
    partitions: int
    events: int

    @property
    def topic(self) -> str:
        """Its name, which ends in the number of partitions (the raw limit goes by that)."""
        return f"events-of-{self.size}-{self.partitions}"

    @property
    def settings(self) -> dict[str, object]:
        """Settings of the producer."""
        return self.way.settings | (SPREAD if self.partitions > 1 else {})


class Plan(msgspec.Struct, frozen=True):
    """How much is measured."""

    rounds: int
    cells: tuple[Cell, ...]
    fan_out: Cell
    readers: int
    pace: Cell
    rate: int
    seconds: int
    starts: int
    warm_ups: int = 0
    """Warm-up runs before the rounds that count."""


def _cells(
    events: dict[int, int], partitions: tuple[int, ...], ways: tuple[Way, ...] = WAYS
) -> tuple[Cell, ...]:
    return tuple(
        Cell(size, way, number, max(200, round(count * way.share)))
        for size, count in events.items()
        for way in ways
        for number in partitions
    )


FULL = Plan(
    rounds=3,
    cells=_cells({100: 250_000, 1000: 80_000}, (1, 100)),
    fan_out=Cell(1000, DEFAULTS, 1, 10_000),
    readers=50,
    pace=Cell(100, Way("one by one", {"linger.ms": 0}), 1, 0),
    rate=1000,
    seconds=4,
    starts=5,
)
# As turns of producing are bounded by time, a share is only what is read.
PEERS_WAYS = (
    DEFAULTS,
    msgspec.structs.replace(JAVA, share=1.0),
    msgspec.structs.replace(SINGLE, share=0.4),
    ROUND_TRIPS,
)
PEERS = msgspec.structs.replace(
    FULL,
    cells=_cells({100: 250_000, 1000: 80_000}, (1, 100), PEERS_WAYS),
    starts=3,
    warm_ups=2,
)
QUICK = msgspec.structs.replace(
    FULL,
    rounds=1,
    cells=_cells({1000: 1_000}, (3,)),
    fan_out=Cell(1000, DEFAULTS, 1, 500),
    readers=3,
    rate=200,
    seconds=1,
    starts=1,
)
QUICK_PEERS = msgspec.structs.replace(
    QUICK, cells=_cells({1000: 1_000}, (3,), (DEFAULTS, ROUND_TRIPS))
)

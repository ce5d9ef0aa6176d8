"""AMQP queues keep their guarantees in every simulated run, also with messages that must wait."""

import pytest
from tests.long_runs import LONG, seeds
from tests.simulation.lives import happened
from tests.simulation.simulation import simulate

ALWAYS = {"kill", "power cut", "leap", "full disk", "amqp: connection cut"}
HAPPENS = {
    "amqp": {
        "amqp: confirmed",
        "amqp: committed",
        "amqp: rolled back",
        "amqp: delivered",
        "amqp: redelivered",
        "amqp: ack",
        "amqp: ack multiple",
        "amqp: requeue",
        "amqp: requeue multiple",
        "amqp: reject",
        "amqp: reject multiple",
        "amqp: recover",
        "amqp: moved",
        "amqp: move rolled back",
        "amqp: channel closed",
        "amqp: channel refused",
        "amqp: blocked or unblocked",
    },
    "timed": {
        "time of day",
        "timed: delivered",
        "timed: redelivered",
        "timed: ack",
        "timed: requeue",
        "timed: reject",
        "timed: expired",
        "timed: rejected",
        "timed: dropped",
        "timed: retried",
        "timed: retried again",
        "timed: overtook",
        "timed: delayed",
    },
}
"""What there must be for it to mean something that nothing goes wrong, by cast."""


@pytest.mark.parametrize(
    ("cast", "numbers", "steps"),
    [
        ("amqp", seeds(0, 20, 5_000), 4_000 if LONG else 1_000),
        ("timed", seeds(0, 12, 3_000), 4_000 if LONG else 1_500),
    ],
)
def test_nothing_goes_wrong_in_any_life(cast: str, numbers: range, steps: int) -> None:
    deeds = happened(numbers, lambda seed: simulate(seed, casts=(cast, "queue"), steps=steps))

    assert {name for name in ALWAYS | HAPPENS[cast] if not deeds[name]} == set()


@pytest.mark.parametrize("cast", HAPPENS)
def test_a_seed_gives_the_same_life(cast: str) -> None:
    first, again, other = (simulate(seed, casts=(cast, "queue")).digest for seed in (5, 5, 6))

    assert first == again != other

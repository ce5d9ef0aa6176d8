"""Every promise is kept on every disk that a crash may leave behind.

At least 100,000 disks: 24 lives with 4,200 each, and what a second crash makes of them.
"""

from collections.abc import Callable
from random import Random

import pytest
from tests.faults.disk.crash_checks import (
    SYNCS_OF_A_CHECKPOINT,
    Trial,
    crash_after_two_checkpoints,
    crash_again,
    crash_and_go_on,
    crash_around_thinning,
    crash_everywhere,
)
from tests.faults.disk.random_workload import Life, born, fill_now_and_then, interrupt
from tests.long_runs import LONG, seeds

from mainstem.log.segments import index

STATES_PER_LIFE = 4_200


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "BLOCK_BYTES", 256)


Record = Callable[[str, object], None]
Check = Callable[[Trial, int], None]


@pytest.fixture
def check(record_property: Record) -> Check:
    """Fails unless a trial had enough states, and every promise was kept in each."""

    def check(trial: Trial, at_least: int) -> None:
        record_property("states", trial.states)
        assert not trial.failures, "\n".join(trial.failures[:10])
        assert trial.states >= at_least

    return check


def _undisturbed(life: Life) -> None:
    """Leave it as it is."""


def _others_append(life: Life) -> None:
    interrupt(life, chance=0.3)


def _often_full(life: Life) -> None:
    fill_now_and_then(life, chance=0.1)


@pytest.mark.parametrize(
    ("seed", "disturb", "deeds"),
    [
        *((seed, _undisturbed, 30) for seed in seeds(0, 12, 1_000)),
        *((seed, _others_append, 30) for seed in seeds(10_000, 6, 500)),
        *((seed, _often_full, 40) for seed in seeds(20_000, 6, 500)),
    ],
)
def test_every_promise_survives_a_crash_at_any_operation(
    seed: int, disturb: Callable[[Life], None], deeds: int, check: Check
) -> None:
    life = born(seed)
    disturb(life)
    life.live(deeds=deeds)
    assert life.refused or disturb is not _often_full

    trial = crash_everywhere(life, Random(seed), at_least=STATES_PER_LIFE)

    check(trial, STATES_PER_LIFE)


@pytest.mark.parametrize("seed", seeds(30_000, 6, 600))
def test_every_promise_survives_a_second_crash_in_or_after_recovery(
    seed: int, check: Check
) -> None:
    life = born(seed)
    if seed % 3 == 1:
        interrupt(life, chance=0.3)
    if seed % 3 == 2:
        fill_now_and_then(life, chance=0.1)
    life.live(deeds=20)

    trial = crash_again(life, Random(seed), share=0.02 if LONG else 0.008, deeds=4)

    check(trial, 500)


@pytest.mark.parametrize("seed", seeds(50_000, 4, 400))
def test_every_promise_survives_a_second_crash_after_large_appends(seed: int, check: Check) -> None:
    life = born(seed)
    life.live(deeds=20, often="append_large")

    trial = crash_and_go_on(life, Random(seed), share=0.05)

    check(trial, 50)


@pytest.mark.parametrize("seed", seeds(40_000, 2, 200))
def test_every_promise_survives_if_runs_are_for_several_partitions(seed: int, check: Check) -> None:
    life = born(seed)
    if seed % 2:
        fill_now_and_then(life, chance=0.1)
    life.live(deeds=10, often="append_runs")

    trial = crash_everywhere(life, Random(seed), at_least=600)

    check(trial, 600)


@pytest.mark.parametrize("deed", ["append", "append_large", "append_together", "cut_start"])
def test_every_promise_survives_what_is_done_at_any_sync_of_a_checkpoint(
    deed: str, record_property: Record
) -> None:
    failures, states = [], 0
    for number in range(1, SYNCS_OF_A_CHECKPOINT):
        trial = crash_after_two_checkpoints(number, deed)
        failures += trial.failures
        states += trial.states

    record_property("states", states)
    assert not failures, "\n".join(failures[:10])


@pytest.mark.parametrize("deed", [None, "append", "cut_start", "cut_end", "thin"])
def test_every_promise_survives_what_is_done_at_any_sync_of_thinning(
    deed: str | None, record_property: Record
) -> None:
    trials = [crash_around_thinning(seed, deed=deed) for seed in range(1, 8)]

    states = sum(trial.states for trial in trials)
    record_property("states", states)
    failures = [failure for trial in trials for failure in trial.failures]
    assert not failures, "\n".join(failures[:10])
    assert any(trial.thinned for trial in trials)
    assert states > 2_000

"""What a named subscriber may be sent per second, and how far its cursor may move."""

from hypothesis import given
from hypothesis import strategies as st

from mainstem.heads.nng.pace import Pace
from mainstem.heads.nng.progress import Progress

times = st.lists(st.integers(0, 300), min_size=1, max_size=200)


@given(rate=st.integers(1, 100_000), steps=times)
def test_in_no_time_more_is_sent_than_a_burst_and_the_rate(rate: int, steps: list[int]) -> None:
    pace, now, sent = Pace(rate), 1_000, list[tuple[int, int]]()
    allowed = pace.burst
    for step in steps:
        sent.append((now, allowed))
        pace.spend(allowed)
        now += step
        allowed = pace.granted(now)

    for first, (since, _) in enumerate(sent):
        total = 0
        for at, count in sent[first:]:
            total += count
            assert total <= pace.burst + rate * (at - since) / 1000 + 1


def test_the_rate_is_reached() -> None:
    pace, sent = Pace(1_000), 0
    allowed = pace.burst
    for now in range(0, 10_001, 7):
        sent += allowed
        pace.spend(allowed)
        allowed = pace.granted(now)

    assert 9_900 <= sent <= 10_100


def test_a_default_sub0_has_room_for_a_burst_and_a_tenth_of_a_second_at_the_default_rate() -> None:
    assert Pace(1_000).burst + 96 <= 128


def test_the_cursor_stays_behind_what_tcp_has_acknowledged() -> None:
    progress = Progress(repeat=2)
    progress.sent_header(8)
    for offset in range(5):
        progress.sent(0, offset, 100)

    progress.acknowledged(101)
    assert progress.take() == {0: 1}
    assert progress.is_open
    progress.acknowledged(100)
    assert progress.take() == {0: 2}
    progress.acknowledged(0)
    assert progress.take() == {0: 3}
    assert progress.take() == {}
    assert not progress.is_open


def test_every_partition_has_a_cursor_of_its_own() -> None:
    progress = Progress(repeat=1)
    for offset in range(3):
        for partition in range(2):
            progress.sent(partition, 10 * partition + offset, 50)

    progress.acknowledged(0)

    # Only the very last event is repeated.
    assert progress.take() == {0: 3, 1: 12}

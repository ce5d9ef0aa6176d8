"""A share group member: the order in which it sends acknowledgements."""

from mainstem.core.event import Event
from mainstem.remote.share_consumer import Unanswered


def at(partition: int, offset: int) -> Event:
    return Event(b"1", topic="orders", partition=partition, offset=offset)


def test_what_is_said_in_the_order_of_offsets_travels_together() -> None:
    unanswered = Unanswered()

    for offset in range(10):
        assert not unanswered.is_ahead_of([at(0, offset)])
        unanswered.said([at(0, offset)])


def test_what_is_said_behind_another_does_not_travel_with_it() -> None:
    unanswered = Unanswered()
    unanswered.said([at(0, 5), at(0, 7)])

    assert unanswered.is_ahead_of([at(0, 8), at(0, 6)])
    assert unanswered.is_ahead_of([at(0, 4)])
    assert not unanswered.is_ahead_of([at(1, 4)])


def test_what_was_answered_is_no_more_in_the_way() -> None:
    unanswered = Unanswered()
    unanswered.said([at(0, 5), at(0, 7)])

    unanswered.answered(0, {5})
    assert unanswered.is_ahead_of([at(0, 4)])

    unanswered.answered(1, {7})
    unanswered.answered(0, {7})
    assert not unanswered.is_ahead_of([at(0, 4)])

"""The receiving side of a feed over a network that loses, repeats and reorders packets."""

import random

import pytest
from tests.long_runs import seeds

from mainstem.client.feeds.reassembly import Ask, Message, Patience, Reassembly
from mainstem.core.errors import MessagesLost

PATIENCE = Patience(reorder_ms=5, wait_ms=50, max_wait_ms=400, give_up_ms=1000, max_ahead=1000)


def said(*numbers: int) -> list[Message]:
    return [Message(each, b"%d" % each) for each in numbers]


def data(first: int, end: int) -> list[bytes]:
    return [b"%d" % each for each in range(first, end)]


def new(start: int | None = 1, patience: Patience = PATIENCE) -> Reassembly:
    return Reassembly(start, patience)


def test_messages_that_arrive_in_order_are_ready_at_once() -> None:
    it = new()

    it.add(1, data(1, 4), 0)
    it.add(4, data(4, 5), 0)

    assert list(it.ready) == said(1, 2, 3, 4)
    assert it.due(1000) == []


def test_a_packet_that_was_overtaken_needs_no_request() -> None:
    it = new()

    it.add(3, data(3, 5), 0)
    assert it.due(4) == []
    it.add(1, data(1, 3), 4)

    assert list(it.ready) == said(1, 2, 3, 4)
    assert (it.reordered, it.due(1000)) == (2, [])


def test_a_gap_is_requested_again_and_again_with_growing_waits_up_to_a_limit() -> None:
    it = new()
    it.add(1, data(1, 3), 0)
    it.add(5, data(5, 6), 0)

    times = [now for now in range(1000) if it.due(now) == [Ask(3, 2)]]

    assert times == [5, 55, 155, 355, 755]


def test_an_answer_that_was_full_is_followed_by_a_request_for_the_rest() -> None:
    it = new()
    it.announce(61, 0)
    assert it.due(5) == [Ask(1, 60)]

    it.add(1, data(1, 21), 7, requested=True)

    assert list(it.ready) == said(*range(1, 21))
    # No more than fit into the packet before.
    assert it.due(7) == [Ask(21, 20), Ask(41, 20)]


def test_a_heartbeat_shows_that_the_last_messages_were_lost() -> None:
    it = new()
    it.add(1, data(1, 3), 0)

    it.announce(4, 100)

    assert it.due(105) == [Ask(3, 1)]


def test_who_joins_late_asks_for_what_was_before() -> None:
    it = new(start=1)
    it.add(9, data(9, 10), 0)

    assert it.due(5) == [Ask(1, 8)]


def test_who_joins_now_begins_with_what_comes_next() -> None:
    it = new(start=None)
    it.add(9, data(9, 10), 0)

    assert list(it.ready) == said(9)
    assert it.due(1000) == []


def test_the_same_packet_from_two_groups_is_delivered_once() -> None:
    it = new()
    for _ in range(2):
        it.add(1, data(1, 3), 0)
        it.add(4, data(4, 6), 0)
    it.add(3, data(3, 4), 1)

    assert list(it.ready) == said(1, 2, 3, 4, 5)
    assert it.duplicates == 4


def test_what_is_too_far_ahead_is_not_held() -> None:
    it = new()
    it.add(2, data(2, 3), 0)

    for sequence in range(3, 100_000):
        it.add(sequence, data(sequence, sequence + 1), 0)

    assert len(it._held) <= PATIENCE.max_ahead
    it.add(1, data(1, 2), 1)
    assert it.next == PATIENCE.max_ahead + 1
    assert it.due(10) == []
    assert it.due(15)[0].sequence == PATIENCE.max_ahead + 1


def test_only_so_many_requests_are_open_at_a_time() -> None:
    it = new()
    it.announce(100_000, 0)

    asked = [each for now in range(5, 55) for each in it.due(now)]

    assert len(asked) == PATIENCE.max_requests


def test_who_is_never_answered_is_told_what_is_lost_and_can_go_on() -> None:
    it = new()
    it.session = "S1"
    it.add(2, data(2, 3), 0)

    for now in range(5, 1005):
        it.due(now)
    with pytest.raises(MessagesLost, match="messages 1 to 1 of session S1 did not arrive"):
        it.due(3000)
    lost = it.skip()

    assert lost == (1, 1)
    assert list(it.ready) == said(2)
    assert it.lost == 1


def test_a_session_is_complete_when_it_has_ended_and_nothing_is_missing() -> None:
    it = new()
    it.add(1, data(1, 2), 0)
    it.announce(3, 0, is_end=True)
    assert not it.is_complete

    it.add(2, data(2, 3), 0)

    assert it.is_complete


@pytest.mark.parametrize("seed", seeds(0, 30, 3_000))
def test_every_message_is_delivered_once_and_in_order_whatever_happens_to_packets(
    seed: int,
) -> None:
    chance = random.Random(seed)
    count = chance.randrange(1, 3000)
    it = new(patience=Patience(max_ahead=chance.choice([50, 1000]), give_up_ms=None))
    network: list[tuple[float, int, int, bool]] = []
    """When a packet arrives, its first message and the end of its messages; if it is an answer."""
    delivered: list[Message] = []

    def send(first: int, end: int, now: float, *, requested: bool = False) -> None:
        copies = chance.choices([0, 1, 2], [10, 80, 10])[0]
        network.extend(
            (now + chance.expovariate(0.3), first, end, requested) for _ in range(copies)
        )

    first, now = 1, 0.0
    while not it.is_complete:
        now += 1
        assert now < 1_000_000, it.next
        end = min(count + 1, first + chance.randrange(1, 40))
        if first <= count:
            send(first, end, now)
            first = end
        if now % 50 == 0:
            it.announce(first, now, is_end=first > count)
        # An answer has as much as fits into a packet.
        for ask in it.due(now):
            send(ask.sequence, ask.sequence + min(ask.count, 30), now, requested=True)
        for arrived in sorted(each for each in network if each[0] <= now):
            network.remove(arrived)
            it.add(arrived[1], data(*arrived[1:3]), now, requested=arrived[3])
        while it.ready:
            delivered.append(it.ready.popleft())

    assert delivered == said(*range(1, count + 1))

"""The checker finds every kind of anomaly, and none in a correct history."""

from random import Random

import pytest
from tests.checker.anomalies import ALLOWED, Anomaly, Kind, check, forbidden
from tests.checker.corruption import CORRUPTIONS, Corrupted, corrupted
from tests.checker.history import History, Moved, Operation, Outcome, Place, Read, Sent
from tests.checker.perfect_histories import Ideal

P: Place = ("t", 0)
Q: Place = ("t", 1)
OK, ABORTED, UNKNOWN = Outcome.OK, Outcome.ABORTED, Outcome.UNKNOWN


def read(*offsets: int, process: str = "reader", place: Place = P) -> Operation:
    """Return a poll of events that are named after their offsets."""
    return Operation(process, OK, tuple(Read(place, str(each), each) for each in offsets))


def sent(*offsets: int, process: str = "sender", outcome: Outcome = OK) -> Operation:
    """Return a transaction that has sent such events."""
    return Operation(process, outcome, tuple(Sent(P, str(each), each) for each in offsets))


def kinds(history: History) -> set[Kind]:
    return {each.kind for each in check(history)}


def test_what_was_sent_and_read_in_order_is_no_anomaly() -> None:
    assert check([sent(0, 1), sent(3), read(0), read(1, 3)]) == []


def test_an_acknowledged_event_that_nobody_reads_is_lost() -> None:
    assert kinds([sent(0, 1), read(0)]) == {Kind.LOST_WRITE}


def test_an_unknown_transaction_may_be_seen_not_at_all() -> None:
    assert check([sent(0, 1, outcome=UNKNOWN), sent(3), read(3)]) == []


def test_an_unknown_transaction_that_is_seen_in_part_has_lost_the_rest() -> None:
    assert kinds([sent(0, 1, outcome=UNKNOWN), read(0)]) == {Kind.LOST_WRITE}


def test_an_event_at_two_offsets_is_a_duplicate() -> None:
    history = [sent(0), Operation("reader", OK, (Read(P, "0", 0), Read(P, "0", 1)))]

    assert kinds(history) == {Kind.DUPLICATE}


def test_two_events_at_one_offset_are_inconsistent() -> None:
    sends = Operation("sender", OK, (Sent(P, "a"), Sent(P, "b")))
    reads = [Operation(name, OK, (Read(P, name, 0),)) for name in "ab"]

    assert Kind.INCONSISTENT_OFFSETS in kinds([sends, *reads])


def test_an_event_that_nobody_has_sent_is_unexpected() -> None:
    assert kinds([read(0)]) == {Kind.UNEXPECTED}


def test_an_aborted_event_that_is_read_is_an_anomaly() -> None:
    assert kinds([sent(0, outcome=ABORTED), read(0)]) == {Kind.ABORTED_READ}


def test_a_transaction_does_not_read_what_it_sends() -> None:
    history = [Operation("worker", OK, (Sent(P, "0", 0), Read(P, "0", 0)))]

    assert kinds(history) == {Kind.PRECOMMITTED_READ}


def test_a_poll_leaves_nothing_out() -> None:
    assert kinds([sent(0, 1, 2), read(0, 2), read(1, process="other")]) == {Kind.INTERNAL_POLL_SKIP}


def test_a_consumer_leaves_nothing_out_between_polls() -> None:
    history = [sent(0, 1, 2), read(0), read(2), read(1, process="other")]

    assert kinds(history) == {Kind.POLL_SKIP}


def test_a_poll_does_not_go_back() -> None:
    assert kinds([sent(0, 1), read(1, 0)]) == {Kind.INTERNAL_NONMONOTONIC_POLL}


@pytest.mark.parametrize("again", [0, 1])
def test_a_consumer_does_not_go_back_between_polls(again: int) -> None:
    assert kinds([sent(0, 1), read(0, 1), read(again)]) == {Kind.NONMONOTONIC_POLL}


def test_a_consumer_that_seeks_may_go_back_and_leave_out() -> None:
    moved = Moved("reader", (P,))

    assert check([sent(0, 1, 2), read(0), moved, read(2), moved, read(0, 1, 2)]) == []


def test_one_that_seeks_in_another_partition_may_not() -> None:
    moved = [Moved("reader", (Q,)), Moved("other", (P,))]

    assert kinds([sent(0, 1), read(0, 1), *moved, read(0)]) == {Kind.NONMONOTONIC_POLL}


def test_what_a_producer_sends_keeps_its_order() -> None:
    assert kinds([sent(1), sent(0), read(0, 1)]) == {Kind.NONMONOTONIC_SEND}
    assert check([sent(1), sent(0, process="other"), read(0, 1)]) == []


def test_a_group_processes_each_event_once() -> None:
    inputs = [sent(0, 1), read(0, 1)]
    work = [Operation("worker", OK, (Read(P, "0", 0),), group="g")]
    rest = [Operation("worker", OK, (Read(P, "1", 1),), group="g")]
    other = [Operation("other", OK, (Read(P, "0", 0),), group="g")]

    assert check([*inputs, *work, *rest]) == []
    assert kinds([*inputs, *work, *other]) == {Kind.PROCESSED_TWICE}
    assert kinds([*inputs, *rest]) == {Kind.PROCESSED_NEVER}


def test_transactions_whose_writes_are_in_a_circle_are_found_and_allowed() -> None:
    one = Operation("one", OK, (Sent(P, "a", 0), Sent(Q, "b", 1)))
    two = Operation("two", OK, (Sent(P, "c", 1), Sent(Q, "d", 0)))
    last = Operation("last", OK, (Read(P, "a", 0), Read(P, "c", 1), Read(Q, "d", 0)))
    rest = Operation("last", OK, (Read(Q, "b", 1),))

    found = check([one, two, last, rest])

    assert [each.kind for each in found] == [Kind.G0]
    assert forbidden(found) == []


def test_one_that_began_after_another_had_ended_writes_after_it() -> None:
    late = Operation("late", OK, (Sent(P, "0", 0),), began=3, ended=4)
    early = Operation("early", OK, (Sent(P, "1", 1),), began=1, ended=2)

    assert kinds([early, late, read(0, 1)]) == {Kind.G0_IN_TIME}


def test_transactions_that_read_from_one_another_are_a_circle() -> None:
    one = Operation("one", OK, (Sent(P, "a", 0), Read(Q, "b", 0)))
    two = Operation("two", OK, (Sent(Q, "b", 0), Read(P, "a", 0)))

    assert kinds([one, two]) == {Kind.G1C}


@pytest.mark.parametrize("seed", range(8))
def test_a_perfect_log_has_no_anomaly(seed: int) -> None:
    assert check(Ideal(seed).live(120)) == []


def test_there_is_a_corruption_for_every_kind() -> None:
    assert CORRUPTIONS.keys() == set(Kind)


@pytest.mark.parametrize("kind", Kind)
def test_a_history_that_is_corrupted_has_an_anomaly(kind: Kind) -> None:
    for seed in range(8):
        found = check(corrupted(Ideal(seed).live(120), kind, seed))

        assert kind in {each.kind for each in found}, f"seed {seed}"


def test_what_is_allowed_is_only_the_order_of_writes() -> None:
    assert {Kind.G0} == ALLOWED
    assert forbidden([Anomaly(Kind.G0, ""), Anomaly(Kind.G1C, "")]) == [Anomaly(Kind.G1C, "")]


def test_what_cannot_be_corrupted_says_so() -> None:
    it = Corrupted([sent(0)], Random(0))

    with pytest.raises(ValueError, match="no operation"):
        it.find(lambda each: bool(each.read))

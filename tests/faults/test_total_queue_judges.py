"""The queue checker: what it reports as lost, unexpected or duplicated."""

from tests.faults.queue_checker import NOTHING_WRONG, TotalQueue, Verdict


def judged(*deeds: tuple[str, int]) -> Verdict:
    queue = TotalQueue()
    for deed, number in deeds:
        queue.note(deed, number)
    return queue.verdict()


def test_what_is_put_in_taken_and_done_once_is_right() -> None:
    assert judged(("attempted", 1), ("acknowledged", 1), ("took", 1), ("done", 1)) == Verdict()


def test_what_was_never_acknowledged_may_be_missing_or_there() -> None:
    assert judged(("attempted", 1)) == Verdict()
    assert judged(("attempted", 1), ("took", 1), ("done", 1)) == Verdict()


def test_what_was_acknowledged_and_not_worked_on_is_lost() -> None:
    assert judged(("attempted", 1), ("acknowledged", 1), ("took", 1)).lost == (1,)


def test_what_nobody_put_in_is_unexpected() -> None:
    assert judged(("took", 7), ("done", 7)).unexpected == (7,)


def test_what_is_done_twice_is_duplicated_and_what_is_taken_twice_redelivered() -> None:
    begun = [("attempted", 1), ("acknowledged", 1), ("took", 1)]

    assert judged(*begun, ("done", 1), ("took", 1), ("done", 1)).duplicated == (1,)
    again = judged(*begun, ("took", 1), ("done", 1))
    assert (again.wrong, again.redelivered) == (NOTHING_WRONG, 1)


def test_what_is_in_doubt_is_not_lost() -> None:
    verdict = judged(("attempted", 1), ("acknowledged", 1), ("took", 1), ("doubt", 1))

    assert (verdict.lost, verdict.in_doubt) == ((), 1)


def test_what_is_given_back_must_come_again() -> None:
    begun = [("attempted", 1), ("acknowledged", 1), ("took", 1), ("gave back", 1)]

    assert judged(*begun).lost == (1,)
    assert judged(*begun, ("took", 1), ("done", 1)).wrong == NOTHING_WRONG

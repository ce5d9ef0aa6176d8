"""Duties: granted at once on a single node, to one holder at a time."""

from tests.broker.brokers import new_broker


def test_a_duty_is_held_at_once() -> None:
    assert new_broker().duties.hold("shop/postgres", lambda: None).is_held


def test_duties_of_other_names_are_apart() -> None:
    duties = new_broker().duties

    assert duties.hold("a", lambda: None).is_held
    assert duties.hold("b", lambda: None).is_held


def test_who_waits_longest_has_it_next_and_hears_of_it() -> None:
    duties, heard = new_broker().duties, list[str]()
    first, second, third = (
        duties.hold("a", lambda name=name: heard.append(name))  # type: ignore[misc]
        for name in ("first", "second", "third")
    )
    assert [each.is_held for each in (first, second, third)] == [True, False, False]

    second.release()
    assert not heard
    first.release()

    assert [each.is_held for each in (first, second, third)] == [False, False, True]
    assert heard == ["third"]


def test_a_release_counts_once() -> None:
    duties = new_broker().duties
    first = duties.hold("a", lambda: None)
    first.release()
    second = duties.hold("a", lambda: None)

    first.release()

    assert second.is_held
    second.release()
    assert duties.hold("a", lambda: None).is_held

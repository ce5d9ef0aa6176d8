"""Dead letters keep the original event, also one that was a dead letter before."""

from hypothesis import given
from hypothesis import strategies as st

from mainstem.core.dead_letters import Origin, buried, origin_of, revived, topic_of
from mainstem.core.event import Event
from mainstem.core.names import MAX_TOPIC_LENGTH, check_topic

PIPELINE = (
    ("mainstem-reason", b"not JSON"),
    ("mainstem-table", b"totals"),
    ("mainstem-topic", b"orders"),
    ("mainstem-partition", b"2"),
    ("mainstem-offset", b"7"),
    ("mainstem-timestamp-ms", b"77"),
)
names = st.sampled_from(
    ["own", "mainstem-own", "mainstem-topic", "mainstem-reason", "mainstem-table"]
) | st.text(max_size=5)
headers = st.lists(st.tuples(names, st.none() | st.binary(max_size=5)), max_size=6).map(tuple)


@given(headers, st.integers(1, 3))
def test_an_event_comes_back_with_all_headers_it_had_however_often_it_died(
    own: tuple[tuple[str, bytes | None], ...], times: int
) -> None:
    event = Event(b"value", b"key", own)

    letter, topics = event, [f"orders{'.dead' * number}" for number in range(times)]
    for topic in topics:
        letter = buried(Event(letter.value, letter.key, letter.headers, 5, topic, 1, 3), "s", 2, "")

    for topic in reversed(topics):
        assert origin_of(letter) == Origin(topic, 1, 3, 5, "s", 2, "")
        letter = revived(letter)
    assert letter == event


def test_the_letters_of_pipelines_and_of_queues_are_told_apart() -> None:
    of_table = Event(b"x", None, (("own", b"1"), *PIPELINE))
    of_both = buried(Event(b"x", None, of_table.headers, 5, "orders.dead", 0, 3), "s", 2, "no")

    assert origin_of(of_table) == Origin("orders", 2, 7, 77, "totals", 1, "not JSON")
    assert revived(of_table) == Event(b"x", None, (("own", b"1"),))
    assert origin_of(of_both) == Origin("orders.dead", 0, 3, 5, "s", 2, "no")
    assert revived(of_both) == of_table
    again = Event(b"x", None, of_both.headers + PIPELINE)
    assert origin_of(again) == origin_of(of_table)
    assert revived(again) == of_both


def test_what_tells_no_whole_story_is_left_as_it_is() -> None:
    event = Event(b"x", None, (("mainstem-reason", b"mine"), ("mainstem-topic", b"orders")))

    assert origin_of(event) is None
    assert revived(event) == event


def test_every_topic_has_dead_letters_of_its_own_however_long_its_name_is() -> None:
    topics = ["x" * length + end for length in range(1, MAX_TOPIC_LENGTH) for end in "yz"]

    found = [topic_of(topic) for topic in topics]

    assert len({*found}) == len(topics)
    for topic, name in zip(topics, found, strict=True):
        check_topic(name)
        assert name.endswith(".dead")
        assert name == f"{topic}.dead" or len(topic) > MAX_TOPIC_LENGTH - len(".dead")


def test_the_dead_letters_of_a_long_name_are_found_by_later_versions_too() -> None:
    assert topic_of("x" * 244) == f"{'x' * 244}.dead"
    assert topic_of("x" * 245) == f"{'x' * 227}-becad1fd31bd361e.dead"

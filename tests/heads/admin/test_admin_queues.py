"""The pages about queues: what they show, within which bounds, and what they refuse."""

import json
from base64 import b64decode
from collections.abc import Iterator

import pytest
from tests.heads.admin.web import Page, get
from tests.in_process_server import server

from mainstem.broker.broker import Broker
from mainstem.core.event import Event, Position
from mainstem.core.topic_settings import TopicSettings
from mainstem.node.queue_peek import NotYet, QueuePeek
from mainstem.node.server import Running


@pytest.fixture(scope="module")
def served() -> Iterator[Running]:
    with server(None) as found:
        broker = found.node.broker
        broker.create_topic("orders", TopicSettings(partitions=2)).durable.wait()
        for number in range(2000):
            publish(broker, Event(b"%d" % number), number % 2)
        broker.queues.create("orders", "emails é&").wait()
        yield found


def publish(broker: Broker, event: Event, partition: int) -> None:
    broker.publish("orders", [event], partition).durable.wait()


def events(served: Running, query: str) -> Page:
    return get(str(served.admin), f"/queues/events?{query}")


QUEUE = "topic=orders&queue=emails+%C3%A9%26"


def test_the_first_events_are_shown_and_those_after_one(served: Running) -> None:
    first = json.loads(events(served, QUEUE).text)
    later = json.loads(events(served, f"{QUEUE}&limit=2&after=0:998").text)

    assert [each["offset"] for each in first] == list(range(10))
    assert b64decode(first[1]["value"]) == b"2"
    assert [(each["partition"], each["offset"]) for each in later] == [(0, 999), (1, 0)]


def test_as_many_as_are_asked_for_are_shown(served: Running) -> None:
    page = events(served, f"{QUEUE}&limit=1000")

    assert page.headers["content-type"] == "application/json"
    assert len(json.loads(page.text)) == 1000


REFUSED = {
    "no names": ("", 400),
    "no queue": ("topic=orders", 400),
    "an empty topic": ("topic=&queue=q", 400),
    "a topic said twice": ("topic=a&topic=b&queue=q", 400),
    "limit 0": (f"{QUEUE}&limit=0", 400),
    "limit 1001": (f"{QUEUE}&limit=1001", 400),
    "a limit of 5,000 digits": (f"{QUEUE}&limit={'9' * 5000}", 400),
    "a limit of 10,000 digits": (f"{QUEUE}&limit={'9' * 10_000}", 414),
    "a limit in other digits": (f"{QUEUE}&limit=%D9%A3", 400),
    "no limit": (f"{QUEUE}&limit=", 400),
    "after nothing": (f"{QUEUE}&after=", 400),
    "after something negative": (f"{QUEUE}&after=-1:0", 400),
    "after one number": (f"{QUEUE}&after=7", 400),
    "after a large number": (f"{QUEUE}&after=0:{'9' * 30}", 400),
    "bytes that are no text": ("topic=%FF&queue=q", 400),
    "many fields": ("&".join(f"a{number}=1" for number in range(100)), 400),
    "an unknown topic": ("topic=nothing&queue=q", 404),
    "an unknown queue": ("topic=orders&queue=nobody", 404),
    "a path": ("topic=../../etc/passwd&queue=q", 404),
    "line ends": ("topic=a%0d%0aX:y&queue=q", 404),
    "another run": (f"{QUEUE}&run=0123", 421),
}


@pytest.mark.parametrize(("query", "status"), REFUSED.values(), ids=REFUSED.keys())
def test_what_means_nothing_is_refused_with_a_sentence(
    served: Running, query: str, status: int
) -> None:
    page = events(served, query)

    assert page.status == status
    assert len(page.text.split()) >= 4
    assert len(page.text) < 1000
    assert "x" not in {name.lower() for name in page.headers}
    assert get(str(served.admin)).status == 200


def test_a_position_past_everything_is_followed_by_nothing(served: Running) -> None:
    assert events(served, f"{QUEUE}&after=9999999999:9999999999999999999").text == "[]"


def test_a_page_has_no_more_bytes_than_it_may_and_one_event_at_least(served: Running) -> None:
    broker = served.node.broker
    start = broker.bounds("orders", 1).tail
    for _ in range(3):
        publish(broker, Event(b"x" * 5000, headers=(("a", b"y" * 1000),)), 1)
    after = Position(1, start - 1)

    for max_bytes, count in ((1, 1), (7000, 1), (13_000, 2), (100_000, 3)):
        peeking = QueuePeek(max_bytes=max_bytes)
        peeking.node = served.node
        found = json.loads(peeking.page("orders", "emails é&", 1000, after))
        assert len(found) == count


def test_a_server_that_is_starting_shows_nothing_yet() -> None:
    with pytest.raises(NotYet):
        QueuePeek().page("orders", "emails", 1, None)

"""Following topics of a server while others change them, or it is away for a moment."""

from collections.abc import Iterable, Iterator

import pytest

import mainstem
from mainstem.client.connected_feed import ConnectedFeed
from mainstem.client.wish import Wish
from mainstem.core.event import Event
from mainstem.remote.administering import Administration, Described
from mainstem.remote.link import Link

PATIENCE = 300
"""How often events are asked for before they are given up."""


@pytest.fixture
def other(kafka: str) -> Iterator[mainstem.ConnectedStem]:
    """Somebody else."""
    with mainstem.connect(kafka) as stem:
        yield stem


def first(feed: ConnectedFeed) -> Event:
    for _ in range(PATIENCE):
        if events := feed.take(1, 0.1):
            return events[0]
    raise AssertionError("no event came")


class Raced(Administration):
    """Somebody deletes a topic just after it was seen."""

    other: mainstem.ConnectedStem

    def describe(self, topics: Iterable[str]) -> dict[str, Described]:
        found = super().describe(topics)
        if "raced.gone" in found:
            self.other.topics.delete("raced.gone")
        return found


def test_topics_of_a_pattern_are_read_also_if_others_go_meanwhile(
    kafka: str, other: mainstem.ConnectedStem
) -> None:
    administration = Raced(Link(kafka, timeout_s=30, settings={}))
    administration.other = other
    feed = ConnectedFeed(administration, Wish(topics=("raced.*",)))
    for name in ("raced.gone", "raced.new"):
        other.topics.create(name, partitions=1)
        other.publish(name, 1)

    event = first(feed)

    assert event.topic == "raced.new"
    assert feed.assignment == (("raced.new", 0),)
    feed.close(finished=True)
    administration.close()

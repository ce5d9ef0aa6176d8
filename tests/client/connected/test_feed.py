"""Following topics of a server while they change, or while it is briefly unreachable."""

import signal
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from tests.faults.killable_server import Mortal

import mainstem
from mainstem.client.connected.feed import ConnectedFeed
from mainstem.client.subscription import SubscriptionOptions
from mainstem.core.errors import Unreachable
from mainstem.core.event import Event
from mainstem.remote.admin import Admin, Described
from mainstem.remote.cluster import Cluster

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


class Raced(Admin):
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
    administration = Raced(Cluster(kafka, timeout_s=30, settings={}))
    administration.other = other
    feed = ConnectedFeed(administration, SubscriptionOptions(topics=("raced.*",)))
    for name in ("raced.gone", "raced.new"):
        other.topics.create(name, partitions=1)
        other.publish(name, 1)

    event = first(feed)

    assert event.topic == "raced.new"
    assert feed.assignment == (("raced.new", 0),)
    feed.close(finished=True)
    administration.close()


class Away(Admin):
    """Has no answer for a moment, as while its server starts again."""

    failures = 0

    def describe(self, topics: Iterable[str]) -> dict[str, Described]:
        if self.failures:
            self.failures -= 1
            raise Unreachable(self.cluster.address, "for a moment")
        return super().describe(topics)


def test_who_follows_does_not_end_if_the_server_is_away_for_a_moment(
    kafka: str, other: mainstem.ConnectedStem
) -> None:
    other.topics.create("away", partitions=1)
    administration = Away(Cluster(kafka, timeout_s=30, settings={}))
    feed = ConnectedFeed(administration, SubscriptionOptions(topics=("away",)))
    administration.failures = 1
    other.topics.alter("away", partitions=2)
    other.publish("away", 1, partition=1)

    event = first(feed)

    assert event.partition == 1
    feed.close(finished=True)
    administration.close()


def test_who_follows_is_told_that_the_server_does_not_answer(tmp_path: Path) -> None:
    with Mortal(tmp_path / "data") as server, mainstem.connect(server.address) as stem:
        stem.topics.create("stalled", partitions=1)
        administration = Admin(Cluster(server.address, timeout_s=1, settings={}))
        feed = ConnectedFeed(administration, SubscriptionOptions(topics=("stalled",)))

        server.tell(signal.SIGSTOP)

        with pytest.raises(Unreachable):
            first(feed)
        server.tell(signal.SIGCONT)
        feed.close(finished=True)
        administration.close()

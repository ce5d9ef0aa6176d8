"""Deleting share groups, or their offsets, on a full disk: all or nothing."""

from collections.abc import Callable

import pytest
from tests.faults.disk.disk_steps import allow, full_after, killed, opened
from tests.faults.disk.simulated_disk import SimFiles

from mainstem.broker.broker import Broker
from mainstem.core.errors import StorageFull
from mainstem.core.topic_settings import TopicSettings
from mainstem.log.port import Durable

TOPICS = ("a", "b", "c", "d")
GROUP = "emails"
Change = Callable[[Broker], Durable]


class Place:
    """A broker on a simulated disk, with a group that shares several topics."""

    def __init__(self) -> None:
        self.files = SimFiles()
        self.log = opened(self.files)
        self.broker = Broker(self.log, lambda: 0)
        for topic in TOPICS:
            # So many that what is written of one topic takes more room than is left over.
            self.broker.create_topic(topic, TopicSettings(partitions=50))
            for name in (GROUP, "others"):
                self.broker.queues.create(topic, name)
        self.log.committer.commit()

    def restarted(self) -> Broker:
        """Return the broker that kill -9 and a start leave."""
        return Broker(opened(killed(self.files)), lambda: 0)


def shared(broker: Broker, name: str = GROUP) -> set[str]:
    """Return the topics that a group has."""
    return {each.topic for each in broker.queues.every(name)}


@pytest.mark.parametrize(
    ("change", "left"),
    [
        (lambda broker: broker.share.delete(GROUP), set()),
        (lambda broker: broker.share.forget(GROUP, ["a", "b", "none", "c"])[0], {"d"}),
    ],
    ids=["delete", "forget"],
)
def test_on_a_full_disk_a_group_forgets_all_it_should_or_nothing(
    change: Change, left: set[str]
) -> None:
    outcomes = set()
    for steps in range(1_000):
        place = Place()
        refused = full_after(place.files, steps)

        try:
            change(place.broker)
            is_done = True
        except StorageFull:
            is_done = False
        place.log.committer.commit()

        expected = left if is_done else {*TOPICS}
        assert shared(place.broker) == shared(place.restarted()) == expected, steps
        assert shared(place.broker, "others") == {*TOPICS}
        outcomes.add(is_done)
        if not is_done:
            allow(place.files)
            change(place.broker)
            place.log.committer.commit()
            assert shared(place.broker) == shared(place.restarted()) == left, steps
        if not refused:
            break
    assert outcomes == {True, False}

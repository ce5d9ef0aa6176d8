"""Groups that are deleted on a disk that is full: all that was kept of them goes, or nothing."""

from tests.broker.brokers import Clock
from tests.broker.consumers import Room
from tests.faults.disks import allow, full_after, killed, opened
from tests.faults.simdisk import SimFiles

from mainstem.broker.broker import Broker
from mainstem.broker.consumer_group_fold import NOTHING
from mainstem.broker.consumer_heartbeat import Heartbeat
from mainstem.core.errors import StorageFull
from mainstem.core.policies import TopicSettings

GROUP = "g"
PARTITIONS = 200
"""So many that what is written of their cursors takes more room than is left over."""


class Place:
    """A broker on a simulated disk, and a group that had members of both protocols."""

    def __init__(self) -> None:
        self.files = SimFiles()
        self.log = opened(self.files)
        clock = Clock()
        self.broker = Broker(self.log, clock)
        self.broker.create_topic("t", TopicSettings(partitions=PARTITIONS))
        room = Room(self.broker, clock)
        joining = room.join()
        self.log.committer.commit()
        room.leave(joining.answer)
        self.broker.consumers.heartbeat(
            Heartbeat(
                group=GROUP,
                member_id="ann",
                epoch=0,
                rebalance_timeout_ms=60_000,
                names=("t",),
                owned=NOTHING,
            )
        )
        self.broker.consumers.leave(GROUP, "ann", None)
        self.broker.commit(GROUP, {("t", each): 7 for each in range(PARTITIONS)})
        self.log.committer.commit()

    def restarted(self) -> Broker:
        """Return the broker that kill -9 and a start leave."""
        return Broker(opened(killed(self.files)), lambda: 0)


def kept(broker: Broker) -> tuple[int, bool, bool]:
    """Return what there is of the group: cursors, a classic generation, a consumer group."""
    return (
        len(broker.committed(GROUP)),
        GROUP in broker.classic.generations,
        GROUP in broker.consumers,
    )


def test_on_a_full_disk_a_group_is_deleted_altogether_or_not_at_all() -> None:
    outcomes = set()
    for steps in range(1_000):
        place = Place()
        assert kept(place.broker) == (PARTITIONS, True, True)
        refused = full_after(place.files, steps)

        try:
            place.broker.classic.delete(GROUP)
            is_done = True
        except StorageFull:
            is_done = False
        place.log.committer.commit()

        expected = (0, False, False) if is_done else (PARTITIONS, True, True)
        assert kept(place.broker) == kept(place.restarted()) == expected, steps
        outcomes.add(is_done)
        if not is_done:
            allow(place.files)
            place.broker.classic.delete(GROUP)
            place.log.committer.commit()
            assert kept(place.broker) == kept(place.restarted()) == (0, False, False), steps
        if not refused:
            break
    assert outcomes == {True, False}

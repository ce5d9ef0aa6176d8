"""ListOffsets sent to leaders gives the same results as librdkafka."""

from collections.abc import Iterator

import pytest
from tests.in_process_server import serving

import mainstem
from mainstem.core.errors import Unreachable
from mainstem.remote.admin import Admin
from mainstem.remote.cluster import Cluster
from mainstem.remote.leaders import Leaders
from mainstem.remote.list_offsets import list_offsets

PLACES = [("orders", 0), ("orders", 1), ("payments", 0)]
BEGIN, END = -2, -1


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with serving(None) as address:
        with mainstem.connect(address) as stem:
            stem.topics.create("orders", partitions=2)
            stem.topics.create("payments", partitions=1)
            for number in range(10):
                event = mainstem.Event(b"x", timestamp_ms=1000 * number)
                stem.publish_many("orders", [event], partition=number % 2)
        yield Cluster(address, timeout_s=30, settings={})


def test_begin_end_and_times_are_those_that_librdkafka_tells(cluster: Cluster) -> None:
    administration, leaders = Admin(cluster), Leaders(cluster)

    starts, tails, times = list_offsets(
        leaders,
        dict.fromkeys(PLACES, BEGIN),
        dict.fromkeys(PLACES, END),
        dict.fromkeys(PLACES, 5000),
    )
    leaders.close()

    bounds = administration.bounds(PLACES, committed=True)
    assert {place: each[0] for place, each in starts.items()} == dict.fromkeys(PLACES, 0)
    assert {place: each[0] for place, each in tails.items()} == {
        place: each.tail for place, each in bounds.items()
    }
    assert {place: None if at < 0 else at for place, (at, _) in times.items()} == (
        administration.at_time(PLACES, 5000)
    )


def test_a_partition_that_is_not_there_is_told(cluster: Cluster) -> None:
    leaders = Leaders(cluster)

    with pytest.raises(Unreachable):
        list_offsets(leaders, {("orders", 7): END})
    leaders.close()

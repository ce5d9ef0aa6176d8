"""Reading partitions when a request to the server fails in between."""

from collections.abc import Iterator, Mapping

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from tests.in_process_server import serving

import mainstem
from mainstem.core.errors import Unreachable
from mainstem.remote.admin import Place
from mainstem.remote.cluster import Cluster
from mainstem.remote.consumer import Begin, RemoteConsumer

PATIENCE = 300
"""How often events are asked for before they are given up."""


@pytest.fixture
def address() -> Iterator[str]:
    with serving(None) as found:
        with mainstem.connect(found) as stem:
            stem.topics.create("orders", partitions=2)
            for number in range(2):
                stem.publish_many("orders", range(10), partition=number)
        yield found


def consuming(address: str, *, group: str | None = None, begin: Begin) -> RemoteConsumer:
    cluster = Cluster(address, timeout_s=30, settings={})
    return RemoteConsumer(cluster, group=group, begin=begin, limits=None, commits=False)


def take(consuming: RemoteConsumer, count: int) -> tuple[list[tuple[int, int]], list[Exception]]:
    """Return where so many events stand that came, and the errors meanwhile."""
    found: list[tuple[int, int]] = []
    errors: list[Exception] = []
    for _ in range(PATIENCE):
        if len(found) >= count:
            break
        try:
            found += [(each.partition, each.offset) for each in consuming.take(100, 0.1)]
        except Unreachable as error:
            errors.append(error)
    return sorted(found), errors


def everything(partition: int) -> list[tuple[int, int]]:
    return [(partition, offset) for offset in range(10)]


def test_partitions_where_it_was_not_known_where_to_begin_are_read_later(address: str) -> None:
    answers: list[Exception] = [Unreachable(address, "for a moment"), Unreachable(address, "still")]

    def begin(places: list[Place]) -> Mapping[Place, int]:
        if answers:
            raise answers.pop()
        return dict.fromkeys(places, 0)

    member = consuming(address, group="g", begin=begin)
    member.join(["orders"])

    found, errors = take(member, 20)

    assert len(errors) == 2, "each is told once"
    assert found == everything(0) + everything(1)
    member.close()


class Stalling(Consumer):
    """Gives an error of a partition before events of others, and once does not say what is left."""

    def __init__(self, config: Mapping[str, object]) -> None:
        super().__init__(dict(config))
        self.held: list[Message] = []
        self.is_stalled = True

    def poll(self, timeout: float = -1) -> Message | None:
        if not self.is_stalled:
            return super().poll(timeout)
        while len(self.held) < 11:
            # All but the end of a partition, which says nothing here.
            self.held += [each for each in super().consume(1, 0.1) if not at_end(each)]
        self.held.sort(key=lambda each: each.error() is None)
        return self.held.pop(0)

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Message]:
        held, self.held = self.held, []
        return held or super().consume(num_messages, timeout)

    def get_watermark_offsets(
        self, partition: TopicPartition, timeout: float = -1, cached: bool = False
    ) -> tuple[int, int]:
        if self.is_stalled:
            self.is_stalled = False
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        return super().get_watermark_offsets(partition, timeout, cached)


def at_end(message: Message) -> bool:
    error = message.error()
    return error is not None and error.code() == KafkaError._PARTITION_EOF


def test_nothing_is_lost_if_a_server_does_not_say_what_is_left_of_a_partition(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainstem.remote.consumer.Consumer", Stalling)
    with mainstem.connect(address) as stem:
        stem.topics.trim("orders", 5, partition=0)
    reader = consuming(address, begin=lambda _: {})
    reader.read({("orders", 0): 0, ("orders", 1): 0})

    found, errors = take(reader, 15)

    assert len(errors) == 1
    assert found == everything(0)[5:] + everything(1)
    assert reader.missed == 5
    reader.close()

"""Fetch sessions: the same events as by fetches that name everything, within limits."""

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.broker.brokers import Clock
from tests.heads.kafka.raw_peers import Healthy, Peer, fetching, produce, served
from tests.heads.server_process import Process

from mainstem.core.batch import batches, read_header
from mainstem.core.event import Event
from mainstem.core.records import build
from mainstem.heads.kafka.adapter.fetching.fetch_sessions import FetchSession, FetchSessions
from mainstem.heads.kafka.settings import KafkaSettings
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages.fetch import (
    FETCH,
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
)
from mainstem.kafka_protocol.messages.metadata import METADATA, MetadataRequest, MetadataResponse

BY_NAME, BY_ID = 12, 18
IDLE_MS = 120_000
_topics = count()


@pytest.fixture(scope="module")
def peer() -> Iterator[Peer]:
    """A client of a server that keeps nothing."""
    with served(None) as address, Peer(address) as found:
        yield found


class Consumer:
    """A consumer that names its partitions once, and then only what changes."""

    def __init__(self, peer: Peer, topic: str, version: int) -> None:
        self.peer, self.topic, self.version = peer, topic, version
        produce(peer, topic, batch_of(b"first"))
        known = peer.ask(METADATA, 12, MetadataRequest(None), MetadataResponse).topics
        self.topic_id = next(each.topic_id for each in known if each.name == topic)
        self.session_id = self.epoch = 0
        self.positions: dict[int, int] = {}
        self.begun: dict[int, int] = {}
        self.named: dict[int, int] = {}
        self.found: dict[int, bytes] = {}
        self.tails: dict[int, int] = {}

    def want(self, partition: int, offset: int = 0) -> None:
        if partition not in self.positions:
            self.positions[partition] = self.begun[partition] = offset
            self.found[partition] = b""

    def forget(self, partition: int) -> None:
        self.positions.pop(partition, None)

    def fetch(self, max_bytes: int) -> list[FetchedPartition]:
        """Fetch once; returns what the answer has."""
        changed = dict(sorted(self.positions.items() - self.named.items()))
        forgotten = tuple(self.named.keys() - self.positions.keys())
        answer = self.ask(changed, forgotten, max_bytes)
        assert answer.error_code == 0
        self.session_id = answer.session_id
        self.epoch += 1
        self.named = dict(self.positions)
        partitions = [each for topic in answer.responses for each in topic.partitions]
        for each in partitions:
            self._take(each)
        return partitions

    def ask(
        self, wanted: dict[int, int], forgotten: tuple[int, ...] = (), max_bytes: int = 1 << 20
    ) -> FetchResponse:
        places = tuple(
            FetchPartition(number, fetch_offset=offset, partition_max_bytes=1 << 20)
            for number, offset in wanted.items()
        )
        named = FetchTopic(self.topic_id, self.topic, places)
        gone = ForgottenTopic(self.topic_id, self.topic, forgotten)
        wish = FetchRequest(
            min_bytes=1,
            max_bytes=max_bytes,
            session_id=self.session_id,
            session_epoch=self.epoch,
            topics=(named,) if places else (),
            forgotten_topics_data=(gone,) if forgotten else (),
        )
        return self.peer.ask(FETCH, self.version, wish, FetchResponse)

    def _take(self, found: FetchedPartition) -> None:
        assert found.error_code == 0
        assert found.partition_index in self.positions
        self.tails[found.partition_index] = found.high_watermark
        for batch in batches(stored(found)):
            self.found[found.partition_index] += bytes(batch)
            self.positions[found.partition_index] = read_header(batch).last_offset + 1


def batch_of(value: bytes) -> bytes:
    return bytes(build([Event(value=value)], now_ms=1))


def stored(found: FetchedPartition) -> bytes:
    assert isinstance(found.records, memoryview)
    return bytes(found.records)


def everything(peer: Peer, topic: str, partition: int, offset: int) -> tuple[bytes, int]:
    """Return what a fetch that names everything gives, and where the partition ends."""
    wish = fetching(topic, offset, partition=partition)
    (found,) = peer.ask(FETCH, 12, wish, FetchResponse).responses[0].partitions
    return stored(found), found.high_watermark


STEPS = st.lists(
    st.tuples(st.sampled_from(["write", "want", "forget", "fetch"]), st.integers(0, 3)), max_size=25
)


@pytest.mark.parametrize("version", [BY_NAME, BY_ID])
@given(steps=STEPS)
@settings(max_examples=25)
def test_a_session_gives_what_fetches_that_name_everything_give(
    peer: Peer, version: int, steps: list[tuple[str, int]]
) -> None:
    topic = f"t{next(_topics)}"
    consumer = Consumer(peer, topic, version)
    consumer.want(0)
    for step, number in steps:
        if step == "write":
            produce(peer, topic, batch_of(b"%d" % number), number)
        elif step == "want":
            consumer.want(number)
        elif step == "forget" and number:
            consumer.forget(number)
        elif step == "fetch":
            # As little as there is: one batch of one partition.
            consumer.fetch(1 if number % 2 else 1 << 20)

    while any(each.records for each in consumer.fetch(1)):
        pass

    for number in consumer.positions:
        found = consumer.found[number], consumer.tails[number]
        assert found == everything(peer, topic, number, consumer.begun[number])


def test_only_what_is_new_is_answered(peer: Peer) -> None:
    consumer = Consumer(peer, "news", BY_ID)
    for number in range(4):
        consumer.want(number)

    assert [each.partition_index for each in consumer.fetch(1 << 20)] == [0, 1, 2, 3]
    assert consumer.fetch(1 << 20) == []
    produce(peer, "news", batch_of(b"v"), 2)
    assert [each.partition_index for each in consumer.fetch(1 << 20)] == [2]
    assert consumer.fetch(1 << 20) == []


def test_what_was_forgotten_is_not_answered(peer: Peer) -> None:
    consumer = Consumer(peer, "forgotten", BY_ID)
    consumer.want(0)
    consumer.want(1)
    consumer.fetch(1 << 20)

    consumer.forget(1)
    produce(peer, "forgotten", batch_of(b"v"), 1)

    assert consumer.fetch(1 << 20) == []


def test_each_partition_has_its_turn(peer: Peer) -> None:
    consumer = Consumer(peer, "turns", BY_NAME)
    for number in range(4):
        for _ in range(3):
            produce(peer, "turns", batch_of(b"v"), number)
        consumer.want(number)

    gave = []
    for _ in range(8):
        gave += [each.partition_index for each in consumer.fetch(1) if each.records]

    assert gave == [0, 1, 2, 3] * 2


def test_an_error_is_told_in_every_answer(peer: Peer) -> None:
    consumer = Consumer(peer, "wrong", BY_NAME)
    wanted = {0: 0, 99: 0}
    answer = consumer.ask(wanted)

    for epoch in (1, 2):
        consumer.session_id, consumer.epoch = answer.session_id, epoch
        (topic,) = consumer.ask({0: 1} if epoch == 1 else {}).responses
        (refused,) = topic.partitions
        assert (refused.partition_index, Code(refused.error_code)) == (
            99,
            Code.UNKNOWN_TOPIC_OR_PARTITION,
        )


def test_a_fetch_of_another_epoch_is_refused_and_a_session_that_ended_is_not_found(
    peer: Peer,
) -> None:
    consumer = Consumer(peer, "epochs", BY_NAME)
    consumer.want(0)
    consumer.fetch(1 << 20)

    consumer.epoch = 7
    assert Code(consumer.ask({}).error_code) is Code.INVALID_FETCH_SESSION_EPOCH
    consumer.version, consumer.epoch = BY_ID, 1
    assert Code(consumer.ask({}).error_code) is Code.FETCH_SESSION_TOPIC_ID_ERROR
    consumer.version, consumer.epoch = BY_NAME, -1
    last = consumer.ask({0: 0})
    assert (last.error_code, last.session_id, len(last.responses)) == (0, 0, 1)
    consumer.epoch = 1
    assert Code(consumer.ask({}).error_code) is Code.FETCH_SESSION_ID_NOT_FOUND


# The limits


def topics(partitions: int, name: str = "t") -> tuple[FetchTopic, ...]:
    places = tuple(FetchPartition(number) for number in range(partitions))
    return (FetchTopic(topic=name, partitions=places),)


class Sessions(FetchSessions):
    """Sessions with a clock that tests move, and ids that tests know."""

    def __init__(self, max_sessions: int = 2, max_partitions: int = 10) -> None:
        self.clock = Clock()
        self.leaving: set[Callable[[], None]] = set()
        limits = KafkaSettings(
            max_fetch_sessions=max_sessions, max_session_partitions=max_partitions
        )
        super().__init__(limits, self.clock, count(1).__next__)

    def begin(self, partitions: int = 1) -> FetchSession | None:
        return self.open(topics(partitions), self.leaving, by_id=False)

    def go_on(self, session_id: int, epoch: int, partitions: int = 0) -> FetchSession | Code | None:
        wish = topics(partitions, "more") if partitions else ()
        return self.resume(session_id, epoch, wish, (), by_id=False)


def test_there_are_as_many_sessions_as_fit() -> None:
    sessions = Sessions()

    begun = [sessions.begin(), sessions.begin(), sessions.begin()]

    assert [each is None for each in begun] == [False, False, True]


def test_what_was_not_used_for_a_while_makes_room() -> None:
    sessions = Sessions()
    sessions.begin()
    sessions.begin()
    sessions.clock.now_ms += IDLE_MS
    assert isinstance(sessions.go_on(1, 1), FetchSession)

    assert sessions.begin() is not None
    assert sessions.begin() is None

    assert isinstance(sessions.go_on(1, 2), FetchSession)
    assert sessions.go_on(2, 1) is Code.FETCH_SESSION_ID_NOT_FOUND


def test_sessions_have_so_many_partitions_together() -> None:
    sessions = Sessions()
    assert sessions.begin(11) is None
    assert sessions.begin(6) is not None
    assert sessions.begin(5) is None
    assert sessions.begin(4) is not None
    assert sessions.partitions == 10

    assert sessions.go_on(4, 1, 1) is Code.FETCH_SESSION_ID_NOT_FOUND

    assert (len(sessions), sessions.partitions) == (1, 6)


def test_a_session_ends_with_its_connection() -> None:
    sessions = Sessions()
    sessions.begin()
    sessions.begin()

    for leave in list(sessions.leaving):
        leave()

    assert (len(sessions), sessions.partitions, sessions.leaving) == (0, 0, set())


def test_nothing_is_left_of_sessions_that_come_and_go() -> None:
    sessions = Sessions()

    for _ in range(1000):
        begun = sessions.begin(3)
        assert begun is not None
        sessions.close(begun.id)

    assert (len(sessions), sessions.partitions, sessions.leaving) == (0, 0, set())


def test_epochs_begin_again_after_the_last() -> None:
    sessions = Sessions()
    begun = sessions.begin()
    assert begun is not None

    begun.epoch = 2**31 - 1
    sessions.go_on(begun.id, 2**31 - 1)

    assert begun.epoch == 1


def test_many_sessions_of_many_partitions_do_not_fill_the_memory(tmp_path: Path) -> None:
    server = Process(tmp_path)
    healthy = Healthy(server.address)
    before = server.memory_mb()
    server.forget_peak()

    with Peer(server.address) as peer:
        for number in range(14):
            wish = FetchRequest(min_bytes=1, session_epoch=0, topics=topics(5_000, f"t{number}"))
            peer.ask(FETCH, BY_NAME, wish, FetchResponse)
            healthy.check()

    assert server.peak_mb() - before < 64
    healthy.close()
    server.close()

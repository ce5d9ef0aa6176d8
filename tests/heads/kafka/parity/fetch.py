"""Scenarios of fetching: what is read, sessions, and what cannot be read."""

from collections.abc import Iterator, Sequence
from typing import TypedDict, Unpack

from tests.heads.kafka.parity.batches import NOBODY, batch, put
from tests.heads.kafka.parity.compared_server import Said, Side, Topic, alike, unlike, word
from tests.heads.kafka.parity.offsets import records_deleted
from tests.heads.kafka.raw_peers import Peer

from mainstem.core.batch import HEADER_SIZE, read_header
from mainstem.kafka_protocol.messages.fetch import (
    FETCH,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
)

_BY_NAME = 12
_EVERYTHING = 1 << 20
_BEGIN, _FULL = 0, -1


class _Limits(TypedDict, total=False):
    """What a whole Fetch may have; otherwise everything at once."""

    min_bytes: int
    max_bytes: int
    wait_ms: int
    isolation: int


def _fetched(
    peer: Peer,
    topics: Sequence[tuple[Topic, Sequence[FetchPartition]]],
    *,
    version: int = FETCH.last,
    session: tuple[int, int] = (0, _FULL),
    forgotten: Sequence[tuple[Topic, Sequence[int]]] = (),
    **limits: Unpack[_Limits],
) -> FetchResponse:
    body = FetchRequest(
        max_wait_ms=limits.get("wait_ms", 0),
        min_bytes=limits.get("min_bytes", 1),
        max_bytes=limits.get("max_bytes", _EVERYTHING),
        isolation_level=limits.get("isolation", 0),
        session_id=session[0],
        session_epoch=session[1],
        topics=[FetchTopic(topic.id, topic.name, wanted) for topic, wanted in topics],
        forgotten_topics_data=[ForgottenTopic(it.id, it.name, gone) for it, gone in forgotten],
    )
    return peer.ask(FETCH, version, body, FetchResponse)


def _shown(answer: FetchResponse) -> Said:
    """Return codes, what each partition holds, and the offsets of the batches that came."""
    parts = [it for topic in answer.responses for it in topic.partitions]
    return word(answer.error_code), [
        (
            it.partition_index,
            word(it.error_code),
            (it.high_watermark, it.last_stable_offset, it.log_start_offset),
            _spans(it.records),
            # Without any, with an error it may be null or empty.
            None if it.error_code else it.aborted_transactions,
        )
        for it in sorted(parts, key=lambda it: it.partition_index)
    ]


def _spans(records: object) -> list[tuple[int, int]]:
    """Return the offsets of whole batches: Apache Kafka sends a piece of the next one, too."""
    found = []
    data = records if isinstance(records, memoryview) else b""
    at = 0
    while at + HEADER_SIZE <= len(data):
        header = read_header(data, at)
        at += header.size
        if at <= len(data):
            found.append((header.base_offset, header.last_offset))
    return found


def _one(
    side: Side,
    topic: Topic,
    offset: int = 0,
    *,
    partition: int = 0,
    epoch: int = -1,
    last_epoch: int = -1,
    part_bytes: int = _EVERYTHING,
    version: int = FETCH.last,
    **limits: Unpack[_Limits],
) -> Said:
    asked = FetchPartition(
        partition, epoch, offset, last_fetched_epoch=last_epoch, partition_max_bytes=part_bytes
    )
    with side.another() as peer:
        try:
            answer = _fetched(peer, [(topic, [asked])], version=version, **limits)
        except (EOFError, ConnectionResetError):
            return "closed"
    return _shown(answer)


@alike
def fetching_in_every_version(side: Side) -> Iterator[Said]:
    for version in range(FETCH.first, FETCH.last + 1):
        for offset in (0, 3, 10):
            yield version, offset, _one(side, side.one, offset, version=version)
            yield version, offset, _one(side, side.single, offset, version=version)


@alike
def offsets_out_of_range(side: Side) -> Iterator[Said]:
    for offset in (11, 100, 2**63 - 1, -1, -2, -(2**63)):
        for version in (4, _BY_NAME, FETCH.last):
            yield offset, version, _one(side, side.one, offset, version=version)
            yield offset, version, _one(side, side.one, offset, version=version, isolation=1)


@alike
def fetching_what_is_not_there(side: Side) -> Iterator[Said]:
    for partition in (1, -1, 100):
        for version in (4, _BY_NAME, FETCH.last):
            yield partition, _one(side, side.one, partition=partition, version=version)
    for topic_id in (NOBODY, bytes(16)):
        yield _one(side, Topic("", topic_id))
    for name in (side.name("none"), "", "a b", "a" * 250):
        for version in (4, _BY_NAME):
            yield name[:4], version, _one(side, Topic(name, b""), version=version)


@alike
def epochs_of_who_fetches(side: Side) -> Iterator[Said]:
    for epoch in (-2, -1, 0, 1, 100):
        for offset in (0, 10, 100):
            yield epoch, offset, _one(side, side.one, offset, epoch=epoch)


@alike
def epochs_of_what_was_fetched(side: Side) -> Iterator[Said]:
    for epoch in (-2, -1, 0):
        for offset in (0, 3, 10):
            yield epoch, offset, _one(side, side.one, offset, last_epoch=epoch)


@alike
def few_bytes(side: Side) -> Iterator[Said]:
    for size in (0, 1, 60, 70, 200):
        for topic in (side.one, side.single):
            yield "all", size, _one(side, topic, max_bytes=size)
            yield "each", size, _one(side, topic, part_bytes=size)
            yield "committed", size, _one(side, topic, part_bytes=size, isolation=1)


@unlike("less than nothing is nothing; an Apache Kafka fails with UNKNOWN_SERVER_ERROR")
def less_than_no_bytes(side: Side) -> Iterator[Said]:
    for size in (-1, -(2**31)):
        yield size, _one(side, side.one, max_bytes=size)
        yield "each", size, _one(side, side.one, part_bytes=size)


@alike
def many_bytes_at_least(side: Side) -> Iterator[Said]:
    for least in (-1, 0, 1, 2**31 - 1):
        for offset in (0, 10):
            yield least, offset, _one(side, side.one, offset, min_bytes=least, wait_ms=1)


@alike
def isolation_of_who_fetches(side: Side) -> Iterator[Said]:
    for isolation in (0, 1):
        for offset in (0, 10):
            yield isolation, offset, _one(side, side.one, offset, isolation=isolation)


@unlike("an unknown isolation is none; an Apache Kafka fails with UNKNOWN_SERVER_ERROR")
def fetching_with_an_isolation_there_is_not(side: Side) -> Iterator[Said]:
    for isolation in (2, -1):
        for offset in (0, 10):
            yield isolation, offset, _one(side, side.one, offset, isolation=isolation)


@alike
def few_bytes_of_two_partitions(side: Side) -> Iterator[Said]:
    with side.another() as peer:
        for each, together in ((1, 1), (1, 1 << 20), (1 << 20, 1), (1 << 20, 200)):
            asked = [FetchPartition(number, partition_max_bytes=each) for number in (0, 1)]
            yield _shown(_fetched(peer, [(side.two, asked)], max_bytes=together))


@unlike("a partition that is named twice is answered twice")
def a_partition_that_is_named_twice(side: Side) -> Iterator[Said]:
    with side.another() as peer:
        asked = [FetchPartition(0, fetch_offset=at, partition_max_bytes=9999) for at in (0, 10)]
        yield len(_fetched(peer, [(side.one, asked)]).responses[0].partitions)


@alike
def sessions(side: Side) -> Iterator[Said]:
    topic = side.topic(partitions=2)
    both = [FetchPartition(number, partition_max_bytes=9999) for number in (0, 1)]
    with side.another() as peer:
        first = _fetched(peer, [(topic, both)], session=(0, _BEGIN))
        yield "begins", first.session_id != 0, _shown(first)
        known = first.session_id

        def go_on(
            epoch: int, *wanted: FetchPartition, gone: Sequence[int] = (), at: int = known
        ) -> Said:
            answer = _fetched(
                peer,
                [(topic, wanted)] if wanted else [],
                session=(at, epoch),
                forgotten=[(topic, gone)] if gone else [],
            )
            return answer.session_id in (0, known), answer.session_id == 0, _shown(answer)

        yield "nothing new", go_on(1)
        put(side, topic, batch(2))
        yield "something new", go_on(2)
        yield "again", go_on(3)
        yield "read", go_on(4, FetchPartition(0, fetch_offset=2, partition_max_bytes=9999))
        yield "later", go_on(9)
        yield "before", go_on(1)
        yield "forgets", go_on(5, gone=[0])
        yield "forgets what it has not", go_on(6, gone=[0, 7])
        yield "adds", go_on(7, both[0])
        yield "adds what is not there", go_on(8, FetchPartition(9, partition_max_bytes=9999))
        yield "again", go_on(9)
        yield "forgets everything", go_on(10, gone=[0, 1, 9])
        yield "nothing", go_on(11)
        yield "not this one", go_on(1, at=known ^ 1)
        yield "no session", go_on(1, at=0)
        yield "ends", go_on(_FULL)
        yield "is gone", go_on(12)


@alike
def sessions_of_nothing(side: Side) -> Iterator[Said]:
    with side.another() as peer:
        for epoch in (_FULL, 1, -2):
            for number in (0, 12345):
                answer = _fetched(peer, [], session=(number, epoch))
                yield epoch, number, answer.session_id == 0, _shown(answer)


@unlike("a session of nothing is not kept: nothing would be saved")
def a_session_that_begins_with_nothing(side: Side) -> Iterator[Said]:
    with side.another() as peer:
        for number in (0, 12345):
            yield number, _fetched(peer, [], session=(number, _BEGIN)).session_id == 0


@alike
def sessions_by_name_and_by_id(side: Side) -> Iterator[Said]:
    wanted = [(side.one, [FetchPartition(0, partition_max_bytes=9999)])]
    with side.another() as peer:
        for begun, later in ((_BY_NAME, FETCH.last), (FETCH.last, _BY_NAME)):
            first = _fetched(peer, wanted, session=(0, _BEGIN), version=begun)
            answer = _fetched(peer, [], session=(first.session_id, 1), version=later)
            yield begun, later, answer.session_id == 0, _shown(answer)


@alike
def sessions_of_what_is_not_there(side: Side) -> Iterator[Said]:
    asked = [FetchPartition(0, partition_max_bytes=9999)]
    with side.another() as peer:
        for topic in (Topic("", NOBODY), Topic("", bytes(16))):
            first = _fetched(peer, [(topic, asked)], session=(0, _BEGIN))
            yield first.session_id == 0, _shown(first)
            yield _shown(_fetched(peer, [], session=(first.session_id, 1)))


@alike
def below_the_start(side: Side) -> Iterator[Said]:
    topic = side.topic(batches=10)
    yield records_deleted(side, topic.name, 4)
    for offset in (0, 3, 4, 5, 10, 11):
        yield offset, _one(side, topic, offset)

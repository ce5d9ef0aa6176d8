"""Scenarios of share groups: sessions, what is acquired, and what is said of it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tests.heads.kafka.attack import Peer
from tests.heads.kafka.beside.administration import altered
from tests.heads.kafka.beside.members import ANN, BOB, LEAVE, join_share, set_group, share_beat
from tests.heads.kafka.beside.side import Said, Side, Topic, alike, unlike, until, word

from mainstem.heads.kafka.messages.share_fetch import (
    SHARE_ACKNOWLEDGE,
    SHARE_FETCH,
    Acknowledgement,
    AcknowledgePartition,
    AcknowledgeTopic,
    ForgottenShareTopic,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareFetchPartition,
    ShareFetchRequest,
    ShareFetchResponse,
    ShareFetchTopic,
)

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
BEGIN, END = 0, -1
WAIT_MS = 500
Acks = Sequence[tuple[int, int, Sequence[int]]]
"""First and last offset, and the types."""
Run = tuple[int, int, int]
"""First and last offset, and how often it was delivered."""
Answer = tuple[str, list[tuple[int, str, str, list[Run]]]]
"""A code; of each partition its number, two codes, and runs that are acquired."""
NOBODY = bytes(15) + b"\x07"
"""An id that no topic has."""


class Session:
    """A share session of one member."""

    def __init__(self, peer: Peer, group: str, topic: Topic, member: str = ANN) -> None:
        self.peer, self.group, self.member = peer, group, member
        self.topic_id = topic.id
        self.epoch = 0

    def fetch(
        self,
        acks: Acks = (),
        *,
        epoch: int | None = None,
        partitions: Sequence[int] = (0,),
        forgotten: Sequence[int] = (),
        topic_id: bytes | None = None,
        max_records: int = 100,
        max_bytes: int = 1 << 20,
        min_bytes: int = 1,
        wait_ms: int = 0,
        strictly: bool = True,
        mode: int | None = None,
        renews: bool = False,
        version: int = 2,
    ) -> Answer:
        """Fetch, and maybe acknowledge in the first of the partitions."""
        at = self.topic_id if topic_id is None else topic_id
        told = [Acknowledgement(*each) for each in acks]
        wanted = [
            ShareFetchPartition(number, told if number == partitions[0] else ())
            for number in partitions
        ]
        body = ShareFetchRequest(
            group_id=self.group,
            member_id=self.member,
            share_session_epoch=self.epoch if epoch is None else epoch,
            max_wait_ms=wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            max_records=max_records,
            batch_size=max_records,
            share_acquire_mode=int(strictly and version > 1) if mode is None else mode,
            is_renew_ack=renews,
            topics=[ShareFetchTopic(at, wanted)] if wanted else [],
            forgotten_topics_data=[ForgottenShareTopic(at, forgotten)] if forgotten else [],
        )
        answer = self.peer.ask(SHARE_FETCH, version, body, ShareFetchResponse)
        if not answer.error_code:
            self.epoch += 1
        return word(answer.error_code), [
            (
                it.partition_index,
                word(it.error_code),
                word(it.acknowledge_error_code),
                [
                    (run.first_offset, run.last_offset, run.delivery_count)
                    for run in it.acquired_records
                ],
            )
            for topic in answer.responses
            for it in sorted(topic.partitions, key=lambda it: it.partition_index)
        ]

    def take(self, count: int, partition: int = 0, *, strictly: bool = True) -> list[Run]:
        """Fetch until something was acquired of a partition."""
        found: list[Run] = []

        def is_there() -> bool:
            code, answers = self.fetch(
                partitions=[partition], max_records=count, wait_ms=WAIT_MS, strictly=strictly
            )
            assert code == "NONE", code
            found.extend(run for it in answers for run in it[3])
            return bool(found)

        until(is_there)
        return found

    def renew_by_fetch(
        self,
        offset: int,
        *,
        max_records: int = 0,
        max_bytes: int = 0,
        wait_ms: int = 0,
        min_bytes: int = 0,
    ) -> Answer:
        """Renew with a fetch, which is to ask for nothing."""
        return self.fetch(
            [(offset, offset, [RENEW])],
            renews=True,
            max_records=max_records,
            max_bytes=max_bytes,
            wait_ms=wait_ms,
            min_bytes=min_bytes,
        )

    def acknowledge(
        self,
        acks: Acks,
        *,
        epoch: int | None = None,
        partition: int = 0,
        topic_id: bytes | None = None,
        renews: bool = False,
        version: int = 2,
    ) -> Said:
        """Acknowledge in one partition."""
        told = [AcknowledgePartition(partition, [Acknowledgement(*each) for each in acks])]
        body = ShareAcknowledgeRequest(
            group_id=self.group,
            member_id=self.member,
            share_session_epoch=self.epoch if epoch is None else epoch,
            is_renew_ack=renews,
            topics=[AcknowledgeTopic(self.topic_id if topic_id is None else topic_id, told)],
        )
        answer = self.peer.ask(SHARE_ACKNOWLEDGE, version, body, ShareAcknowledgeResponse)
        if not answer.error_code:
            self.epoch += 1
        return word(answer.error_code), [
            (it.partition_index, word(it.error_code))
            for topic in answer.responses
            for it in topic.partitions
        ]


@contextmanager
def sharing(
    side: Side, topic: Topic | None = None, *members: str, group: str = ""
) -> Iterator[list[Session]]:
    """Have members in a share group that begins with the first event; each has a connection."""
    topic, group = topic or side.one, group or side.group()
    # Not by a setting: to Apache Kafka that is true a moment later.
    altered(side, group, topic, *(0, 0, 1, 0)[: 2 * side.partitions(topic)])
    peers = []
    for member in members or (ANN,):
        join_share(side, group, [topic], member)
        peers.append(Peer(side.address))
    try:
        yield [
            Session(peer, group, topic, member)
            for peer, member in zip(peers, members or (ANN,), strict=True)
        ]
    finally:
        for peer in peers:
            peer.socket.close()


# Sessions


@alike
def sessions_of_nobody(side: Side) -> Iterator[Said]:
    with side.another() as peer:
        ann = Session(peer, side.group(), side.one)
        yield "not begun", ann.fetch(epoch=1)
        yield "ended", ann.fetch(epoch=END)
        yield "ended, with nothing", ann.fetch(epoch=END, partitions=())
        yield "acknowledged", ann.acknowledge([(0, 0, [ACCEPT])], epoch=1)
        yield "acknowledged and ended", ann.acknowledge([(0, 0, [ACCEPT])], epoch=END)
        yield "acknowledged to begin", ann.acknowledge([(0, 0, [ACCEPT])], epoch=BEGIN)
        yield "a negative epoch", ann.fetch(epoch=-2)
        ann.member = ""
        yield "no member", ann.fetch(epoch=BEGIN)
        yield "no member", ann.acknowledge([(0, 0, [ACCEPT])], epoch=1)


@alike
def ids_of_members_in_sessions(side: Side) -> Iterator[Said]:
    with side.another() as peer:
        for member in ("a", "a" * 36, "a" * 37, " "):
            ann = Session(peer, side.group(), side.one, member)
            yield len(member), ann.fetch(epoch=BEGIN)[0]


@alike
def epochs_of_sessions(side: Side) -> Iterator[Said]:
    with sharing(side) as (ann,):
        yield "begun", ann.fetch(max_records=0)[0]
        yield "begun again", ann.fetch(epoch=0, max_records=0)[0]
        ann.epoch = 1
        yield "the next", ann.fetch(max_records=0)[0]
        yield "the same again", ann.fetch(epoch=1)
        yield "one too many", ann.fetch(epoch=3)
        yield "acknowledged too late", ann.acknowledge([(0, 0, [ACCEPT])], epoch=1)
        yield "a negative one", ann.fetch(epoch=-2)
        yield "ended", ann.fetch(epoch=END, partitions=())
        yield "ended again", ann.fetch(epoch=END, partitions=())
        yield "gone on with", ann.fetch(epoch=3)


@alike
def acknowledging_as_a_session_begins(side: Side) -> Iterator[Said]:
    with sharing(side) as (ann,):
        yield ann.fetch([(0, 0, [ACCEPT])], epoch=BEGIN)
        yield ann.acknowledge([(0, 0, [ACCEPT])], epoch=BEGIN)


@alike
def topics_there_are_not(side: Side) -> Iterator[Said]:
    with sharing(side) as (ann,):
        ann.take(2)
        yield ann.acknowledge([(0, 0, [ACCEPT])], topic_id=NOBODY)
        yield "to end", ann.acknowledge([(0, 0, [ACCEPT])], topic_id=NOBODY, epoch=END)


@alike
def partitions_there_are_not(side: Side) -> Iterator[Said]:
    with sharing(side) as (ann,):
        yield "begun with", ann.fetch(partitions=[9])
        yield "again", ann.fetch(partitions=())
    with sharing(side) as (ann,):
        ann.take(10)
        yield "added", ann.fetch(partitions=[9])
        yield "acknowledged", ann.acknowledge([(0, 0, [ACCEPT])], partition=9)
        yield "acknowledged", ann.acknowledge([(0, 0, [ACCEPT])], partition=-1)


@alike
def who_is_no_member_of_the_group(side: Side) -> Iterator[Said]:
    with sharing(side) as (ann,):
        ann.take(2)
        bob = Session(ann.peer, ann.group, side.one, BOB)
        yield "begins", bob.fetch(max_records=1)[0]


@alike
def a_session_that_ends(side: Side) -> Iterator[Said]:
    # All of it is out, so that Apache Kafka, which gives back a moment later, has nothing else.
    with sharing(side) as (ann,):
        yield ann.take(10)
        yield ann.acknowledge([(0, 0, [ACCEPT])], epoch=END)
        ann.epoch = 0
        yield ann.take(10)
        yield ann.fetch([(1, 1, [ACCEPT])], epoch=END)
        ann.epoch = 0
        yield ann.take(10)


@alike
def a_fetch_that_ends_takes_nothing(side: Side) -> Iterator[Said]:
    with sharing(side) as (ann,):
        yield ann.take(2)
        yield ann.fetch(epoch=END)
        yield ann.fetch(epoch=END, max_records=0)


@alike
def partitions_that_are_forgotten(side: Side) -> Iterator[Said]:
    with sharing(side, side.two) as (ann,):
        yield ann.take(2, 1)
        yield ann.fetch(partitions=(), forgotten=[1], max_records=5)
        yield ann.acknowledge([(0, 1, [ACCEPT])], partition=1)


# What is acquired


@alike
def whole_batches_are_acquired(side: Side) -> Iterator[Said]:
    with sharing(side) as (ann,):
        yield ann.take(2, strictly=False)
        yield ann.fetch(wait_ms=0)
    with sharing(side, side.single) as (ann,):
        yield ann.take(2, strictly=False)
        yield ann.take(3, strictly=False)
        yield ann.take(100, strictly=False)


@alike
def records_are_counted_strictly(side: Side) -> Iterator[Said]:
    with sharing(side, None, ANN, BOB) as (ann, bob):
        yield ann.take(4)
        yield bob.take(4)
        yield ann.take(4)
        yield bob.fetch()


@alike
def fetches_for_nothing(side: Side) -> Iterator[Said]:
    with sharing(side) as (ann,):
        ann.take(1)
        yield "no records", ann.fetch(max_records=0)
        yield "a negative number", ann.fetch(max_records=-1)[0]
        yield "no bytes", ann.fetch(max_bytes=0)[0]


# What is said of records


@alike
def acknowledging_what_was_acquired(side: Side) -> Iterator[Said]:
    with sharing(side) as (ann,):
        yield ann.take(10)
        yield "accept", ann.acknowledge([(0, 1, [ACCEPT])])
        yield "each its own", ann.acknowledge([(2, 4, [ACCEPT, RELEASE, REJECT])])
        yield "two batches", ann.acknowledge([(5, 5, [RELEASE]), (6, 6, [ACCEPT])])
        yield "with a fetch", ann.fetch([(7, 9, [ACCEPT])], max_records=0)
        yield "released", ann.take(10)


@alike
def releasing_and_counting(side: Side) -> Iterator[Said]:
    with sharing(side, None, ANN, BOB) as (ann, bob):
        for _ in range(5):
            yield ann.take(1)
            yield ann.acknowledge([(0, 0, [RELEASE])])
        yield "given up", ann.take(1)
        yield "by another", bob.take(1)


@alike
def rejecting(side: Side) -> Iterator[Said]:
    with sharing(side) as (ann,):
        yield ann.take(3)
        yield ann.acknowledge([(0, 1, [REJECT])])
        yield ann.acknowledge([(2, 2, [RELEASE])])
        yield ann.take(2)


@alike
def acknowledging_what_is_not_held(side: Side) -> Iterator[Said]:
    with sharing(side, None, ANN, BOB) as (ann, bob):
        yield ann.take(4)
        yield bob.take(2)
        yield "another's", ann.acknowledge([(4, 4, [ACCEPT])])
        yield "partly another's", ann.acknowledge([(3, 4, [ACCEPT])])
        yield "beyond the end", ann.acknowledge([(100, 100, [ACCEPT])])
        yield "released by another", bob.acknowledge([(4, 4, [RELEASE])])
        yield "and then", bob.acknowledge([(4, 4, [ACCEPT])])


@alike
def acknowledging_what_nobody_has_got(side: Side) -> Iterator[Said]:
    with sharing(side, side.single) as (ann,):
        yield ann.take(2, strictly=False)
        for kind in (GAP, ACCEPT, RELEASE, REJECT):
            yield kind, ann.acknowledge([(8, 8, [kind])])
        yield RENEW, ann.acknowledge([(8, 8, [RENEW])], renews=True)
        yield "with what it has", ann.acknowledge([(0, 8, [ACCEPT])])


@unlike("Apache Kafka takes note of a whole batch with its first record; we of what was delivered")
def acknowledging_the_rest_of_a_batch(side: Side) -> Iterator[Said]:
    with sharing(side) as (ann,):
        ann.take(2)
        yield ann.acknowledge([(8, 8, [ACCEPT])])


@alike
def acknowledging_twice(side: Side) -> Iterator[Said]:
    with sharing(side) as (ann,):
        yield ann.take(6)
        yield ann.acknowledge([(2, 2, [ACCEPT])])
        yield "in the middle", ann.acknowledge([(2, 2, [ACCEPT])])
        yield "otherwise", ann.acknowledge([(2, 2, [RELEASE])])
        yield ann.acknowledge([(3, 3, [REJECT])])
        yield "rejected before", ann.acknowledge([(3, 3, [ACCEPT])])
        yield "partly again", ann.acknowledge([(2, 4, [ACCEPT])])
        yield "the rest", ann.acknowledge([(4, 5, [ACCEPT])])


@unlike("who comes too late is told so: another may have done its work (docs/reference/kafka.md)")
def acknowledging_before_the_start(side: Side) -> Iterator[Said]:
    with sharing(side) as (ann,):
        ann.take(6)
        ann.acknowledge([(0, 2, [ACCEPT])])
        yield ann.acknowledge([(0, 0, [ACCEPT])])
        yield ann.acknowledge([(1, 4, [ACCEPT])])


@alike
def batches_of_acknowledgements_that_make_no_sense(side: Side) -> Iterator[Said]:
    with sharing(side) as (ann,):
        yield ann.take(8)
        for name, acks in _NONSENSE.items():
            yield name, ann.acknowledge(acks)
            yield name, "in a fetch", ann.fetch(acks, max_records=1)
        yield "still held", ann.acknowledge([(0, 7, [ACCEPT])])


_NONSENSE: dict[str, Acks] = {
    "overlapping": [(0, 2, [ACCEPT]), (2, 3, [ACCEPT])],
    "the same twice": [(0, 0, [ACCEPT]), (0, 0, [ACCEPT])],
    "unsorted": [(3, 3, [ACCEPT]), (0, 0, [ACCEPT])],
    "backwards": [(3, 1, [ACCEPT])],
    "no types": [(0, 1, [])],
    "too few types": [(0, 2, [ACCEPT, ACCEPT])],
    "too many types": [(0, 1, [ACCEPT, ACCEPT, ACCEPT])],
    "type 5": [(0, 0, [5])],
    "type -1": [(0, 0, [-1])],
    "type 127": [(0, 1, [ACCEPT, 127])],
    "overlapping by two": [(0, 2, [ACCEPT]), (1, 3, [ACCEPT])],
    "renewing where that was not said": [(0, 0, [RENEW])],
}


@alike
def no_batches_of_acknowledgements(side: Side) -> Iterator[Said]:
    with sharing(side) as (ann,):
        yield ann.take(2)
        yield ann.acknowledge([])


@alike
def gaps(side: Side) -> Iterator[Said]:
    with sharing(side) as (ann,):
        yield ann.take(5)
        yield ann.acknowledge([(1, 2, [GAP])])
        yield ann.acknowledge([(3, 4, [GAP, ACCEPT])])
        yield "again", ann.acknowledge([(1, 1, [ACCEPT])])
        yield ann.acknowledge([(0, 0, [ACCEPT])])
        yield ann.take(3)


@alike
def renewing(side: Side) -> Iterator[Said]:
    with sharing(side) as (ann,):
        yield ann.take(4)
        yield "renewed", ann.acknowledge([(0, 1, [RENEW])], renews=True)
        yield "and accepted", ann.acknowledge([(1, 1, [ACCEPT])], renews=True)
        yield "renewed after", ann.acknowledge([(1, 1, [RENEW])], renews=True)
        yield "in a fetch", ann.renew_by_fetch(0)
        for asked in ("max_records", "max_bytes", "wait_ms", "min_bytes"):
            yield "in a fetch for more", asked, ann.renew_by_fetch(0, **{asked: 1})
        yield "in an older version", ann.acknowledge([(1, 1, [RENEW])], version=1)


@alike
def renewing_where_the_group_does_not(side: Side) -> Iterator[Said]:
    group = side.group()
    set_group(side, group, "share.renew.acknowledge.enable", "false")
    with sharing(side, group=group) as (ann,):
        yield ann.take(4)
        yield ann.acknowledge([(0, 1, [RENEW])], renews=True)
        yield ann.acknowledge([(0, 1, [ACCEPT])], renews=True)
        yield ann.renew_by_fetch(2)


@alike
def who_leaves_the_group_and_goes_on(side: Side) -> Iterator[Said]:
    with sharing(side) as (ann,):
        yield ann.take(2)
        yield share_beat(side, ann.group, ANN, LEAVE)
        yield ann.acknowledge([(0, 0, [ACCEPT])])
        yield ann.fetch(epoch=END, partitions=())


@alike
def several_partitions_of_which_one_is_wrong(side: Side) -> Iterator[Said]:
    with sharing(side, side.two) as (ann,):
        yield ann.take(10, 0)
        yield ann.take(10, 1)
        yield ann.acknowledge([(2, 3, [ACCEPT])], partition=0)
        yield ann.fetch([(2, 3, [ACCEPT])], partitions=[0], max_records=0)
        yield ann.acknowledge([(0, 9, [ACCEPT])], partition=1)


@alike
def the_version_before(side: Side) -> Iterator[Said]:
    with sharing(side) as (ann,):
        ann.take(4)
        yield ann.fetch([(0, 0, [RELEASE])], max_records=0, version=1)
        yield ann.acknowledge([(1, 1, [ACCEPT])], version=1)
        yield ann.acknowledge([(1, 1, [ACCEPT])], version=1)


@alike
def the_limit_of_deliveries(side: Side) -> Iterator[Said]:
    group = side.group()
    set_group(side, group, "share.delivery.count.limit", "2")
    with sharing(side, group=group) as (ann,):
        for _ in range(2):
            yield ann.take(1)
            yield ann.acknowledge([(0, 0, [RELEASE])])
        yield "given up", ann.take(1)

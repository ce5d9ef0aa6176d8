"""A share session of one member of a group on either side, in few words."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Unpack

from tests.heads.kafka.parity.compared_server import Said, Side, Topic, until, word
from tests.heads.kafka.parity.group_admin import altered
from tests.heads.kafka.parity.members import ANN, join_share
from tests.heads.kafka.raw_peers import Peer
from tests.heads.kafka.share_member import LIMITS, FetchLimits, acknowledging

from mainstem.kafka_protocol.messages import share_fetch

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
        strictly: bool = True,
        mode: int | None = None,
        renews: bool = False,
        version: int = 2,
        **given: Unpack[FetchLimits],
    ) -> Answer:
        """Fetch, and maybe acknowledge in the first of the partitions."""
        limits = LIMITS | given
        at = self.topic_id if topic_id is None else topic_id
        told = [share_fetch.Acknowledgement(*each) for each in acks]
        wanted = [
            share_fetch.ShareFetchPartition(number, told if number == partitions[0] else ())
            for number in partitions
        ]
        body = share_fetch.ShareFetchRequest(
            group_id=self.group,
            member_id=self.member,
            share_session_epoch=self.epoch if epoch is None else epoch,
            batch_size=limits["max_records"],
            share_acquire_mode=int(strictly and version > 1) if mode is None else mode,
            is_renew_ack=renews,
            topics=[share_fetch.ShareFetchTopic(at, wanted)] if wanted else [],
            forgotten_topics_data=[share_fetch.ForgottenShareTopic(at, forgotten)]
            if forgotten
            else [],
            **limits,
        )
        answer = self.peer.ask(
            share_fetch.SHARE_FETCH, version, body, share_fetch.ShareFetchResponse
        )
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
                partitions=[partition], max_records=count, max_wait_ms=WAIT_MS, strictly=strictly
            )
            assert code == "NONE", code
            found.extend(run for it in answers for run in it[3])
            return bool(found)

        until(is_there)
        return found

    def renew_by_fetch(self, offset: int, **limits: Unpack[FetchLimits]) -> Answer:
        """Renew with a fetch, which is to ask for nothing."""
        nothing: FetchLimits = {"max_records": 0, "max_bytes": 0, "min_bytes": 0, "max_wait_ms": 0}
        return self.fetch([(offset, offset, [RENEW])], renews=True, **(nothing | limits))

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
        at = self.epoch if epoch is None else epoch
        topic_id = self.topic_id if topic_id is None else topic_id
        body = acknowledging(
            self.group, self.member, at, topic_id, acks, partition=partition, renews=renews
        )
        answer = self.peer.ask(
            share_fetch.SHARE_ACKNOWLEDGE, version, body, share_fetch.ShareAcknowledgeResponse
        )
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

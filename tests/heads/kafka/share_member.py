"""A member of a share group over a raw connection, request by request."""

from collections.abc import Sequence
from typing import TypedDict, Unpack

from tests.heads.kafka.raw_peers import Peer, produce, request

from mainstem.core.event import Event
from mainstem.core.records import build
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages import share_fetch
from mainstem.kafka_protocol.messages.configs import (
    INCREMENTAL_ALTER_CONFIGS,
    IncrementalAlter,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    IncrementalAlterResource,
)
from mainstem.kafka_protocol.messages.metadata import METADATA, MetadataRequest, MetadataResponse
from mainstem.kafka_protocol.messages.share_groups import (
    SHARE_GROUP_HEARTBEAT,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)

ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
END = -1
_GROUP, _SET, _DELETE = 32, 0, 1
Acks = Sequence[tuple[int, int, Sequence[int]]]
"""First offset, last offset and acknowledge types of each batch."""


class FetchLimits(TypedDict, total=False):
    """Limits of a ShareFetch, with the names of its fields."""

    max_records: int
    max_bytes: int
    min_bytes: int
    max_wait_ms: int


class FetchOptions(FetchLimits, total=False):
    """Optional parts of a ShareFetch."""

    partitions: Sequence[int]
    forgotten: Sequence[int]
    epoch: int | None


LIMITS: FetchLimits = {"max_records": 100, "max_bytes": 1 << 20, "min_bytes": 1, "max_wait_ms": 0}


def put(peer: Peer, topic: str, count: int, partition: int = 0) -> None:
    """Produce ``count`` events in one batch."""
    batch = bytes(build([Event(b"%d" % number) for number in range(count)], now_ms=1))
    assert produce(peer, topic, batch, partition).error_code == 0


def configure(peer: Peer, group: str, name: str, value: str | None) -> Code:
    """Set a group config, or remove it; return the error code."""
    entry = IncrementalAlter(name, _DELETE if value is None else _SET, value)
    body = IncrementalAlterConfigsRequest((IncrementalAlterResource(_GROUP, group, (entry,)),))
    api = INCREMENTAL_ALTER_CONFIGS
    answer = peer.ask(api, 1, body, IncrementalAlterConfigsResponse)
    return Code(answer.responses[0].error_code)


def acknowledging(
    group: str,
    member: str,
    epoch: int,
    topic_id: bytes,
    acks: Acks,
    *,
    partition: int = 0,
    renews: bool = False,
) -> share_fetch.ShareAcknowledgeRequest:
    """Return a ShareAcknowledge for one partition."""
    batches = [share_fetch.Acknowledgement(*each) for each in acks]
    place = share_fetch.AcknowledgePartition(partition, batches)
    topics = [share_fetch.AcknowledgeTopic(topic_id, [place])]
    return share_fetch.ShareAcknowledgeRequest(
        group, member, epoch, is_renew_ack=renews, topics=topics
    )


class Sharer:
    """A member with its own connection; its group has the name of its topic."""

    def __init__(self, address: str, topic: str, member: str = "ann") -> None:
        self.peer = Peer(address)
        self.topic, self.member = topic, member
        self.epoch = self.session_epoch = 0
        asked = MetadataRequest(None)
        known = self.peer.ask(METADATA, 12, asked, MetadataResponse).topics
        self.topic_id = next((it.topic_id for it in known if it.name == topic), bytes(16))

    def beat(
        self, *, epoch: int | None = None, topics: Sequence[str] | None = None
    ) -> ShareGroupHeartbeatResponse:
        body = ShareGroupHeartbeatRequest(
            group_id=self.topic,
            member_id=self.member,
            member_epoch=self.epoch if epoch is None else epoch,
            subscribed_topic_names=topics,
        )
        answer = self.peer.ask(SHARE_GROUP_HEARTBEAT, 1, body, ShareGroupHeartbeatResponse)
        if not answer.error_code:
            self.epoch = answer.member_epoch
        return answer

    def joined(self) -> "Sharer":
        assert self.beat(epoch=0, topics=[self.topic]).error_code == 0
        return self

    def fetch(
        self, acks: Acks = (), *, mode: int = 0, renews: bool = False, **asked: Unpack[FetchOptions]
    ) -> share_fetch.ShareFetchResponse:
        self.send_fetch(acks, mode=mode, renews=renews, **asked)
        return self.fetched()

    def send_fetch(
        self,
        acks: Acks = (),
        *,
        partitions: Sequence[int] = (0,),
        forgotten: Sequence[int] = (),
        epoch: int | None = None,
        mode: int = 0,
        renews: bool = False,
        **limits: Unpack[FetchLimits],
    ) -> None:
        first = share_fetch.ShareFetchPartition(
            0, [share_fetch.Acknowledgement(*each) for each in acks]
        )
        wanted = [
            share_fetch.ShareFetchPartition(number) for number in partitions if number or not acks
        ]
        body = share_fetch.ShareFetchRequest(
            group_id=self.topic,
            member_id=self.member,
            share_session_epoch=self.session_epoch if epoch is None else epoch,
            share_acquire_mode=mode,
            is_renew_ack=renews,
            topics=[
                share_fetch.ShareFetchTopic(self.topic_id, [first, *wanted] if acks else wanted)
            ],
            forgotten_topics_data=[share_fetch.ForgottenShareTopic(self.topic_id, forgotten)],
            **(LIMITS | limits),
        )
        self.peer.send(request(share_fetch.SHARE_FETCH, 2, body))

    def fetched(self) -> share_fetch.ShareFetchResponse:
        answer = self.peer.answer(share_fetch.SHARE_FETCH, 2, share_fetch.ShareFetchResponse)
        if not answer.error_code:
            self.session_epoch += 1
        return answer

    def acknowledge(
        self, acks: Acks, *, epoch: int | None = None, partition: int = 0, renews: bool = False
    ) -> share_fetch.ShareAcknowledgeResponse:
        at = self.session_epoch if epoch is None else epoch
        body = acknowledging(
            self.topic, self.member, at, self.topic_id, acks, partition=partition, renews=renews
        )
        answer = self.peer.ask(
            share_fetch.SHARE_ACKNOWLEDGE, 2, body, share_fetch.ShareAcknowledgeResponse
        )
        if not answer.error_code:
            self.session_epoch += 1
        return answer

    def close(self) -> None:
        self.peer.socket.close()

"""Members of a share group in the simulated world: they accept, release, reject, renew and forget.

They are slow now and then, so that their time is up, lose their connections, and crash; requests
and answers are late, come twice, or get lost.
"""

from collections.abc import Sequence

from tests.checker.history import Outcome, Read
from tests.simulation.share_group_model import GROUP, LOCK_MS, TOPIC, Spot
from tests.simulation.share_head import Request, ShareHead
from tests.simulation.transactional_clients import PARTITIONS
from tests.simulation.world import Client, Reply, Unanswered, Wrong

from mainstem.broker.broker import Broker
from mainstem.core.batch import batches
from mainstem.core.records import events
from mainstem.heads.kafka.adapter.share.share_sessions import BEGIN, END
from mainstem.kafka_protocol.fields import Wire
from mainstem.kafka_protocol.messages.share_fetch import (
    Acknowledgement,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    SharedPartition,
    ShareFetchPartition,
    ShareFetchRequest,
    ShareFetchResponse,
    ShareFetchTopic,
)
from mainstem.kafka_protocol.messages.share_groups import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)

FORGET, ACCEPT, RELEASE, REJECT, RENEW = range(5)
DEEDS = [ACCEPT] * 6 + [RELEASE, REJECT, RENEW, FORGET]
Said = dict[Spot, int]
"""What a member says of events."""


class ShareMember:
    """One program, which begins anew when it has crashed."""

    def __init__(self, client: Client, head: ShareHead) -> None:
        self._client = client
        self._head = head
        self._lives = 0
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._lives += 1
        self._id = f"{self._client.name}.{self._lives}"
        self._epoch = 0
        self._connect()

    def _connect(self) -> None:
        self._connection = self._head.connect()
        self._session = BEGIN
        self._held: list[Spot] = []

    async def live(self) -> None:
        """Take part, until nothing is to happen any more."""
        while not self._client.world.is_calm:
            try:
                await self._beat()
                await self._fetch()
                await self._work()
                await self._go_now_and_then()
            except Unanswered:
                self._lose_connection()
            await self._client.rest(150)

    async def _beat(self) -> None:
        body = ShareGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=self._id,
            member_epoch=self._epoch,
            subscribed_topic_names=None if self._epoch else (TOPIC,),
        )
        answer = await self._ask(f"beat {self._epoch}", body)
        assert isinstance(answer, ShareGroupHeartbeatResponse)
        # Who was taken for dead joins again.
        self._epoch = 0 if answer.error_code else answer.member_epoch

    async def _fetch(self, said: Said | None = None) -> None:
        """Say what became of events, and take more."""
        said, rng = said or {}, self._client.rng
        topic_id = bytes.fromhex(self._client.world.broker.topic(TOPIC).id)
        places = [ShareFetchPartition(number, _acks(number, said)) for number in range(PARTITIONS)]
        body = ShareFetchRequest(
            group_id=GROUP,
            member_id=self._id,
            share_session_epoch=self._session,
            max_wait_ms=rng.choice((0, 300)),
            min_bytes=1,
            max_bytes=rng.choice((1, 200, 10_000)),
            max_records=rng.randint(1, 5),
            share_acquire_mode=rng.randint(0, 1),
            topics=[ShareFetchTopic(topic_id, places)],
        )
        answer = await self._ask(f"fetch {self._session}", body)
        assert isinstance(answer, ShareFetchResponse)
        if answer.error_code:
            self._session = BEGIN
            self._held.clear()
            return
        self._session += 1
        for topic in answer.responses:
            for each in topic.partitions:
                self._check_said(each.partition_index, said, each.acknowledge_error_code)
                self._take(each)

    def _take(self, shared: SharedPartition) -> None:
        acquired = {
            offset
            for run in shared.acquired_records
            for offset in range(run.first_offset, run.last_offset + 1)
        }
        place = (TOPIC, shared.partition_index)
        assert isinstance(shared.records, bytes | memoryview)
        for batch in batches(shared.records):
            for event in events(batch):
                if event.offset in acquired:
                    acquired.discard(event.offset)
                    self._held.append((shared.partition_index, event.offset))
                    # Events come in any order here, so only what comes is judged.
                    read = Read(place, (event.value or b"").decode(), event.offset)
                    self._client.recorder.moved(self._client.name, [place])
                    self._client.recorder.add(self._client.name, Outcome.OK, [read])
        if acquired:
            raise Wrong(f"{self._id} was told that it has {acquired}, and has not got them")

    async def _work(self) -> None:
        """Settle what is held, in one way or the other, at once or with the next fetch."""
        rng = self._client.rng
        await self._client.rest(LOCK_MS * 2 if rng.random() < 0.1 else 50)
        said = {spot: rng.choice(DEEDS) for spot in self._held}
        self._held.clear()
        renewed = {spot: RENEW for spot, deed in said.items() if deed == RENEW}
        said = {spot: deed for spot, deed in said.items() if deed not in (RENEW, FORGET)}
        if renewed:
            await self._acknowledge(renewed)
            await self._client.rest(LOCK_MS)
            said |= dict.fromkeys(renewed, ACCEPT)
        if said and rng.random() < 0.5:
            await self._acknowledge(said)
        elif said and self._session != BEGIN:
            await self._fetch(said)

    async def _acknowledge(self, said: Said) -> None:
        if self._session == BEGIN:
            return
        topic_id = bytes.fromhex(self._client.world.broker.topic(TOPIC).id)
        body = ShareAcknowledgeRequest(
            group_id=GROUP,
            member_id=self._id,
            share_session_epoch=self._session,
            is_renew_ack=RENEW in said.values(),
            topics=[
                AcknowledgeTopic(
                    topic_id,
                    [
                        AcknowledgePartition(number, acks)
                        for number in range(PARTITIONS)
                        if (acks := _acks(number, said))
                    ],
                )
            ],
        )
        answer = await self._ask(f"acknowledge {self._session}", body)
        assert isinstance(answer, ShareAcknowledgeResponse)
        if answer.error_code:
            self._session = BEGIN
            return
        self._session += 1
        for topic in answer.responses:
            for each in topic.partitions:
                self._check_said(each.partition_index, said, each.error_code)

    def _check_said(self, partition: int, said: Said, code: int) -> None:
        """See that what is said to be accepted is so for good."""
        accepted = {spot for spot, deed in said.items() if spot[0] == partition and deed == ACCEPT}
        if not code and (early := accepted - self._head.book.accepted):
            raise Wrong(f"{self._id} was told of {sorted(early)} before it was durable")

    async def _go_now_and_then(self) -> None:
        chance = self._client.rng.random()
        if chance < 0.12:
            self._lose_connection()
            self._begin_anew()
            self._client.world.deeds["share: crash"] += 1
        elif chance < 0.18:
            body = ShareFetchRequest(group_id=GROUP, member_id=self._id, share_session_epoch=END)
            await self._ask("close", body)
            self._session = BEGIN
            leave = ShareGroupHeartbeatRequest(group_id=GROUP, member_id=self._id, member_epoch=END)
            await self._ask("leave", leave)
            self._epoch = 0

    def _lose_connection(self) -> None:
        """Begin another connection; the server notices that the last one is gone, or does not."""
        rng, gone = self._client.rng, self._connection
        if rng.random() < 0.8:
            self._client.world.at(rng.randint(0, LOCK_MS), lambda: self._head.lose(gone))
        self._connect()

    async def _ask(self, what: str, body: Request) -> Wire:
        connection = self._connection

        def hear(_: Broker, reply: Reply[Wire]) -> None:
            self._head.hear(connection, body, reply)

        return await self._client.ask_and_wait(what, hear)


def _acks(partition: int, said: Said) -> Sequence[Acknowledgement]:
    spots = sorted(spot for spot in said if spot[0] == partition)
    return [Acknowledgement(offset, offset, (said[partition, offset],)) for _, offset in spots]

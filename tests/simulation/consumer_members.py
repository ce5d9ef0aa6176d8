"""Members of groups that the broker assigns for, in the simulated world."""

from tests.simulation.classic_members import SESSION_MS, Groups, Positions
from tests.simulation.world import Client, Unanswered

from mainstem.broker.broker import Broker
from mainstem.broker.groups.classic.coordinator import Membership
from mainstem.broker.groups.consumer.heartbeat import Heartbeat, HeartbeatResponse
from mainstem.core.errors import MainstemError, UnreleasedInstance
from mainstem.log.port import PartitionId


class ModernMember:
    """A member of a group that the broker assigns for; static if it is an instance."""

    def __init__(
        self, client: Client, groups: Groups, group: str, instance: str | None = None
    ) -> None:
        self._client = client
        self._group = group
        self._instance = instance
        self._positions = Positions(client, groups, group)
        self._epoch = 0
        self._lives = 0

    @property
    def _id(self) -> str:
        """What it calls itself; a program that comes back has another name than before."""
        return self._client.name if self._instance is None else f"{self._client.name}.{self._lives}"

    @property
    def _belief(self) -> set[int]:
        return self._positions.groups.beliefs[self._group].setdefault(self._id, set())

    async def live(self) -> None:
        """Show itself, own what it is told to, work, fall asleep, and leave."""
        while not self._client.world.is_calm:
            try:
                await self._beat()
                if self._positions.at:
                    await self._work()
                await self._client.rest(100)
                if self._client.rng.random() < 0.04:
                    await self._leave()
            except Unanswered:
                await self._client.rest(100)
            except UnreleasedInstance:
                self._client.world.deeds[f"{self._group}: not released"] += 1
                await self._client.rest(SESSION_MS)
            except MainstemError:
                # Fenced, or forgotten: it comes again, and owns nothing.
                self._forget()
                await self._client.rest(100)

    def _forget(self) -> None:
        self._epoch = 0
        self._belief.clear()
        self._lives += 1
        self._positions.at.clear()

    async def _beat(self) -> None:
        world = self._client.world
        topic = world.broker.topic("in").id
        owned = frozenset(PartitionId(topic, number) for number in self._belief)
        beat = Heartbeat(
            group=self._group,
            member_id=self._id,
            epoch=self._epoch,
            instance_id=self._instance,
            rebalance_timeout_ms=SESSION_MS,
            names=("in",),
            owned=owned,
        )

        def hear(broker: Broker) -> HeartbeatResponse:
            return broker.consumers.heartbeat(beat)

        heard = await self._client.ask(f"beat {self._epoch}", hear, late=False)
        self._epoch = heard.epoch
        if heard.owned is not None:
            wanted = {at.number for at in heard.owned}
            self._belief.intersection_update(wanted)
            self._belief.update(wanted)
            await self._positions.own([("in", number) for number in sorted(wanted)])

    async def _work(self) -> None:
        if read := await self._positions.read():
            who = Membership(self._id, self._epoch, self._instance)
            await self._positions.commit(read, who)

    async def _leave(self) -> None:
        name, instance = self._id, self._instance
        # What is static comes back, most of the time.
        for_a_while = instance is not None and self._client.rng.random() < 0.7
        self._forget()
        await self._client.ask(
            "pause" if for_a_while else "leave",
            lambda b: b.consumers.leave(self._group, name, instance, for_a_while=for_a_while),
            late=False,
        )

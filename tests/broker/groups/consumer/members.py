"""Simulated members of consumer groups: they send heartbeats and follow the assignment."""

import re

from msgspec.structs import replace
from tests.broker.brokers import Clock

from mainstem.broker.broker import Broker
from mainstem.broker.groups.consumer.classic_members import ConsumerProtocol
from mainstem.broker.groups.consumer.coordinator import ConsumerGroups
from mainstem.broker.groups.consumer.description import ConsumerGroupDescription
from mainstem.broker.groups.consumer.heartbeat import Heartbeat, HeartbeatResponse
from mainstem.broker.groups.consumer.records import NOTHING, Partitions
from mainstem.core.topic_settings import TopicSettings
from mainstem.log.memory import MemoryLog

REBALANCE_MS = 60_000
SESSION_MS = 45_000


class Member:
    """One consumer: it remembers its epoch and what it owns, and gives up what it is told to."""

    def __init__(self, hall: "Hall", member_id: str, instance_id: str | None = None) -> None:
        self._hall = hall
        self.id = member_id
        self.instance_id = instance_id
        self.epoch = 0
        self.owned: Partitions = NOTHING
        self._unconfirmed: Partitions | None = None
        """What it had before it was told something that it has not confirmed yet."""
        self._is_deaf = False
        """Whether an answer was lost, so that it has to say everything again."""
        self._wish = Heartbeat(group="g", member_id=member_id, epoch=0)

    def join(
        self,
        *names: str,
        regex: str | None = None,
        assignor: str | None = None,
        rebalance_timeout_ms: int = REBALANCE_MS,
        is_lost: bool = False,
    ) -> HeartbeatResponse:
        """Come, or come again without anything."""
        self.epoch, self.owned, self._unconfirmed = 0, NOTHING, None
        self._wish = Heartbeat(
            group="g",
            member_id=self.id,
            epoch=0,
            instance_id=self.instance_id,
            rebalance_timeout_ms=rebalance_timeout_ms,
            names=names or (() if regex else ("t",)),
            regex=regex,
            assignor=assignor,
            owned=NOTHING,
        )
        return self._send(self._wish, is_lost=is_lost)

    def beat(self, *, is_lost: bool = False) -> HeartbeatResponse:
        """Show itself; what it was told to do it has done by now, and says so."""
        if self._is_deaf:
            return self._send(replace(self._wish, epoch=self.epoch, owned=self.owned))
        owned = None if self._unconfirmed is None else self.owned
        return self._send(self._beat(owned=owned), is_lost=is_lost)

    def linger(self) -> HeartbeatResponse:
        """Show itself, and go on reading what it is to give up."""
        return self.beat() if self._is_deaf else self._send(self._beat())

    def wish(self, *names: str, regex: str = "") -> HeartbeatResponse:
        """Want other topics."""
        self._wish = replace(self._wish, names=names, regex=regex)
        if self._is_deaf:
            return self.beat()
        return self._send(self._beat(names=names, regex=regex, owned=self.owned))

    def say(self, **changes: object) -> HeartbeatResponse:
        """Send a heartbeat with some things otherwise; do nothing of what it is told."""
        return self._hall.groups.heartbeat(replace(self._beat(owned=self.owned), **changes))

    def leave(self, *, for_a_while: bool = False) -> None:
        self._hall.groups.leave("g", self.id, self.instance_id, for_a_while=for_a_while)

    def wants(self, topic: str) -> bool:
        """Tell whether it wants a topic."""
        if re.fullmatch(self._wish.regex or "", topic):
            return True
        return topic in (self._wish.names or ())

    @property
    def reads(self) -> Partitions:
        """What it may be reading: what it has to give up it reads until it says that it has."""
        return self.owned | (self._unconfirmed or NOTHING)

    @property
    def places(self) -> list[tuple[str, int]]:
        """What it owns, by the names of topics."""
        names = {each.id: each.name for each in self._hall.broker.topics()}
        return sorted((names.get(at.topic_id, "?"), at.number) for at in self.owned)

    def _beat(self, **said: object) -> Heartbeat:
        beat = Heartbeat(
            group="g", member_id=self.id, epoch=self.epoch, instance_id=self.instance_id
        )
        return replace(beat, **said)

    def _send(self, beat: Heartbeat, *, is_lost: bool = False) -> HeartbeatResponse:
        if beat.owned is not None:
            self._unconfirmed = None
        heard = self._hall.groups.heartbeat(beat)
        self._is_deaf = is_lost
        if is_lost:
            return heard
        self.id, self.epoch = heard.member_id, heard.epoch
        if heard.owned is not None and heard.owned != self.owned:
            self._unconfirmed = self.reads
            self.owned = heard.owned
        return heard


class Hall:
    """A broker with topics, and ways to play members of the group ``g``."""

    def __init__(self, **partitions: int) -> None:
        self.clock = Clock()
        self.log = MemoryLog()
        self._ids = iter(range(1, 1_000_000))
        self.protocol: ConsumerProtocol | None = None
        """How members of the classic protocol speak, if there are any."""
        self.restart()
        for name, count in partitions.items():
            self.broker.create_topic(name, TopicSettings(partitions=count))

    @property
    def groups(self) -> ConsumerGroups:
        return self.broker.consumers

    @property
    def described(self) -> ConsumerGroupDescription:
        found = self.groups.describe("g")
        assert found is not None
        return found

    def member(self, member_id: str, instance_id: str | None = None) -> Member:
        return Member(self, member_id, instance_id)

    def joined(self, *member_ids: str) -> list[Member]:
        """Return members that read ``t`` and own all that they should."""
        members = [self.member(each) for each in member_ids]
        for each in members:
            each.join()
        self.settle(*members)
        return members

    def settle(self, *members: Member) -> None:
        """Let members show themselves until nobody is told anything new."""
        for _ in range(20):
            before = [(each.epoch, each.owned) for each in members]
            for each in members:
                each.beat()
            if before == [(each.epoch, each.owned) for each in members]:
                return
        raise AssertionError("the members do not come to rest")

    def restart(self) -> None:
        """Open the broker anew, on what was written down."""
        self.broker = Broker(self.log, self.clock, new_id=lambda: f"{next(self._ids):032x}")
        self.groups.classic_members.protocol = self.protocol

    def pass_time(self, ms: int) -> None:
        self.clock.now_ms += ms
        self.broker.tick()

"""Simulated classic-protocol members in consumer groups, for tests."""

import json
from collections.abc import Iterable

from msgspec.structs import replace
from tests.broker.groups.classic.consumers import JOIN, Asked
from tests.broker.groups.consumer.members import Hall

from mainstem.broker.groups.classic.group import Joined, Sync, Synced
from mainstem.broker.groups.consumer.classic_members import MemberSubscription
from mainstem.broker.groups.consumer.records import Partitions
from mainstem.broker.topics.catalog import TopicPartition
from mainstem.core.errors import IllegalGeneration, RebalanceInProgress


class JsonConsumerProtocol:
    """The words of members as tests write them: lists of places in JSON."""

    def subscription(self, metadata: bytes) -> MemberSubscription | None:
        if metadata == b"unreadable":
            return None
        names, owned = json.loads(metadata)
        return MemberSubscription(names, [(name, number) for name, number in owned])

    def owned(self, assignment: bytes) -> list[TopicPartition]:
        return [(name, number) for name, number in json.loads(assignment or b"[]")]

    def assignment(self, places: Iterable[TopicPartition], metadata: bytes) -> bytes:
        return json.dumps(list(places)).encode()


class EagerMember:
    """A consumer that gives up everything before it joins again, and does one thing at a time."""

    instance_id = None

    def __init__(self, hall: Hall, *names: str) -> None:
        self._hall = hall
        self.names = names
        self.id = ""
        self.epoch = -1
        self.places: list[TopicPartition] = []
        self._joining: Asked[Joined] | None = None
        self._syncing: Asked[Synced] | None = None

    def join(self) -> None:
        """Give up everything, and join the next generation."""
        self.places, self._syncing = [], None
        self._joining = Asked[Joined]()
        metadata = json.dumps([self.names, []]).encode()
        self._hall.broker.classic.join(
            replace(JOIN, member_id=self.id, client_id="old", protocols=(("eager", metadata),)),
            self._joining,
        )

    def wish(self, *names: str) -> None:
        """Want other topics, unless it waits for what it wanted before."""
        if not self.is_waiting:
            self.names = names
            self.join()

    def beat(self, *, is_lost: bool = False) -> None:
        """Go on with what it waits for, or show itself."""
        del is_lost
        try:
            if self._joining is not None:
                self._take_generation(self._joining)
            elif self._syncing is not None:
                self._take_share(self._syncing)
            else:
                self._hall.broker.classic.heartbeat("g", self.id, self.epoch)
        except (RebalanceInProgress, IllegalGeneration):
            self.join()

    linger = beat

    def ask_again(self, *, is_lost: bool) -> None:
        """Ask everything again; what is under way only if it was lost."""
        self._learn_id()
        if is_lost or not self.is_waiting:
            self.join()

    def leave(self) -> None:
        self._hall.broker.classic.leave("g", [(self.id, None)])

    @property
    def is_known(self) -> bool:
        """Whether it has been told its id, without which nobody can leave."""
        self._learn_id()
        return bool(self.id)

    def _learn_id(self) -> None:
        asked = self._joining
        if not self.id and asked is not None and asked.is_answered and asked.error is None:
            self.id = asked.answer.member_id

    def wants(self, topic: str) -> bool:
        """Tell whether it wants a topic."""
        return topic in self.names

    @property
    def owned(self) -> Partitions:
        """What it reads now."""
        return self._hall.groups.classic_members.partitions(self.places)

    @property
    def is_waiting(self) -> bool:
        return self._joining is not None or self._syncing is not None

    @property
    def reads(self) -> Partitions:
        """What it may be reading."""
        return self.owned

    def _take_generation(self, asked: Asked[Joined]) -> None:
        if not asked.is_answered:
            return
        self._joining = None
        joined = asked.answer
        self.id, self.epoch = joined.member_id, joined.generation
        self._syncing = Asked[Synced]()
        sync = Sync(
            group="g",
            member_id=self.id,
            generation=self.epoch,
            assignments=self._shares(joined) if joined.leader == self.id else {},
        )
        self._hall.broker.classic.sync(sync, self._syncing)

    def _take_share(self, asked: Asked[Synced]) -> None:
        if asked.is_answered:
            self._syncing = None
            found = json.loads(asked.answer.assignment or b"[]")
            self.places = [(name, number) for name, number in found]

    def _shares(self, joined: Joined) -> dict[str, bytes]:
        """Give every partition to the next member that wants it, as a leader does."""
        readers = {each.member_id: json.loads(each.metadata)[0] for each in joined.members}
        shares: dict[str, list[TopicPartition]] = {each: [] for each in readers}
        for topic in self._hall.broker.topics():
            wanting = [each for each, names in readers.items() if topic.name in names]
            for number in range(len(topic.partitions) if wanting else 0):
                shares[wanting[number % len(wanting)]].append((topic.name, number))
        return {each: json.dumps(places).encode() for each, places in shares.items()}

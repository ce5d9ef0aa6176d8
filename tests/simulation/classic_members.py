"""Members of classic groups in the simulated world, and what every group knows.

What must hold, whatever is lost, late or down: a partition has one owner at a time; a cursor never
goes back; and all below it has been processed. Members are now and then so slow that they are
taken for dead, and go on as if nothing had happened. Those with an instance id are static: a
program that comes back takes the place of the one before, which is fenced, and nobody else notices.
"""

from collections import defaultdict

from tests.checker.history import Outcome, Place, Read
from tests.simulation.transactional_clients import PARTITIONS, Transactor, read_committed
from tests.simulation.world import Client, Reply, Unanswered, Wrong

from mainstem.broker.broker import Broker
from mainstem.broker.groups.classic.coordinator import Membership, PartitionResults
from mainstem.broker.groups.classic.group import Join, Joined, Phase, Sync, Synced
from mainstem.broker.groups.cursors import Cursor
from mainstem.core.errors import FencedInstance, MainstemError, UnknownMember

INPUTS: list[Place] = [("in", number) for number in range(PARTITIONS)]
SESSION_MS = 500
ASLEEP_MS = 3_000
Where = tuple[str, Place]
"""A group, and a partition."""


class Groups:
    """What everybody knows of the groups: who owns what, what is committed and processed."""

    def __init__(self) -> None:
        self.owners: dict[tuple[str, int, int], str] = {}
        """By group, generation and partition."""
        self.beliefs: defaultdict[str, dict[str, set[int]]] = defaultdict(dict)
        """What members think they own, by group."""
        self.promised: defaultdict[Where, int] = defaultdict(int)
        """Where cursors are, at least: it was answered."""
        self.processed: defaultdict[Where, set[int]] = defaultdict(set)
        self._seen: dict[Where, int] = {}

    def own(self, group: str, generation: int, partition: int, member: str) -> None:
        """Take note of an owner; there is one in each generation."""
        owner = self.owners.setdefault((group, generation, partition), member)
        if owner != member:
            raise Wrong(f"{owner} and {member} own {partition} in {group} {generation}")

    def look(self, broker: Broker) -> None:
        """See that no cursor has gone back."""
        for where, promised in list(self.promised.items()):
            cursor = _cursor(broker, where)
            if cursor < self._seen.get(where, promised):
                raise Wrong(f"the cursor of {where} went back from {self._seen} to {cursor}")
            self._seen[where] = cursor
        for group, believers in self.beliefs.items():
            self._check_disjoint(broker, group, believers)

    def _check_disjoint(self, broker: Broker, group: str, believers: dict[str, set[int]]) -> None:
        found = broker.consumers.describe(group)
        members = set() if found is None else {each.id for each in found.members}
        seen: set[int] = set()
        for member in sorted(members & believers.keys()):
            if seen & believers[member]:
                raise Wrong(f"two members of {group} own the same: {believers}")
            seen |= believers[member]
        static = [each.profile.instance_id for each in (found.members if found else ())]
        for instance in filter(None, static):
            if static.count(instance) > 1:
                raise Wrong(f"{static.count(instance)} programs have the place {instance}")

    def after_crash(self, broker: Broker) -> None:
        """See that what was promised is still there."""
        self._seen.clear()
        for where, promised in self.promised.items():
            if (cursor := _cursor(broker, where)) < promised:
                raise Wrong(f"the cursor of {where} was {promised}, and is {cursor} after a crash")

    def at_the_end(self, broker: Broker) -> None:
        """See that all below the cursors has been processed."""
        for where in self.promised:
            offset, cursor = 0, _cursor(broker, where)
            while offset < cursor:
                found, further = read_committed(broker, where[1], offset)
                missed = {each.offset for each in found if each.offset < cursor}
                if missed := missed - self.processed[where]:
                    raise Wrong(f"{sorted(missed)} below the cursor {cursor} of {where}")
                if further == offset:
                    break
                offset = further


def _cursor(broker: Broker, where: Where) -> int:
    group, place = where
    found = broker.cursor(group, *place)
    return 0 if found is None else found.offset


class Positions:
    """Where a member is in the partitions that it owns, and how it gets on."""

    def __init__(self, client: Client, groups: Groups, group: str) -> None:
        self.client = client
        self.groups = groups
        self.group = group
        self.at: dict[Place, int] = {}

    async def own(self, places: list[Place]) -> None:
        """Go on at the group's cursors in what is new, and let go of the rest."""
        self.at = {place: at for place, at in self.at.items() if place in places}
        for place in places:
            while place not in self.at:

                def ask(broker: Broker, place: Place = place) -> int | None:
                    return self._ask(broker, place)

                cursor = await self.client.ask("cursor", ask)
                if cursor is not None:
                    self.at[place] = cursor
                    self.client.recorder.moved(self.client.name, [place])
                else:
                    await self.client.rest(100)

    def _ask(self, broker: Broker, place: Place) -> int | None:
        """Return where to go on; None while a transaction is about to say."""
        if broker.transactions.is_pending(self.group, *place):
            return None
        return _cursor(broker, (self.group, place))

    async def read(self) -> list[Read]:
        """Return the next event of a partition, if there is one."""
        place = self.client.rng.choice(list(self.at))
        offset = self.at[place]
        found, further = await self.client.ask(
            "read", lambda broker: read_committed(broker, place, offset, 1)
        )
        self.at[place] = further
        # Work takes a while, and now and then so long that others take over.
        is_slow = self.client.rng.random() < 0.1
        await self.client.rest(ASLEEP_MS if is_slow else 50)
        return found

    async def commit(self, read: list[Read], who: Membership) -> None:
        """Say that events are done with."""
        place = read[0].place
        offset = read[-1].offset + 1
        self.groups.processed[self.group, place] |= {each.offset for each in read}
        self.groups.promised.setdefault((self.group, place), 0)

        def move(broker: Broker) -> PartitionResults:
            moved = broker.classic.commit(self.group, who, {place: Cursor(offset, 0)})
            self._check_place(broker, who)
            return moved

        moved = await self.client.ask(f"commit {place} {offset}", move, late=False)
        if not moved.refused:
            self.promise({place: offset})

    def _check_place(self, broker: Broker, who: Membership) -> None:
        """See that nobody has committed whose place another has taken."""
        for each in broker.classic.describe(self.group).members:
            is_one = who.instance_id is not None and who.instance_id == each.instance_id
            if is_one and who.member_id != each.member_id:
                raise Wrong(f"{who} could commit, and its place is that of {each.member_id}")

    def promise(self, ends: dict[Place, int]) -> None:
        """Take note that cursors have moved for good."""
        for place, offset in ends.items():
            where = (self.group, place)
            self.groups.promised[where] = max(self.groups.promised[where], offset)


class ClassicMember:
    """A member of a classic group; static if it is an instance."""

    def __init__(
        self, client: Client, groups: Groups, group: str, instance: str | None = None
    ) -> None:
        self.client = client
        self.group = group
        self.instance = instance
        self.positions = Positions(client, groups, group)
        self.who = Membership()
        self._id = ""
        self._broker = client.world.broker
        """Who has told it last what it reads, or that it goes on."""

    async def live(self) -> None:
        """Join, work, fall asleep, leave, and come again."""
        while not self.client.world.is_calm:
            try:
                await self.join()
                await self.stay()
            except UnknownMember:
                self._id = ""
            except FencedInstance:
                self._id = ""
                self.client.world.deeds[f"{self.group}: fenced"] += 1
                await self.client.rest(ASLEEP_MS)
            except (MainstemError, Unanswered):
                await self.client.rest(100)

    async def join(self) -> None:
        """Become a member of the next generation, and learn what to read."""
        self.positions.at.clear()
        joined = await self.client.ask_and_wait("join", self._ask_to_join)
        self._id = joined.member_id

        def sync(broker: Broker, reply: Reply[Synced]) -> None:
            self._ask_to_sync(broker, joined, reply)

        synced = await self.client.ask_and_wait(f"sync {joined.generation}", sync)
        self._broker = self.client.world.broker
        self.who = Membership(joined.member_id, joined.generation, self.instance)
        owned = [int(each) for each in synced.assignment.decode().split()]
        for partition in owned:
            owner = self.instance or self._id
            self.positions.groups.own(self.group, joined.generation, partition, owner)
        await self.positions.own([("in", partition) for partition in owned])

    def _ask_to_join(self, broker: Broker, reply: Reply[Joined]) -> None:
        join = Join(
            group=self.group,
            member_id=self._id,
            instance_id=self.instance,
            client_id=self.client.name,
            protocol_type="consumer",
            protocols=(("any", b""),),
            session_timeout_ms=SESSION_MS if self.instance is None else ASLEEP_MS,
            rebalance_timeout_ms=SESSION_MS,
        )
        broker.classic.join(join, self._checked(broker, join, reply))

    def _checked(self, broker: Broker, join: Join, reply: Reply[Joined]) -> Reply[Joined]:
        """Return a reply that sees that a program that comes back disturbs nobody."""
        was = broker.classic.describe(self.group)
        instances = [each.instance_id for each in was.members]
        if join.instance_id is None or join.member_id or join.instance_id not in instances:
            return reply

        def check(joined: Joined | MainstemError) -> None:
            if isinstance(joined, Joined) and was.phase is Phase.STABLE:
                self.client.world.deeds[f"{self.group}: came back"] += 1
                if joined.generation != was.generation:
                    raise Wrong(f"{self.instance} came back, and {was} became {joined}")
            reply(joined)

        return check

    def _ask_to_sync(self, broker: Broker, joined: Joined, reply: Reply[Synced]) -> None:
        members = sorted(each.member_id for each in joined.members)
        shares: dict[str, bytes] = {}
        for at, member in enumerate(members):
            share = range(at, PARTITIONS, len(members))
            shares[member] = " ".join(map(str, share)).encode()
        sync = Sync(
            group=self.group,
            member_id=joined.member_id,
            generation=joined.generation,
            instance_id=self.instance,
            assignments=shares,
        )
        broker.classic.sync(sync, reply)

    async def stay(self) -> None:
        """Work until something happens."""
        for _ in range(self.client.rng.randint(3, 15)):
            if self.client.world.is_calm:
                return
            await self.beat()
            if self.positions.at:
                await self.work()
            await self.client.rest(100)
        leaver = (self.who.member_id, self.instance)
        if self.instance is None or self.client.rng.random() < 0.2:
            await self.client.ask("leave", lambda b: b.classic.leave(self.group, [leaver]))
        self._id = ""

    async def beat(self) -> None:
        """Show that this member is alive, also to a server that does not answer for a while."""
        who = self.who

        def beat(broker: Broker) -> None:
            broker.classic.heartbeat(self.group, who.member_id, who.generation, who.instance_id)
            if broker is not self._broker:
                self.client.world.deeds[f"{self.group}: went on after a restart"] += 1
                self._broker = broker

        try:
            await self.client.ask("beat", beat)
        except Unanswered:
            await self.client.rest(100)

    async def work(self) -> None:
        """Process some events, and say so."""
        if read := await self.positions.read():
            await self.positions.commit(read, self.who)


class Worker:
    """A member of a classic group that turns events into others, exactly once."""

    def __init__(self, client: Client, groups: Groups, *, newer: bool) -> None:
        self._member = ClassicMember(client, groups, "works")
        self._transactor = Transactor(client, newer=newer)
        self._newer = newer
        self._client = client

    async def live(self) -> None:
        """Join, work in transactions, and begin anew whenever something has failed."""
        while not self._client.world.is_calm:
            try:
                await self._transactor.begin()
                await self._member.join()
                await self._work()
            except (MainstemError, Unanswered) as error:
                if isinstance(error, UnknownMember):
                    self._member._id = ""
                await self._client.rest(100)
        await self._transactor.begin()

    async def _work(self) -> None:
        while not self._client.world.is_calm:
            await self._member.beat()
            if self._member.positions.at and (read := await self._member.positions.read()):
                await self._transact(read)
            await self._client.rest(100)

    async def _transact(self, read: list[Read]) -> None:
        began, outcome = self._transactor.start(), None
        ends = {read[0].place: read[-1].offset + 1}
        positions = self._member.positions
        positions.groups.processed["works", read[0].place] |= {each.offset for each in read}
        positions.groups.promised.setdefault(("works", read[0].place), 0)
        try:
            await self._transactor.send(("out", read[0].offset % PARTITIONS))
            await self._move(ends)
            await self._transactor.end(commits=True)
            outcome = Outcome.OK
            positions.promise(ends)
        finally:
            self._transactor.take_down(began, outcome, read, "works")

    async def _move(self, ends: dict[Place, int]) -> None:
        name, speaker, member = self._client.name, self._transactor.who, self._member.who
        cursors = {place: Cursor(offset, 0) for place, offset in ends.items()}
        if not self._newer:
            await self._client.ask_often(
                "add group", lambda b: b.transactions.add_group(name, speaker, "works")
            )
        await self._client.ask_often(
            f"move {ends}",
            lambda b: b.transactions.commit_cursors(
                name, speaker, "works", member, cursors, adds_group=self._newer
            ),
        )

"""Producers and readers of the simulated world: what they do is judged by the checker."""

from collections.abc import Sequence

from tests.broker.brokers import append, transactional_batch
from tests.checker.history import Outcome, Place, Read, Sent
from tests.simulation.world import Client, Unanswered

from mainstem.broker.broker import Broker
from mainstem.broker.publishing.outcome import AppendedBatch
from mainstem.broker.transactions.epochs import ProducerIdAndEpoch
from mainstem.broker.transactions.read_committed import visible
from mainstem.core.batch import batches, read_header
from mainstem.core.errors import MainstemError
from mainstem.core.records import events

PARTITIONS = 2
TIMEOUT_MS = 60_000


def read_committed(
    broker: Broker, place: Place, offset: int, most: int = 10**9
) -> tuple[list[Read], int]:
    """Return the next events that a reader of committed events sees, and where to go on."""
    found: list[Read] = []
    read = broker.transactions.read_committed(*place, offset, 2_000)
    data = read.data.tobytes()
    for batch in visible(data, read.aborted):
        for event in events(batch, from_offset=offset):
            if len(found) == most:
                return found, found[-1].offset + 1
            found.append(Read(place, (event.value or b"").decode(), event.offset))
    for batch in batches(data):
        offset = max(offset, read_header(batch).last_offset + 1)
    return found, offset


class Transactor:
    """A transactional producer, under the older rules or the newer ones."""

    def __init__(self, client: Client, *, newer: bool) -> None:
        self.client = client
        self._newer = newer
        self.who = ProducerIdAndEpoch(-1, -1)
        self._sequences: dict[Place, int] = {}
        self._count = 0
        self._sent: list[Sent] = []
        self._is_asked = False

    async def begin(self) -> None:
        """Take over the transactional id."""
        begun = await self.client.ask_often(
            "begin", lambda broker: broker.transactions.begin(self.client.name, TIMEOUT_MS)
        )
        self._become(begun.producer_id, begun.epoch)
        self._sequences.clear()

    def _become(self, producer_id: int, epoch: int) -> None:
        self.who = ProducerIdAndEpoch(producer_id, epoch)

    async def send(self, place: Place) -> None:
        """Send a few events in one batch."""
        name, who = self.client.name, self.who
        if not self._newer:
            await self.client.ask_often(
                "add", lambda broker: broker.transactions.add_partitions(name, who, [place])
            )
        values = [f"{name}.{self._count + more}" for more in range(self.client.rng.randint(1, 3))]
        self._count += len(values)
        self._sent += [Sent(place, value) for value in values]
        sequence = self._sequences.get(place, 0)
        self._sequences[place] = sequence + len(values)
        batch = transactional_batch(who, *map(str.encode, values), sequence=sequence)

        def send(broker: Broker) -> AppendedBatch:
            return append(broker, *place, bytearray(batch), adds_partition=self._newer)

        appended = await self.client.ask_often(f"send {values}", send)
        self._sent[-len(values) :] = [
            Sent(place, value, appended.offset + number) for number, value in enumerate(values)
        ]

    async def end(self, *, commits: bool) -> None:
        """Commit or abort."""
        self._is_asked = commits
        name, who = self.client.name, self.who
        ended = await self.client.ask_often(
            "commit" if commits else "abort",
            lambda broker: broker.transactions.end(
                name, who, committed=commits, bumps_epoch=self._newer
            ),
        )
        if self._newer:
            self._become(ended.producer_id, ended.epoch)
            self._sequences.clear()

    def start(self) -> int:
        """Begin to take a transaction down; return the moment."""
        self._sent = []
        self._is_asked = False
        return self.client.recorder.moment()

    def take_down(
        self, began: int, outcome: Outcome | None, read: Sequence[Read] = (), group: str = ""
    ) -> None:
        """Take a transaction down; without an outcome nobody has said how it ended."""
        in_doubt = Outcome.UNKNOWN if self._is_asked else Outcome.ABORTED
        self.client.recorder.add(
            self.client.name, outcome or in_doubt, [*read, *self._sent], began, group
        )

    async def live(self) -> None:
        """Write transactions over several partitions, and abort some; begin anew after errors."""
        client = self.client
        while not client.world.is_calm:
            try:
                await self.begin()
                while not client.world.is_calm:
                    await self._transact()
                    await client.rest(200)
            except (MainstemError, Unanswered):
                await client.rest(200)
        await self.begin()

    async def _transact(self) -> None:
        began, outcome = self.start(), None
        commits = self.client.rng.random() < 0.7
        try:
            for _ in range(self.client.rng.randint(1, 3)):
                await self.send(("in", self.client.rng.randrange(PARTITIONS)))
            await self.end(commits=commits)
            outcome = Outcome.OK if commits else Outcome.ABORTED
        finally:
            self.take_down(began, outcome)


async def read_on(client: Client, places: Sequence[Place]) -> None:
    """Read what is committed, from the first event on, and go back now and then."""
    positions = dict.fromkeys(places, 0)
    while not client.world.is_calm:
        place = client.rng.choice(places)
        if client.rng.random() < 0.05:
            positions[place] = client.rng.randint(0, positions[place])
            client.recorder.moved(client.name, [place])

        def read(
            broker: Broker, place: Place = place, offset: int = positions[place]
        ) -> tuple[list[Read], int]:
            return read_committed(broker, place, offset, 5)

        try:
            found, positions[place] = await client.ask("read", read)
            client.recorder.add(client.name, Outcome.OK, found)
        except Unanswered:
            pass
        await client.rest(400)

"""Queue consumers: limited by credit and the peer's reading; unsettled events are redelivered."""

import asyncio

import pytest
from tests.heads.contexts import context_on
from tests.heads.fake_outbox import FakeOutbox

from mainstem.broker.broker import Broker
from mainstem.broker.door import Delivery, QueueSettings
from mainstem.core.errors import MainstemError, UnknownQueue
from mainstem.core.event import Event
from mainstem.heads.queue_consumer import PORTION_EVENTS, QueueConsumer, settlement
from mainstem.log.memory import MemoryLog

TURNS = 50
"""So many turns of the loop are enough for whatever is under way."""
LOCK_MS = 1_000


class World:
    """A queue, and peers that take from it; time stands still."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.broker = Broker(
            MemoryLog(now_ms=lambda: self.now_ms),
            lambda: self.now_ms,
            monotonic_ms=lambda: self.now_ms,
        )
        self.broker.create_topic("orders")
        self.broker.queues.create("orders", "work", QueueSettings(lock_ms=LOCK_MS))
        self.context = context_on(self.broker, lambda: self.now_ms)

    def publish(self, *values: str) -> None:
        self.broker.publish("orders", [Event(value.encode()) for value in values])

    @property
    def unsettled(self) -> int:
        state = self.broker.queues.show("orders", "work")
        return sum(each.unsettled for each in state.windows)


class Peer:
    """Who is sent events; it may stop reading."""

    def __init__(
        self, world: World, owner: str = "one", *, credit: int | None = None, auto_ack: bool = False
    ) -> None:
        self.outbox = FakeOutbox()
        self.got: list[Delivery] = []
        self.over: list[MainstemError] = []
        queue = ("orders", "work")
        self.consumer = QueueConsumer(
            world.context,
            world.broker,
            self.outbox,
            queue,
            owner,
            self.got.extend,
            self.over.append,
            credit=credit,
            auto_ack=auto_ack,
        )

    async def rest(self) -> list[str]:
        for _ in range(TURNS):
            await asyncio.sleep(0)
        return [each.event.text() for each in self.got]


async def test_credit_is_how_much_is_sent() -> None:
    world = World()
    world.publish("1", "2", "3")
    peer = Peer(world, credit=2)
    assert await peer.rest() == ["1", "2"]

    peer.consumer.settle([settlement(peer.got[0])])
    peer.consumer.add_credit(1)

    assert await peer.rest() == ["1", "2", "3"]
    assert world.unsettled == 2


async def test_auto_ack_settles_what_is_sent() -> None:
    world = World()
    world.publish("1", "2", "3")
    peer = Peer(world, auto_ack=True)

    assert await peer.rest() == ["1", "2", "3"]
    assert world.unsettled == 0


async def test_a_peer_that_does_not_read_is_waited_for() -> None:
    world = World()
    world.publish(*map(str, range(2 * PORTION_EVENTS)))
    peer = Peer(world, auto_ack=True)
    peer.outbox.is_full = True
    first = await peer.rest()

    peer.outbox.read()

    assert len(first) <= PORTION_EVENTS
    assert await peer.rest() == [str(number) for number in range(2 * PORTION_EVENTS)]


async def test_what_is_not_settled_goes_to_another_when_its_owner_leaves() -> None:
    world = World()
    world.publish("1")
    peer = Peer(world)
    assert await peer.rest() == ["1"]
    other = Peer(world, "other")

    peer.consumer.close()
    assert await other.rest() == []
    peer.consumer.leave()

    assert await other.rest() == ["1"]
    assert other.got[0].count == 2


async def test_what_is_renewed_stays_with_its_owner() -> None:
    world = World()
    world.publish("1")
    peer, other = Peer(world), Peer(world, "other", credit=0)
    await peer.rest()
    assert peer.consumer.lock_ms() == LOCK_MS

    for _ in range(10):
        world.now_ms += LOCK_MS // 2
        peer.consumer.renew([settlement(peer.got[0])])
        world.broker.tick()
    other.consumer.add_credit(1)

    assert await other.rest() == []
    assert peer.consumer.settle([settlement(peer.got[0])]).refused == {}


async def test_who_consumes_a_queue_that_is_deleted_is_told() -> None:
    world = World()
    peer = Peer(world)
    await peer.rest()

    world.broker.queues.delete("orders", "work")
    await peer.rest()

    assert [type(each) for each in peer.over] == [UnknownQueue]
    assert peer.consumer.lock_ms() is None


@pytest.mark.parametrize("auto_ack", [False, True])
async def test_what_cannot_be_sent_goes_to_another(auto_ack: bool) -> None:
    world = World()
    world.publish("1", "2")
    over: list[MainstemError] = []

    def fail(taken: list[Delivery]) -> None:
        raise IndexError(f"a bug with {len(taken)} events")

    QueueConsumer(
        world.context,
        world.broker,
        FakeOutbox(),
        ("orders", "work"),
        "unlucky",
        fail,
        over.append,
        auto_ack=auto_ack,
        locked=False,
    )
    for _ in range(TURNS):
        await asyncio.sleep(0)

    assert len(over) == 1
    assert await Peer(world).rest() == ["1", "2"]

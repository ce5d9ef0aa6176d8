"""Consumers that share events one by one in the simulated world.

What must hold: nothing is lost, nothing comes that was not committed, what was acked for good never
comes again, and an event is out with one consumer at a time.
"""

from tests.checker.history import Outcome as Ended
from tests.checker.history import Place, Read
from tests.simulation.share_group_model import dead_letters
from tests.simulation.world import Client, Unanswered, Wrong

from mainstem.broker.broker import Broker
from mainstem.broker.queues.queues import Settled
from mainstem.broker.queues.records import Delivery, Outcome, QueueSettings, Settlement
from mainstem.core.errors import MainstemError
from mainstem.log.port import Durable

LOCK_MS = 1_500
TOPIC, NAME = "in", "jobs"


class Queue:
    """What everybody knows of the queue."""

    def __init__(self, broker: Broker, max_deliveries: int | None) -> None:
        settings = QueueSettings(lock_ms=LOCK_MS, max_deliveries=max_deliveries)
        broker.queues.create(TOPIC, NAME, settings)
        self.acked: set[Place] = set()
        """What is settled for good: that is durable."""
        self.asked: set[Place] = set()
        """What may be: it was acked, and a crash may have taken that back, or not."""
        self._out: dict[Place, tuple[str, int]] = {}
        """What is out with somebody, and until when."""

    def give(self, broker: Broker, owner: str, most: int, now_ms: int) -> list[Delivery]:
        """Let the broker hand out events, and see whether it may."""
        given = broker.queues.acquire(TOPIC, NAME, owner, max_events=most)
        for each in given:
            place = (str(each.event.partition), each.event.offset)
            if place in self.acked:
                raise Wrong(f"{place} came again, though it was acked")
            if place in self._out and now_ms < self._out[place][1]:
                raise Wrong(f"{place} is out with {self._out[place]}, and comes to {owner}")
            self._out[place] = (owner, now_ms + LOCK_MS)
        return given

    def settle(self, broker: Broker, owner: str, each: Settlement, now_ms: int) -> Settled:
        """Let the broker settle a delivery."""
        done = broker.queues.settle(TOPIC, NAME, owner, [each])
        place = (str(each.partition), each.offset)
        if done.refused:
            return done
        if each.outcome is Outcome.RENEW:
            self._out[place] = (owner, now_ms + LOCK_MS)
        else:
            self._out.pop(place, None)
        if each.outcome is Outcome.ACK:
            self.asked.add(place)
            done.durable.then(lambda error: None if error else self.acked.add(place))
        return done

    def leave(self, broker: Broker, owner: str) -> Durable:
        """Let the broker take back all that is out with somebody."""
        self._out = {place: out for place, out in self._out.items() if out[0] != owner}
        return broker.queues.leave(TOPIC, NAME, owner)

    def after_crash(self, broker: Broker) -> None:
        """Take note that nothing is out."""
        self._out.clear()

    def dead(self, broker: Broker) -> set[Place]:
        """Return what has become a dead letter."""
        return {(str(each.partition), each.offset) for each in dead_letters(broker, NAME)}


async def share(client: Client, queue: Queue) -> None:
    """Take events, and settle them in one way or the other, or not at all."""
    while not client.world.is_calm:
        try:
            await _take(client, queue)
            if client.rng.random() < 0.05:
                await client.ask("go", lambda broker: queue.leave(broker, client.name))
        except (MainstemError, Unanswered):
            pass
        await client.rest(200)


async def _take(client: Client, queue: Queue) -> None:
    most = client.rng.randint(1, 4)
    given = await client.ask(
        f"take {most}",
        lambda broker: queue.give(broker, client.name, most, client.world.now_ms),
    )
    for each in given:
        place = (TOPIC, each.event.partition)
        value = (each.event.value or b"").decode()
        # Events come in any order here, so only what comes is judged.
        client.recorder.moved(client.name, [place])
        client.recorder.add(client.name, Ended.OK, [Read(place, value, each.event.offset)])
    await client.rest(LOCK_MS * 2 if client.rng.random() < 0.1 else 50)
    outcomes = [Outcome.ACK] * 6 + [Outcome.NACK, Outcome.RELEASE, Outcome.RENEW]
    for each in given:
        outcome = client.rng.choice(outcomes)
        at = (each.event.partition, each.event.offset)
        settlement = Settlement(*at, outcome, each.lease)

        def settle(broker: Broker, one: Settlement = settlement) -> Settled:
            return queue.settle(broker, client.name, one, client.world.now_ms)

        await client.ask_often(f"{outcome} {at}", settle)

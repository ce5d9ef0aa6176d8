"""One simulated run from one seed, and the invariants that it violated.

    .venv/bin/python -m tests.simulation.simulation 17 1000 amqp queue

replays a seed, with as many steps and these casts, and prints all that happened in it.
"""

import sys
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from tests.checker.anomalies import check, forbidden
from tests.checker.history import Outcome, Place, Read
from tests.simulation import amqp_clients, amqp_peer, amqp_timed_clients, share_group_model
from tests.simulation.amqp_head import AmqpHead
from tests.simulation.amqp_timed_book import FLEETING
from tests.simulation.classic_members import ClassicMember, Groups, Worker
from tests.simulation.consumer_members import ModernMember
from tests.simulation.queue_consumers import LOCK_MS, NAME, TOPIC, Queue, share
from tests.simulation.share_head import ShareHead
from tests.simulation.share_members import ShareMember
from tests.simulation.transactional_clients import PARTITIONS, Transactor, read_committed, read_on
from tests.simulation.world import Client, Life, World, Wrong, without_chance

from mainstem.broker.groups.share.group import ShareHeartbeat
from mainstem.broker.queues.records import Settlement
from mainstem.core.errors import UnknownTopic
from mainstem.core.topic_settings import TopicSettings

PLACES: list[Place] = [(topic, n) for topic in ("in", "out") for n in range(PARTITIONS)]
SETTINGS = TopicSettings(partitions=PARTITIONS, segment_bytes=1024)
QUICK = {"consumer.session.timeout.ms": "1000", "consumer.heartbeat.interval.ms": "100"}
"""Members that are silent are taken for dead soon."""
STEPS = 300
AMQP = {
    "amqp": (amqp_clients.CAST, amqp_peer.TOPOLOGY),
    "timed": (amqp_timed_clients.CAST, amqp_timed_clients.TOPOLOGY),
}
"""Casts of AMQP clients, and what they declare."""
CASTS = ("classic", "static", "modern", "fixed", "works", "queue", "share", "amqp")
TWINS = ("one", "one", "two")
"""Whose place programs take: two of them have one instance id between them."""


class Simulated(NamedTuple):
    """How a life went."""

    seed: int
    digest: str
    """The same for lives that went the same way."""
    wrong: list[str]
    deeds: Counter[str]
    trace: list[str]
    given: tuple[object, ...] = ()
    """Steps and casts, if these are not the usual ones."""

    def __str__(self) -> str:
        given = "".join(f" {each}" for each in self.given)
        command = f".venv/bin/python -m tests.simulation.simulation {self.seed}{given}"
        return f"seed {self.seed} ({command}): {self.wrong[:3]}"


class Simulation:
    """One life."""

    def __init__(self, seed: int, *, casts: Sequence[str], late: bool, keeps_trace: bool) -> None:
        self._seed = seed
        self._world = World(seed, keeps_trace)
        self._groups = Groups()
        for topic in ("in", "out"):
            self._world.broker.create_topic(topic, SETTINGS)
        for group in ("modern", "fixed"):
            self._world.broker.group_configs.alter(group, QUICK)
        chosen = self._world.rng.sample(casts, 2)
        self._queue: Queue | None = None
        if "queue" in chosen:
            self._queue = Queue(self._world.broker, max_deliveries=None if seed % 2 else 3)
            self._world.after_crash.append(self._queue.after_crash)
        self._head = ShareHead(self._world) if "share" in chosen else None
        self._amqp: dict[str, AmqpHead] = {}
        """The AMQP head, by the casts that use it."""
        if amqp := [each for each in chosen if each in AMQP]:
            self._amqp = dict.fromkeys(amqp, AmqpHead(self._world))
        self._world.commit()
        self._cast(chosen, late)

    def _cast(self, casts: Sequence[str], late: bool) -> None:
        """Put clients on the stage; ``late``: what they ask for may be late for all of them."""
        world, groups = self._world, self._groups
        for newer in world.rng.choice(([True], [False], [True, False])):
            client = Client(world, f"sender {newer:d}", late=newer or late)
            world.spawn(client.name, Transactor(client, newer=newer).live())
        world.spawn("reader", read_on(Client(world, "reader"), PLACES))
        for name, head in self._amqp.items():
            kinds, topology = AMQP[name]
            for number, kind in enumerate(kinds):
                client = Client(world, f"{name} {number}")
                life = amqp_clients.keep_connecting(client, head, kind(client).work, topology)
                world.spawn(client.name, life)
        for name in [each for each in casts if each not in AMQP]:
            for number in range(3 if name in ("static", "fixed") else 2):
                # A join that comes twice takes the place of the one that it was.
                is_late = name not in ("works", "static") or number == 0
                client = Client(world, f"{name} {number}", late=is_late)
                match name:
                    case "classic" | "static":
                        instance = TWINS[number] if name == "static" else None
                        member = ClassicMember(client, groups, name, instance)
                        world.spawn(client.name, member.live())
                    case "modern" | "fixed":
                        instance = TWINS[number] if name == "fixed" else None
                        world.spawn(
                            client.name, ModernMember(client, groups, name, instance).live()
                        )
                    case "works":
                        world.spawn(client.name, Worker(client, groups, newer=number == 0).live())
                    case "share":
                        assert self._head is not None
                        world.spawn(client.name, ShareMember(client, self._head).live())
                    case _:
                        assert self._queue is not None
                        world.spawn(client.name, share(client, self._queue))

    def run(self, steps: int) -> Simulated:
        """Live, and be judged."""
        world = self._world
        world.every(100, world.tick)
        world.every(500, world.upkeep)
        world.after_arrival.append(self._groups.look)
        world.after_crash.append(self._groups.after_crash)
        wrong: list[str] = []
        try:
            while steps > 0:
                turn = world.rng.randint(60, 240)
                world.run(turn)
                steps -= turn
                self._strike()
            self._calm_down()
        except Wrong as found:
            # A history that was broken off would seem to have lost what nobody has read yet.
            wrong.append(str(found))
        except UnknownTopic as gone:
            # A client has asked for a topic that is always there.
            wrong.append(f"a topic is lost: {gone}")
        else:
            wrong += [str(each) for each in forbidden(check(world.recorder.history))]
        for each in world.recorder.history:
            world.note(each)
        return Simulated(self._seed, world.digest(), wrong, world.deeds, world.trace)

    def _strike(self) -> None:
        world = self._world
        world.free_disk()
        match world.rng.choice(("crash", "crash", "leap", "time of day", "full", "nothing")):
            case "full":
                world.fill_disk()
            case "crash":
                world.crash()
            case "leap":
                world.leap(world.rng.choice((500, 3_000, 100_000)))
            case "time of day":
                world.set_time_of_day(world.rng.randint(-3_600_000, 3_600_000))
                world.deeds["time of day"] += 1

    def _calm_down(self) -> None:
        """Let everybody finish, and see that everything is there."""
        world = self._world
        world.is_calm = True
        world.free_disk()
        world.run(100_000, lambda: world.living == 0)
        if world.living:
            raise Wrong(f"{world.living} clients have not come to an end")
        world.commit()
        for place in PLACES:
            world.recorder.add("last", Outcome.OK, self._everything(place))
        self._groups.at_the_end(world.broker)
        if self._queue is not None:
            self._drain(self._queue)
        if self._head is not None:
            self._drain_share(self._head)
        if "amqp" in self._amqp:
            self._drain_amqp(self._amqp["amqp"])
        if "timed" in self._amqp:
            self._drain_timed(self._amqp["timed"])

    def _drain_amqp(self, head: AmqpHead) -> None:
        """Take and acknowledge whatever is left in AMQP's queues; nothing may be missing then."""
        self._finish(amqp_clients.drain(Client(self._world, "last"), head))
        head.book.at_the_end()

    def _drain_timed(self, head: AmqpHead) -> None:
        """Like ``_drain_amqp``, when everything is due, and everything else has expired."""
        world, client = self._world, Client(self._world, "last")
        self._finish(amqp_timed_clients.drain(client, head, (FLEETING,)))
        head.timed_book.when_fleeting_is_empty()
        highest_ms = world.wall_clock.highest_since(world.wall_clock.first)
        world.set_time_of_day(world.time_of_day_off_ms + highest_ms - world.time_of_day_ms())
        self._finish(amqp_timed_clients.drain(client, head, amqp_timed_clients.TAKEN))
        head.timed_book.at_the_end()

    def _finish(self, life: Life) -> None:
        """Let a client live to its end."""
        world = self._world
        world.spawn("last", life)
        world.run(100_000, lambda: world.living == 0)
        if world.living:
            raise Wrong("the queues are never empty")

    def _everything(self, place: Place) -> list[Read]:
        found: list[Read] = []
        offset, further = -1, 0
        while further != offset:
            offset = further
            try:
                more, further = read_committed(self._world.broker, place, offset)
            except UnknownTopic as gone:
                raise Wrong(f"a topic is lost: {gone}") from None
            found += more
        return found

    def _drain(self, queue: Queue) -> None:
        """Take and ack whatever is left in the queue; nothing may be missing then."""
        world = self._world
        for _ in range(1_000):
            world.leap(LOCK_MS + 1)
            world.tick()
            world.commit()
            given = queue.give(world.broker, "last", 100, world.now_ms)
            if not given:
                break
            places = [(each.event.partition, each.event.offset) for each in given]
            for at in places:
                queue.settle(world.broker, "last", Settlement(*at), world.now_ms)
            world.commit()
        left = world.broker.queues.show(TOPIC, NAME)
        there = {
            (str(number), each.offset)
            for number in range(PARTITIONS)
            for each in self._everything((TOPIC, number))
        }
        if lost := there - queue.asked - queue.dead(world.broker):
            raise Wrong(f"the queue has lost {sorted(lost)}: {left}")
        if unexpected := queue.asked - there:
            raise Wrong(f"the queue gave out {sorted(unexpected)}, which is not there")

    def _drain_share(self, head: ShareHead) -> None:
        """Take and accept whatever is left for the share group; nothing may be missing then."""
        world, places = self._world, range(PARTITIONS)
        shared = (share_group_model.TOPIC, share_group_model.GROUP)
        beat = ShareHeartbeat(
            group=share_group_model.GROUP, member_id="last", epoch=0, topics=("in",)
        )
        world.broker.share.heartbeat(beat)
        for _ in range(1_000):
            world.leap(share_group_model.LOCK_MS + 1)
            world.tick()
            world.commit()
            lent = world.broker.queues.acquire_batches(*shared, "last", places, max_events=100)
            if not lent:
                break
            accepted = {
                each.partition: [
                    Settlement(each.partition, offset)
                    for run in each.runs
                    for offset in range(run.first, run.last + 1)
                ]
                for each in lent
            }
            world.broker.queues.settle_by_partition(*shared, "last", accepted)
            world.commit()
        there = {
            (number, each.offset)
            for number in places
            for each in self._everything((share_group_model.TOPIC, number))
        }
        head.book.at_the_end(world.broker, there)


def simulate(
    seed: int,
    *,
    steps: int = STEPS,
    casts: Sequence[str] = CASTS,
    late: bool = False,
    keeps_trace: bool = False,
) -> Simulated:
    """Live a life from a seed, with two of the casts.

    ``late``: requests may be late and come twice for all clients, also for producers under the
    older rules, whom nothing protects from that.
    """
    with without_chance(seed):
        life = Simulation(seed, casts=casts, late=late, keeps_trace=keeps_trace).run(steps)
    is_usual = (steps, casts) == (STEPS, CASTS)
    return life if is_usual else life._replace(given=(steps, *casts))


if __name__ == "__main__":
    seed_, *rest = sys.argv[1:]
    found = simulate(
        int(seed_),
        steps=int(rest[0]) if rest else STEPS,
        casts=rest[1:] or CASTS,
        keeps_trace=True,
    )
    sys.stdout.write("\n".join([*found.trace, found.digest, str(found), ""]))

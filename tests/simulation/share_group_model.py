"""Expected state and invariants of share groups in the simulation.

Whatever is lost, late or down: what was settled for good never comes again; an event is out with
one member at a time, until it is settled or its time is up; each delivery counts one more, up to
the limit, and after a crash no less than was written down; who holds an event in time may settle
it, and nobody else; in the end every event was accepted, or is a dead letter, once and for a
reason.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from tests.simulation.world import World, Wrong

from mainstem.broker.broker import Broker
from mainstem.broker.queues.queues import Queues, Settled
from mainstem.broker.queues.records import AcquiredBatches, Outcome, Settlement
from mainstem.core.batch import batches
from mainstem.core.dead_letters import Origin, origin_of
from mainstem.core.records import events
from mainstem.log.port import Durable

TOPIC, GROUP = "in", "share"
LOCK_MS = 1_500
LIMIT = 3
SETTINGS = {
    "share.auto.offset.reset": "earliest",
    "share.isolation.level": "read_committed",
    "share.record.lock.duration.ms": str(LOCK_MS),
    "share.delivery.count.limit": str(LIMIT),
    "share.session.timeout.ms": "1000",
    "share.heartbeat.interval.ms": "100",
}

Spot = tuple[int, int]
"""Partition and offset."""


class Out(NamedTuple):
    """An event is out with somebody until a time."""

    owner: str
    until_ms: int


class ShareBook:
    """Everything that the broker has given and was told."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.accepted: set[Spot] = set()
        """For good: that is durable."""
        self._rejected: set[Spot] = set()
        """At any time, durable or not."""
        self._spent: set[Spot] = set()
        """Delivered as often as is allowed, at any time."""
        self._settled: set[Spot] = set()
        """Accepted or rejected, and no crash has taken that back."""
        self._durable: set[Spot] = set()
        self._accepting: set[Spot] = set()
        """Accepted, and not durable yet."""
        self._in_doubt: set[Spot] = set()
        """Accepted when there was a crash, which may have taken that back."""
        self._out: dict[Spot, Out] = {}
        self._counts: dict[Spot, int] = {}
        """How often each event was delivered."""
        self._peaks: dict[Spot, int] = {}
        """The highest that each count ever was."""
        self._floors: dict[Spot, int] = {}
        """How often each was delivered at least, after a crash: that is durable."""
        self._unsure: set[Spot] = set()
        """Of which a crash may have taken back deliveries."""
        self._perhaps: set[Spot] = set()
        """Whose last delivery perhaps does not count."""

    def watch(self, broker: Broker) -> None:
        """See all that a broker gives and takes, as it begins after a crash."""
        self._in_doubt |= self._accepting
        self._accepting.clear()
        self._settled = set(self._durable)
        self._out.clear()
        self._perhaps.clear()
        self._unsure = set(self._counts)
        seen = broker.queues
        for name, watched in (
            ("acquire_batches", self._watch_acquire(seen, seen.acquire_batches)),
            ("settle_by_partition", self._watch_settle(seen.settle_by_partition)),
            ("leave", self._watch_leave(seen.leave)),
        ):
            setattr(seen, name, watched)

    # What is given

    def _watch_acquire(
        self, seen: Queues, lend: Callable[..., list[AcquiredBatches]]
    ) -> Callable[..., list[AcquiredBatches]]:
        def watched(
            topic: str, name: str, owner: str, partitions: Collection[int], **limits: int
        ) -> list[AcquiredBatches]:
            lent = lend(topic, name, owner, partitions, **limits)
            for each in lent if name == GROUP else ():
                for run in each.runs:
                    for offset in range(run.first, run.last + 1):
                        self._give((each.partition, offset), owner, run.deliveries)
            return lent

        return watched

    def _give(self, spot: Spot, owner: str, count: int) -> None:
        if spot in self._settled:
            raise Wrong(f"{spot} comes to {owner}, though it is settled")
        out = self._out.get(spot)
        if out is not None and self._world.now_ms < out.until_ms:
            raise Wrong(f"{spot} is out with {out}, and comes to {owner}")
        if out is not None:
            self._world.deeds["share: expired"] += 1
        least = most = self._counts.get(spot, 0) + 1
        if spot in self._unsure:
            least, most = self._floors.get(spot, 0) + 1, self._peaks[spot] + 1
        elif spot in self._perhaps:
            least = most - 1
        if not least <= count <= min(most, LIMIT):
            raise Wrong(f"{spot} comes for the {count}th time, not the {least}th to {most}th")
        self._counts[spot] = count
        self._peaks[spot] = max(self._peaks.get(spot, 0), count)
        self._unsure.discard(spot)
        self._perhaps.discard(spot)
        self._out[spot] = Out(owner, self._world.now_ms + LOCK_MS)
        if count == LIMIT:
            self._spent.add(spot)

    # What is settled

    def _watch_settle(self, settle: Callable[..., Settled]) -> Callable[..., Settled]:
        def watched(
            topic: str, name: str, owner: str, settlements: Mapping[int, Sequence[Settlement]]
        ) -> Settled:
            done = settle(topic, name, owner, settlements)
            if name == GROUP:
                written: set[int] = set()
                for number, said in settlements.items():
                    self._check_settled(owner, said, is_refused=number in done.refused)
                    if number not in done.refused:
                        self._settle(owner, said, done.durable)
                        if any(each.outcome is not Outcome.RENEW for each in said):
                            written.add(number)
                self._write_down(written, done.durable)
            return done

        return watched

    def _check_settled(self, owner: str, said: Iterable[Settlement], *, is_refused: bool) -> None:
        now_ms = self._world.now_ms
        held = {
            spot for spot, out in self._out.items() if out.owner == owner and now_ms < out.until_ms
        }
        strange = [each for each in said if (each.partition, each.offset) not in held]
        if is_refused and not strange:
            raise Wrong(f"{owner} holds {said}, and may not settle it")
        if strange and not is_refused:
            raise Wrong(f"{owner} does not hold {strange}, and may settle it")

    def _settle(self, owner: str, said: Iterable[Settlement], durable: Durable) -> None:
        gone: set[Spot] = set()
        accepted: set[Spot] = set()
        for each in said:
            spot = (each.partition, each.offset)
            self._world.deeds[f"share: {each.outcome}"] += 1
            if each.outcome is Outcome.RENEW:
                self._out[spot] = Out(owner, self._world.now_ms + LOCK_MS)
                continue
            del self._out[spot]
            if each.outcome is Outcome.ACK:
                accepted.add(spot)
            elif each.outcome is Outcome.REJECT:
                self._rejected.add(spot)
            elif self._counts[spot] < LIMIT:
                continue
            gone.add(spot)
        self._settled |= gone
        self._accepting |= accepted

        def is_durable(error: object) -> None:
            if error is None:
                self._durable |= gone
                self.accepted |= accepted
                self._accepting -= accepted

        durable.then(is_durable)

    def _watch_leave(self, leave: Callable[..., Durable]) -> Callable[..., Durable]:
        def watched(topic: str, name: str, owner: str, *, failed: bool = False) -> Durable:
            durable = leave(topic, name, owner, failed=failed)
            if name == GROUP:
                written: set[int] = set()
                for spot in [spot for spot, out in self._out.items() if out.owner == owner]:
                    is_late = self._world.now_ms >= self._out.pop(spot).until_ms
                    if not failed:
                        self._forgive(spot, is_late=is_late)
                    if not is_late:
                        written.add(spot[0])
                self._write_down(written, durable)
            return durable

        return watched

    def _forgive(self, spot: Spot, *, is_late: bool) -> None:
        """Take note that a delivery does not count; if its time was up, it perhaps does."""
        if is_late:
            self._perhaps.add(spot)
        else:
            self._counts[spot] -= 1

    def _write_down(self, partitions: Collection[int], durable: Durable) -> None:
        """Take note of how many deliveries are known for good from now on."""
        now = {
            spot: count - (spot in self._perhaps)
            for spot, count in self._counts.items()
            if spot[0] in partitions and spot not in self._unsure
        }

        def is_durable(error: object) -> None:
            if error is None:
                self._floors |= now

        durable.then(is_durable)

    # In the end

    def at_the_end(self, broker: Broker, there: set[Spot]) -> None:
        """See that every event was accepted, or is a dead letter."""
        letters = dead_letters(broker, GROUP)
        dead = {(each.partition, each.offset) for each in letters}
        if len(dead) < len(letters):
            raise Wrong(f"some of {sorted(dead)} were buried twice")
        if both := dead & self.accepted:
            raise Wrong(f"{sorted(both)} were accepted and buried")
        if unjust := dead - self._rejected - self._spent:
            raise Wrong(f"{sorted(unjust)} were buried for nothing")
        if lost := there - self.accepted - self._in_doubt - dead:
            raise Wrong(f"the share group has lost {sorted(lost)}")
        if unexpected := (self.accepted | dead) - there:
            raise Wrong(f"the share group gave out {sorted(unexpected)}, which is not there")
        self._world.deeds["share: dead letter"] += len(letters)


def dead_letters(broker: Broker, queue: str) -> list[Origin]:
    """Return where the dead letters of a queue on the topic come from."""
    topic = f"{TOPIC}.dead"
    found: list[Origin] = []
    if not broker.topics(topic):
        return found
    offset, tail = broker.bounds(topic, 0)[:2]
    while offset < tail:
        for batch in batches(broker.read(topic, 0, offset, 10**9).tobytes()):
            for event in events(batch, from_offset=offset):
                origin = origin_of(event)
                assert origin is not None
                offset = event.offset + 1
                if origin.queue == queue:
                    found.append(origin)
    return found

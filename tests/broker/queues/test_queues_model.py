"""A queue against a model: no event is lost, and none is delivered needlessly.

The model is a dict from offset to what became of the event. Only a nack, a release, a lock that
ran out or a crash make an event come again; what was settled never does. A broker that replays the
log must have written down what the live one had.
"""

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from tests.broker.brokers import read_all
from tests.broker.queues.queue_consumers import LOCK_MS, Desk

from mainstem.broker.queues.delivery_state import Window
from mainstem.broker.queues.records import Delivery, Order, Outcome, Settlement, WindowSet
from mainstem.core.dead_letters import origin_of
from mainstem.core.errors import StaleDelivery
from mainstem.core.records import events

MOST = 3
MAX_UNSETTLED = 6
PARTITIONS = 2
OWNERS = ("ann", "bob")
KEYS = (None, b"a", b"b")
DEEDS = ["publish"] * 3 + ["acquire"] * 2 + ["lend"] * 2 + ["ack"] * 4
DEEDS += ["nack", "delay", "release", "reject", "leave", "time", "stale", "crash", "trim"]
NO_LEASE = -1
Place = tuple[int, int]


class QueueMachine(RuleBasedStateMachine):
    """Owners take, settle, forget and crash; the broker is restarted now and then."""

    def __init__(self) -> None:
        super().__init__()
        self.keys: dict[Place, bytes | None] = {}
        """Every event that was published and not trimmed."""
        self.settled: set[Place] = set()
        self.missed: set[Place] = set()
        self.dead: set[Place] = set()
        self.out: dict[Place, tuple[str, Delivery, int]] = {}
        self.counts: dict[Place, int] = {}
        self.due: dict[Place, int] = {}
        self.were_delayed: set[Place] = set()
        self.stale: list[tuple[str, Delivery]] = []

    @initialize(keyed=st.booleans())
    def begin(self, keyed: bool) -> None:
        self.keyed = keyed
        self.desk = Desk(
            partitions=PARTITIONS,
            max_deliveries=MOST,
            max_unsettled=MAX_UNSETTLED,
            order=Order.KEY if keyed else Order.NONE,
        )

    @rule(
        deed=st.sampled_from(DEEDS),
        owner=st.sampled_from(OWNERS),
        number=st.integers(0, 7),
        partition=st.integers(0, PARTITIONS - 1),
        key=st.sampled_from(KEYS),
    )
    def anything(
        self, deed: str, owner: str, number: int, partition: int, key: bytes | None
    ) -> None:
        """Do one thing: a single rule, as Hypothesis would leave most of several out of a run."""
        self.expire()
        match deed:
            case "publish":
                self.publish(partition, key, number)
            case "acquire":
                self.acquire(owner, number)
            case "lend":
                self.lend(owner, number)
            case "leave":
                self.desk.queues.leave("orders", "emails", owner)
                self.give_back(owner)
            case "time":
                self.desk.clock.now_ms += number * LOCK_MS // 5
            case "stale":
                self.settle_what_is_not_out(number)
            case "crash":
                self.crash()
            case "trim":
                self.trim(partition, number)
            case _:
                self.settle(deed, owner, number)

    def publish(self, partition: int, key: bytes | None, count: int) -> None:
        offset = self.desk.broker.bounds("orders", partition).end
        self.desk.publish(*[b"x"] * (1 + count % 3), key=key, partition=partition)
        for place in range(1 + count % 3):
            self.keys[partition, offset + place] = key

    def acquire(self, owner: str, limit: int) -> None:
        self.take(owner, limit, self.desk.acquire(limit, owner))

    def lend(self, owner: str, limit: int) -> None:
        """Take events as they are stored; of each, only that it was told how often it came."""
        lent = self.desk.queues.acquire_batches(
            "orders", "emails", owner, range(PARTITIONS), max_events=limit
        )
        taken: list[Delivery] = []
        for each in lent:
            stored = {it.offset: it for batch in each.batches for it in events(batch)}
            for run in each.runs:
                for offset in range(run.first, run.last + 1):
                    event = msgspec.structs.replace(stored[offset], partition=each.partition)
                    taken.append(Delivery(event, run.deliveries, NO_LEASE, 0))
        self.take(owner, limit, taken)

    def take(self, owner: str, limit: int, taken: list[Delivery]) -> None:
        assert len(taken) <= limit
        for delivery in taken:
            place = tuple(delivery.event.position)
            assert place in self.keys, f"{place} was never published, or was deleted"
            assert place not in self.settled, "an event that was settled came again"
            assert place not in self.out, "an event is out twice"
            assert self.due.pop(place, 0) <= self.desk.clock(), "an event came before its time"
            self.counts[place] = self.counts.get(place, 0) + 1
            assert delivery.count == self.counts[place] <= MOST
            self.out[place] = (owner, delivery, self.desk.clock() + LOCK_MS)
            self.check_order(place)
        if self.keyed and len(taken) < limit:
            self.check_that_all_that_may_go_is_out()

    def check_order(self, place: Place) -> None:
        key = self.keys[place]
        if self.keyed and key is not None:
            earlier = [
                each
                for each, other in self.keys.items()
                if other == key and each[0] == place[0] and each[1] < place[1]
            ]
            assert self.settled.issuperset(earlier), "an event overtook one of its key"

    def check_that_all_that_may_go_is_out(self) -> None:
        """Not even one event that could be worked on is kept back, unless the cap is reached."""
        for window in self.desk.queues.show("orders", "emails").windows:
            delayed = sum(
                place[0] == window.partition and due_ms > self.desk.clock()
                for place, due_ms in self.due.items()
            )
            if window.out + window.waiting - delayed >= MAX_UNSETTLED:
                continue
            free: dict[bytes | None, Place] = {}
            for place, key in sorted(self.keys.items()):
                if place[0] == window.partition and place not in self.settled:
                    free.setdefault(key, place)
            for place in free.values():
                assert place in self.out or place in self.due or self.is_behind(place), place

    def is_behind(self, place: Place) -> bool:
        """Tell whether an event of the same key is out that was deleted meanwhile."""
        held = [each for each in self.out if each not in self.keys and each[0] == place[0]]
        return self.keys[place] in [self.out[each][1].event.key for each in held]

    def settle(self, deed: str, owner: str, number: int) -> None:
        held = [place for place, (who, _, _) in self.out.items() if who == owner]
        chosen = sorted(held)[number % 3 :: 2]
        outcome = Outcome.NACK if deed == "delay" else Outcome(deed)
        delay_ms = LOCK_MS // 2 if deed == "delay" else 0
        deliveries = [self.out[place][1] for place in chosen]
        wanted = [
            Settlement(*each.event.position, outcome, lease(each), delay_ms) for each in deliveries
        ]
        settled = self.desk.queues.settle("orders", "emails", owner, wanted)
        assert not settled.refused
        for place, delivery in zip(chosen, deliveries, strict=True):
            del self.out[place]
            self.is_stale(owner, delivery)
            if outcome is Outcome.RELEASE:
                self.counts[place] -= 1
            elif outcome is Outcome.REJECT or (deed != "ack" and self.counts[place] == MOST):
                self.bury(place)
            elif outcome is Outcome.ACK:
                self.settled.add(place)
            elif delay_ms:
                self.due[place] = self.desk.clock() + delay_ms
                self.were_delayed.add(place)

    def bury(self, place: Place) -> None:
        self.settled.add(place)
        if place in self.keys:
            self.dead.add(place)

    def expire(self) -> None:
        self.desk.broker.tick()
        for place, (owner, delivery, until_ms) in list(self.out.items()):
            if until_ms <= self.desk.clock():
                del self.out[place]
                self.is_stale(owner, delivery)
                if self.counts[place] >= MOST:
                    self.bury(place)

    def give_back(self, owner: str) -> None:
        for place, (who, delivery, _) in list(self.out.items()):
            if who == owner:
                del self.out[place]
                self.counts[place] -= 1
                self.is_stale(who, delivery)

    def is_stale(self, owner: str, delivery: Delivery) -> None:
        # Without a lease it means whichever delivery of the event is out with the owner.
        if delivery.lease != NO_LEASE:
            self.stale.append((owner, delivery))

    def settle_what_is_not_out(self, number: int) -> None:
        if self.stale:
            owner, delivery = self.stale[number % len(self.stale)]
            with pytest.raises(StaleDelivery):
                self.desk.ack(delivery, owner=owner)

    def crash(self) -> None:
        """What was out comes again; how often it had been delivered may have been forgotten."""
        before = self.desk.queues.fold
        self.desk = self.desk.restarted()
        assert self.desk.queues.fold == before, "replay gave something else than live"
        self.out.clear()
        self.stale.clear()
        windows = {
            number: Window(self.fold_window(number), None, keyed=False)
            for number in range(PARTITIONS)
        }
        for place in list(self.counts):
            entry = windows[place[0]].entries.get(place[1])
            kept = 0 if entry is None else entry.deliveries
            assert kept <= self.counts[place]
            self.counts[place] = kept
            if kept >= MOST and place not in self.settled:
                self.bury(place)
        self.desk.broker.tick()
        self.desk.acquire(0)

    def fold_window(self, number: int) -> WindowSet:
        (key,) = self.desk.queues.fold
        return self.desk.queues.fold.window(key, number)

    def trim(self, partition: int, number: int) -> None:
        bounds = self.desk.broker.bounds("orders", partition)
        before = min(bounds.tail, bounds.start + number % 3)
        self.desk.broker.trim("orders", partition, before)
        for place in [each for each in self.keys if each[0] == partition and each[1] < before]:
            if place not in self.settled:
                self.missed.add(place)
            del self.keys[place]
            self.due.pop(place, None)

    @invariant()
    def no_more_is_unsettled_than_the_cap(self) -> None:
        for window in self.desk.queues.show("orders", "emails").windows:
            # Events whose delay is over may come on top of fresh ones that were taken meanwhile.
            extra = sum(
                place[0] == window.partition and place not in self.settled
                for place in self.were_delayed
            )
            assert window.out + window.waiting <= MAX_UNSETTLED + extra

    def dead_letters_are_those_that_failed_too_often(self) -> None:
        if self.dead:
            letters = [origin_of(each) for each in read_all(self.desk.broker, "orders.dead")]
            places = [(each.partition, each.offset) for each in letters if each is not None]
            assert sorted(places) == sorted(self.dead)

    def teardown(self) -> None:
        """Nothing is lost: whatever was not settled can be had and settled in the end."""
        for _ in range(1_000):
            self.expire()
            self.desk.clock.now_ms += LOCK_MS
            self.expire()
            self.acquire("ann", 100)
            if not self.out:
                break
            self.settle_all()
        assert self.settled.issuperset(self.keys)
        for window in self.desk.queues.show("orders", "emails").windows:
            assert window.start == window.next == window.tail
        assert self.desk.restarted().queues.fold == self.desk.queues.fold
        self.dead_letters_are_those_that_failed_too_often()

    def settle_all(self) -> None:
        places = [Settlement(*place) for place in self.out]
        assert not self.desk.queues.settle("orders", "emails", "ann", places).refused
        self.settled |= self.out.keys()
        self.out.clear()


def lease(delivery: Delivery) -> int | None:
    return None if delivery.lease == NO_LEASE else delivery.lease


def test_nothing_is_lost_and_nothing_comes_twice_for_nothing() -> None:
    run_state_machine_as_test(
        QueueMachine, settings=settings(max_examples=50, stateful_step_count=40)
    )

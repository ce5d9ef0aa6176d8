"""The dispatcher against a model, with random sequences of calls.

Consumers come and go, get credit, pause, settle, give back and forget, on a real broker. Whenever
the loop has come to rest: nobody was given more than its credit, and no event is left over that
somebody could have been given.
"""

from contextlib import suppress

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from tests.broker.queues.queue_consumers import LOCK_MS, Desk
from tests.heads.dispatcher_on_broker import Room, Taker
from tests.long_runs import LONG

from mainstem.broker.queues.records import Order, Outcome
from mainstem.core.errors import StaleDelivery

PARTITIONS = 2
MAX_UNSETTLED = 12
KEYS = (None, b"a", b"b")
DEEDS = ["publish"] * 4 + ["join"] * 2 + ["credit"] * 3 + ["shared credit"] * 2 + ["ack"] * 4
DEEDS += ["release", "nack", "delay", "pause", "resume", "close", "time", "turn", "turn"]


class DispatcherMachine(RuleBasedStateMachine):
    """Consumers of one queue, with and without sessions, of three priorities."""

    def __init__(self) -> None:
        super().__init__()
        self.takers: list[Taker] = []
        self.allowed: dict[Taker, int] = {}
        """How much credit each has had in all."""
        self.shared = 0
        self.joined = 0

    @initialize(order=st.sampled_from([Order.NONE, Order.KEY]))
    def begin(self, order: Order) -> None:
        desk = Desk(partitions=PARTITIONS, max_unsettled=MAX_UNSETTLED, order=order)
        self.room = Room(desk)
        self.session = self.room.dispatcher.session(0)

    @rule(
        deed=st.sampled_from(DEEDS),
        which=st.integers(0, 9),
        count=st.integers(1, 5),
        priority=st.integers(0, 2),
        kind=st.sampled_from(["all", "first", "session"]),
        key=st.sampled_from(KEYS),
    )
    def act(
        self, deed: str, which: int, count: int, priority: int, kind: str, key: bytes | None
    ) -> None:
        desk = self.room.desk
        if deed == "publish":
            desk.publish(*[b"."] * count, key=key, partition=which % PARTITIONS)
        elif deed == "join" and len(self.takers) < 6:
            self.join(count, priority, kind)
        elif deed == "shared credit":
            self.shared += count
            self.session.add_credit(count)
        elif deed == "time":
            desk.clock.now_ms += LOCK_MS // 2
            desk.broker.tick()
        elif deed == "turn":
            self.room.turn()
        elif self.takers:
            self.act_on(self.takers[which % len(self.takers)], deed, count)

    def join(self, credit: int, priority: int, kind: str) -> None:
        self.joined += 1
        session = self.session if kind == "session" else None
        taker = self.room.taker(
            f"taker {self.joined}",
            credit,
            priority=priority,
            session=session,
            partitions=[0] if kind == "first" else None,
        )
        self.takers.append(taker)
        self.allowed[taker] = credit

    def act_on(self, taker: Taker, deed: str, count: int) -> None:
        if deed == "credit":
            self.allowed[taker] += count
            taker.consumer.add_credit(count)
        elif deed == "pause":
            taker.consumer.pause()
        elif deed == "resume":
            taker.consumer.resume()
        elif deed == "close":
            taker.consumer.close()
            self.takers.remove(taker)
            self.room.desk.queues.leave("orders", "emails", taker.name)
        else:
            self.settle(taker, deed, count)

    def settle(self, taker: Taker, deed: str, count: int) -> None:
        said, taker.held = taker.held[:count], taker.held[count:]
        outcome = {"ack": Outcome.ACK, "release": Outcome.RELEASE}.get(deed, Outcome.NACK)
        for each in said:
            # Its time may have been over.
            with suppress(StaleDelivery):
                self.room.desk.settle(
                    outcome, each, owner=taker.name, delay_ms=100 if deed == "delay" else 0
                )

    @invariant()
    def nobody_is_given_more_than_its_credit(self) -> None:
        for taker, allowed in self.allowed.items():
            assert taker.count + (taker.consumer.credit or 0) == allowed
            assert taker.count <= allowed
        in_session = [it for it in self.allowed if it.consumer.session is not None]
        assert sum(each.count for each in in_session) <= self.shared

    @rule()
    def rest(self) -> None:
        """Nothing is left over that somebody could take."""
        self.room.run()
        for taker in self.takers:
            if taker.consumer.allowed != 0:
                assert taker.probe() == 0, f"{taker.name} could have taken more"

    def teardown(self) -> None:
        if hasattr(self, "room"):
            self.rest()
            for taker in self.takers:
                taker.consumer.close()
            assert len(self.room.dispatcher) == 0
            self.room.desk.publish(b".")
            assert not self.room.calls, "a watch was left behind"


def test_the_dispatcher_keeps_its_promises() -> None:
    run_state_machine_as_test(
        DispatcherMachine,
        settings=settings(max_examples=1000 if LONG else 60, stateful_step_count=40, deadline=None),
    )


@settings(deadline=None, max_examples=60)
@given(
    crowd=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), max_size=6),
    events=st.integers(0, 20),
)
def test_what_there_is_goes_to_the_highest_priorities(
    crowd: list[tuple[int, int]], events: int
) -> None:
    room = Room(Desk())
    room.desk.publish(*[b"."] * events)
    takers = [
        room.taker(f"taker {number}", credit, priority=priority)
        for number, (priority, credit) in enumerate(crowd)
    ]

    room.run()

    left = events
    for level in sorted({priority for priority, _ in crowd}, reverse=True):
        wanted = sum(credit for priority, credit in crowd if priority == level)
        assert sum(each.count for each in takers if each.consumer.priority == level) == min(
            wanted, left
        )
        left -= min(wanted, left)

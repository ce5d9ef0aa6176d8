"""After a pause of the process, no member expires whose heartbeats were received but not read."""

import asyncio
from collections.abc import Iterator

import pytest
from msgspec.structs import replace
from tests.broker.groups.classic.consumers import JOIN

from mainstem.broker.broker import Broker
from mainstem.log.memory import MemoryLog
from mainstem.node.broker_clock import BrokerClock

SESSION_MS = 30_000


class Clock:
    """One clock for the event loop and the broker."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def now_ms(self) -> int:
        return int(self.seconds * 1000)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def loop(clock: Clock) -> Iterator[asyncio.AbstractEventLoop]:
    found = asyncio.new_event_loop()
    found.time = lambda: clock.seconds  # type: ignore[method-assign]
    yield found
    found.close()


async def turns() -> None:
    """Let the loop do all that is due."""
    for _ in range(5):
        await asyncio.sleep(0)


def member(broker: Broker) -> None:
    timeouts = {"session_timeout_ms": SESSION_MS, "rebalance_timeout_ms": SESSION_MS}
    broker.classic.join(replace(JOIN, **timeouts), lambda _: None)


def has_member(broker: Broker) -> bool:
    return bool(broker.classic.describe("g").members)


@pytest.mark.parametrize("late_s", [0.1, 0.9])
def test_who_is_silent_for_too_long_is_thrown_out(
    loop: asyncio.AbstractEventLoop, clock: Clock, late_s: float
) -> None:
    async def main() -> tuple[bool, bool]:
        _, broker = broker_on(clock)
        member(broker)
        await turns()
        clock.seconds += SESSION_MS / 1000 - 1
        await turns()
        before = has_member(broker)
        clock.seconds += 1 + late_s
        await turns()
        return before, has_member(broker)

    assert loop.run_until_complete(main()) == (True, False)


def test_a_clock_that_was_stopped_ticks_no_more(
    loop: asyncio.AbstractEventLoop, clock: Clock
) -> None:
    async def main() -> bool:
        ticking, broker = broker_on(clock)
        member(broker)
        ticking.stop()
        await turns()
        clock.seconds += SESSION_MS / 1000
        await turns()
        return has_member(broker)

    assert loop.run_until_complete(main())


def test_after_a_pause_there_is_time_to_read_what_was_said_meanwhile(
    loop: asyncio.AbstractEventLoop, clock: Clock
) -> None:
    async def main() -> tuple[bool, bool, bool]:
        ticking, broker = broker_on(clock)
        member(broker)
        await turns()
        clock.seconds += 3 * SESSION_MS / 1000
        await turns()
        after = has_member(broker)
        # Whoever says something does not make the others be thrown out.
        ticking.look()
        await turns()
        still = has_member(broker)
        clock.seconds += 2
        await turns()
        return after, still, has_member(broker)

    assert loop.run_until_complete(main()) == (True, True, False)


def test_an_error_of_the_broker_does_not_stop_the_clock(
    loop: asyncio.AbstractEventLoop, clock: Clock
) -> None:
    class Failing(Broker):
        """A broker that fails once."""

        fails = True

        def tick(self) -> None:
            """Fail the first time."""
            if self.fails:
                self.fails = False
                raise IndexError("a bug")
            super().tick()

    async def main() -> bool:
        broker = Failing(MemoryLog(now_ms=clock.now_ms), clock.now_ms)
        ticking = BrokerClock(broker)
        member(broker)
        await turns()
        with pytest.raises(IndexError):
            ticking.catch_up()
        clock.seconds += SESSION_MS / 1000 + 0.1
        await turns()
        return has_member(broker)

    assert not loop.run_until_complete(main())


def broker_on(clock: Clock) -> tuple[BrokerClock, Broker]:
    broker = Broker(MemoryLog(now_ms=clock.now_ms), clock.now_ms)
    return BrokerClock(broker), broker

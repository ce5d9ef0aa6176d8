"""Confirmations are sent in the order of the requests, and never for failed ones."""

import asyncio
from collections.abc import Callable

import pytest
from tests.heads.contexts import context_on

from mainstem.broker.broker import Broker
from mainstem.core.errors import MainstemError, StorageFailed
from mainstem.heads.confirmations import Confirmations
from mainstem.log.memory import MemoryLog


class Promise:
    """An append that becomes durable, or never does, when a test says so."""

    def __init__(self) -> None:
        self.done = False
        self._error: MainstemError | None = None
        self._calls: list[Callable[[MainstemError | None], None]] = []

    def wait(self, timeout: float | None = None) -> bool:
        raise NotImplementedError

    def hand_over(self) -> None:
        raise NotImplementedError

    def then(self, call: Callable[[MainstemError | None], None]) -> None:
        if self.done:
            call(self._error)
        else:
            self._calls.append(call)

    def decide(self, error: MainstemError | None = None) -> None:
        self.done, self._error = True, error
        for call in self._calls:
            call(error)


class Told:
    """What a peer was told."""

    def __init__(self) -> None:
        broker = Broker(MemoryLog(now_ms=lambda: 0), lambda: 0)
        self.failures: list[MainstemError] = []
        self.confirmed: list[str] = []
        context = context_on(broker, lambda: 0)
        self.confirmations = Confirmations(context, self.failures.append)

    def confirm(self, what: str) -> None:
        self.confirmations.when_durable(lambda: self.confirmed.append(what))

    async def rest(self) -> list[str]:
        for _ in range(5):
            await asyncio.sleep(0)
        return self.confirmed


async def test_what_needs_no_disk_is_confirmed_soon() -> None:
    told = Told()
    told.confirm("a")

    assert told.confirmations.is_all_durable
    assert await told.rest() == ["a"]


@pytest.mark.parametrize("count", [1, 2])
async def test_nothing_is_confirmed_before_what_was_asked_for_before(count: int) -> None:
    told = Told()
    appends = [Promise() for _ in range(count)]
    for each in appends:
        told.confirmations.not_before(each)
    told.confirm("after all")
    # Appends become durable in their order.
    for each in appends:
        assert await told.rest() == []
        assert not told.confirmations.is_all_durable
        each.decide()

    assert await told.rest() == ["after all"]
    assert told.confirmations.is_all_durable


async def test_what_fails_is_told_once_and_never_confirmed() -> None:
    told, append = Told(), Promise()
    told.confirmations.not_before(append)
    told.confirmations.not_before(append)
    told.confirm("never")

    append.decide(StorageFailed("the disk is gone"))

    assert await told.rest() == []
    assert [str(each) for each in told.failures] == ["the disk is gone"]

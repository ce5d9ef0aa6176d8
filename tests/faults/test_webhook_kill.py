"""Webhooks while receivers misbehave and the server is killed: nothing is lost or out of order.

Receivers crash and come back, answer too late, with errors or redirects inward, or reset. A server
is killed (kill -9) again and again. In the end every receiver has accepted every event, those with
an order in that order, one that has said 410 nothing more, and all of it is in the attempt log.
"""

import asyncio
import random
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from signal import SIGKILL
from typing import Any

import msgspec
import pytest
from aiohttp import web
from standardwebhooks import Webhook
from tests.heads.server_process import Process
from tests.heads.webhooks.receiver import Receiver, receiving
from tests.heads.webhooks.served import SETTINGS, secret_in
from tests.long_runs import LONG, seeds
from tests.loop_thread import entered
from tests.processes import wait_until

import mainstem
from mainstem.client.connected.admin_api import change_at, read_at
from mainstem.core.topic_settings import Durability
from mainstem.heads.webhooks.adapter.attempts import Attempt
from mainstem.heads.webhooks.endpoints import Order, Payload
from mainstem.heads.webhooks.operations import (
    ADD,
    ATTEMPTS,
    LIST,
    AddEndpoint,
    EndpointInfo,
    Secured,
)
from mainstem.remote.admin import Admin
from mainstem.remote.admin_address import admin_port
from mainstem.remote.cluster import Cluster

EVENTS = 5_000 if LONG else 1_000
KILLS = 10 if LONG else 3
KEYS = 20
TIMEOUT_S = 60.0


class Misbehaving:
    """A receiver that accepts most requests, and remembers what it has accepted, in order."""

    def __init__(self, stack: ExitStack, seed: int, inside: Receiver) -> None:
        self._stack, self._chance = stack, random.Random(seed)
        self._inside = inside
        self.accepted: list[tuple[int, int, str]] = []
        """Partition, offset and key, of each accepted request."""
        self.answered: Counter[int] = Counter()
        self.crashes = 0
        self._running: Any = None
        self.port = 0
        self.start()

    def start(self) -> None:
        """Listen, at the same port as before."""
        self._running = entered(receiving(port=self.port))
        receiver = self._running.__enter__()
        receiver.answering = self.answer
        self.port = receiver.port
        self.url = receiver.url

    def crash(self) -> None:
        """Break off all connections, and listen no more."""
        self.crashes += 1
        self._running.__exit__(None, None, None)

    async def answer(self, request: web.Request, body: bytes) -> web.StreamResponse:
        event = Webhook(secret_in("signing")).verify(body, dict(request.headers))
        kind = self._chance.random()
        if kind < 0.08:
            return self._status(self._chance.choice([500, 502, 404, 429]))
        if kind < 0.11:
            self.answered[307] += 1
            return web.Response(status=307, headers={"Location": self._inside.url})
        if kind < 0.14:
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        if kind < 0.142:
            await asyncio.sleep(0.5)
        self.accepted.append((event["partition"], event["offset"], event["key"]))
        return self._status(204)

    def _status(self, status: int) -> web.Response:
        self.answered[status] += 1
        return web.Response(status=status, headers={"Retry-After": "0"})


class Gone(Misbehaving):
    """A receiver that is gone after some requests."""

    async def answer(self, request: web.Request, body: bytes) -> web.StreamResponse:
        return self._status(204 if sum(self.answered.values()) < 10 else 410)


@contextmanager
def server(path: Path) -> Iterator[Process]:
    """Run a server whose webhooks may go to loopback."""
    with Process(
        path,
        durability=Durability.DISK,
        webhooks__listen="127.0.0.1:0",
        webhooks__allow="127.0.0.0/8",
        webhooks__secrets=SETTINGS.secrets,
    ) as found:
        yield found


def ask(process: Process, operation: str, given: msgspec.Struct | dict[str, str], kind: Any) -> Any:
    """Call an operation of the admin port."""
    cluster = Cluster(process.address, timeout_s=TIMEOUT_S, settings={})
    administration = Admin(cluster)
    try:
        port = admin_port(administration)
    finally:
        administration.close()
    if isinstance(given, dict):
        return read_at(port, TIMEOUT_S, operation, given, kind)
    return change_at(port, TIMEOUT_S, operation, given, kind)


def endpoints(process: Process) -> dict[str, EndpointInfo]:
    found: list[EndpointInfo] = ask(process, LIST, {}, list[EndpointInfo])
    return {each.name: each for each in found}


def add(process: Process, name: str, url: str, order: Order) -> None:
    asked = AddEndpoint(
        name=name,
        url=url,
        topics="orders",
        secret="file:signing",
        order=order,
        payload=Payload.ENVELOPE,
        retries_ms=(10,) * 100,
        jitter=1.0,
        timeout_ms=250,
    )
    ask(process, ADD, asked, Secured)


@pytest.mark.minutes
@pytest.mark.parametrize("seed", seeds(1, 1, 10))
def test_nothing_is_lost_by_receivers_that_misbehave_and_kills_of_the_server(
    tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    with ExitStack() as stack:
        inside = stack.enter_context(entered(receiving()))
        receivers = {
            order: Misbehaving(stack, seed + place, inside) for place, order in enumerate(Order)
        }
        gone = Gone(stack, seed, inside)
        for each in [*receivers.values(), gone]:
            stack.callback(each.crash)
        with server(tmp_path) as process:
            with mainstem.connect(process.address) as stem:
                stem.topics.create("orders", partitions=2)
            for order, receiver in receivers.items():
                add(process, order, receiver.url, order)
            add(process, "gone", gone.url, Order.ENDPOINT)
            publish(process, 0, EVENTS // 2)
            wait_until(lambda: endpoints(process)["gone"].status == "disabled", "no 410")
            kill_when(process, receivers[Order.PARALLEL], EVENTS // 8)
        asked = sum(gone.answered.values())
        for number in range(1, KILLS):
            with server(tmp_path) as process:
                publish(process, *part(number))
                victim = chance.choice(list(receivers.values()))
                victim.crash()
                enough = len(receivers[Order.KEY].accepted) + EVENTS // 10
                restart = threading.Timer(0.3, victim.start)
                restart.start()
                kill_when(process, receivers[Order.KEY], min(enough, EVENTS // 2))
                restart.join()
        with server(tmp_path) as process:
            publish(process, *part(KILLS))
            wait_until(lambda: settled(process), lambda: str(endpoints(process)))

            check(process, receivers, inside)
            assert gone.answered[410] == 1
            assert sum(gone.answered.values()) == asked
            assert endpoints(process)["gone"].status == "disabled"


def part(number: int) -> tuple[int, int]:
    """Return which of the later events are published in a run of the server."""
    size = EVENTS // 2 // KILLS
    first = EVENTS // 2 + (number - 1) * size
    return first, EVENTS if number == KILLS else first + size


def publish(process: Process, first: int, end: int) -> None:
    with mainstem.connect(process.address) as stem:
        for number in range(first, end):
            stem.publish("orders", {"n": number}, key=f"k{number % KEYS}")


def kill_when(process: Process, receiver: Misbehaving, accepted: int) -> None:
    """Kill the server once a receiver has accepted so many requests."""
    wait_until(lambda: len(receiver.accepted) >= accepted, lambda: str(endpoints(process)))
    process.tell(SIGKILL)
    process.wait()


def settled(process: Process) -> bool:
    found = endpoints(process)
    return all(each.waiting == 0 for name, each in found.items() if name != "gone")


def check(process: Process, receivers: dict[Order, Misbehaving], inside: Receiver) -> None:
    """Check what receivers have accepted, and that all of it was logged."""
    with mainstem.connect(process.address) as stem:
        assert stem.topics.show("orders").events == EVENTS
    everything = set(events_of(receivers[Order.PARALLEL].accepted))
    assert len(everything) == EVENTS
    for order, receiver in receivers.items():
        assert set(events_of(receiver.accepted)) == everything
        asked = {"name": order.value, "limit": "10000"}
        logged: list[Attempt] = ask(process, ATTEMPTS, asked, list[Attempt])
        delivered = {
            (each.partition, each.offset) for each in logged if each.verdict == "delivered"
        }
        assert delivered == everything
        assert sum(each.status == 500 for each in logged) > 0
    first = list(dict.fromkeys(receivers[Order.ENDPOINT].accepted))
    for partition in (0, 1):
        offsets = [offset for each, offset, _ in first if each == partition]
        assert offsets == sorted(offsets)
    first = list(dict.fromkeys(receivers[Order.KEY].accepted))
    for key in {key for _, _, key in first}:
        offsets = [offset for _, offset, each in first if each == key]
        assert offsets == sorted(offsets)
    # Redirects were answered, and none was followed.
    assert all(each.answered[307] for each in receivers.values())
    assert inside.came == []


def events_of(accepted: list[tuple[int, int, str]]) -> list[tuple[int, int]]:
    return [(partition, offset) for partition, offset, _ in accepted]

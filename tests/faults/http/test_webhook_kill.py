"""Webhooks while receivers misbehave and the server is killed: nothing is lost or out of order.

Receivers crash and come back, answer too late, with errors or redirects inward, or reset. A server
is killed (kill -9) again and again, by a plan that hypothesis draws. In the end every receiver has
accepted every event, those with an order in that order, one that has said 410 nothing more, and all
of it is in the attempt log.
"""

import asyncio
import itertools
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from signal import SIGKILL
from typing import Any, NamedTuple

import msgspec
import pytest
from aiohttp import web
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from standardwebhooks import Webhook
from tests.heads.server_process import Process
from tests.heads.webhooks.receiver import Receiver, receiving
from tests.heads.webhooks.served import SETTINGS, secret_in
from tests.long_runs import LONG
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

EVENTS = 5_000 if LONG else 700
"""Events of one plan, each of which goes to several receivers."""
PLANS = 30 if LONG else 2
MOST_LATE = 5
"""How often a receiver answers too late at most, as that takes its time."""
KEYS = 20
TIMEOUT_S = 60.0

STATUSES = (500, 502, 404, 429)
REDIRECT, RESET, LATE = 307, 0, -1
"""What a receiver may do besides: redirect inward, break the connection off, answer too late."""


class Fault(NamedTuple):
    """So many requests are accepted, and the next ones fail."""

    after: int
    kind: int
    times: int


class Run(NamedTuple):
    """What happens while the server runs once, until it is killed."""

    share: int
    """How many events are published, beside the shares of other runs."""
    watched: Order
    """The receiver that decides when the server is killed."""
    accepted: float
    """It is killed once that receiver has accepted this part of all published events."""
    crashed: Order | None
    """The receiver that crashes after the events are published, and comes back."""


class Plan(NamedTuple):
    """How receivers misbehave, and when the server is killed."""

    faults: dict[Order, list[Fault]]
    """Of each receiver, again and again from the first to the last."""
    runs: list[Run]
    last_share: int
    """How many events are published in the last run, which is not killed."""
    gone: int
    """The run in which the receiver ``gone`` begins to say 410."""


FAULTS = st.lists(
    st.builds(
        Fault,
        st.integers(5, 60),
        # Few of the slow kinds: a request that is not answered in time holds others up.
        st.sampled_from([*STATUSES * 2, REDIRECT, RESET]) | st.sampled_from([*STATUSES, LATE]),
        st.integers(1, 3),
    ),
    max_size=12,
)
RUNS = st.lists(
    st.builds(
        Run,
        st.integers(0, 5),
        st.sampled_from(Order),
        st.floats(0, 1),
        st.none() | st.sampled_from(Order),
    ),
    min_size=1,
    max_size=10 if LONG else 3,
)
PLAN = st.builds(
    Plan,
    st.fixed_dictionaries(dict.fromkeys(Order, FAULTS)),
    RUNS,
    st.integers(1, 5),
    st.integers(0, 10),
)
EVERY_FAULT = [
    *(Fault(5, each, 2) for each in (*STATUSES, REDIRECT, RESET)),
    Fault(60, LATE, 1),
    Fault(60, 500, 3),
]
EVERYTHING = Plan(
    dict.fromkeys(Order, EVERY_FAULT),
    [
        Run(4, Order.PARALLEL, 0.3, None),
        Run(2, Order.KEY, 0.9, Order.ENDPOINT),
        Run(1, Order.ENDPOINT, 0.5, Order.PARALLEL),
    ],
    1,
    0,
)


class Misbehaving:
    """A receiver that accepts most requests, and remembers what it has accepted, in order."""

    def __init__(self, faults: list[Fault], inside: Receiver) -> None:
        self._kinds = itertools.cycle(kinds(faults))
        self._inside = inside
        self.accepted: list[tuple[int, int, str]] = []
        """Partition, offset and key, of each accepted request."""
        self.answered: Counter[int] = Counter()
        self.lates = 0
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
        self._running.__exit__(None, None, None)

    async def answer(self, request: web.Request, body: bytes) -> web.StreamResponse:
        event = Webhook(secret_in("signing")).verify(body, dict(request.headers))
        kind = next(self._kinds)
        if kind in STATUSES:
            return self._status(kind)
        if kind == REDIRECT:
            self.answered[kind] += 1
            return web.Response(status=kind, headers={"Location": self._inside.url})
        if kind == RESET:
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        if kind == LATE and self.lates < MOST_LATE:
            self.lates += 1
            await asyncio.sleep(0.5)
        self.accepted.append((event["partition"], event["offset"], event["key"]))
        return self._status(204)

    def _status(self, status: int) -> web.Response:
        self.answered[status] += 1
        return web.Response(status=status, headers={"Retry-After": "0"})


def kinds(faults: list[Fault]) -> list[int]:
    """Return what becomes of one request after the other."""
    found = [204]
    for each in faults:
        found += [204] * each.after + [each.kind] * each.times
    return found


class Gone(Misbehaving):
    """A receiver that accepts requests until it is gone."""

    is_gone = False

    async def answer(self, request: web.Request, body: bytes) -> web.StreamResponse:
        return self._status(410 if self.is_gone else 204)


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
@pytest.mark.timeout(4 * 3600 if LONG else 300)
@settings(
    max_examples=PLANS,
    deadline=None,
    # A plan that fails is shown as it is: to try smaller ones takes a minute each.
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(PLAN)
@example(EVERYTHING)
def test_nothing_is_lost_by_receivers_that_misbehave_and_kills_of_the_server(plan: Plan) -> None:
    with ExitStack() as stack:
        path = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        inside = stack.enter_context(entered(receiving()))
        receivers = {order: Misbehaving(plan.faults[order], inside) for order in Order}
        gone = Gone([], inside)
        for each in [*receivers.values(), gone]:
            stack.callback(each.crash)
        published, asked = 0, 0
        for number, (run, end) in enumerate(zip(plan.runs, ends(plan), strict=False)):
            with server(path) as process:
                if number == 0:
                    define(process, receivers, gone)
                publish(process, published, end)
                published = end
                if number == min(plan.gone, len(plan.runs) - 1):
                    asked = leave(process, gone)
                restart = crash(receivers[run.crashed]) if run.crashed else None
                kill_when(process, receivers[run.watched], int(run.accepted * published))
                if restart:
                    restart.join()
        with server(path) as process:
            publish(process, published, EVENTS)
            wait_until(lambda: settled(process), lambda: str(endpoints(process)))

            check(process, receivers, inside)
            assert gone.answered[410] == 1
            assert sum(gone.answered.values()) == asked
            assert endpoints(process)["gone"].status == "disabled"


def ends(plan: Plan) -> list[int]:
    """Return how many events there are after each run; the first one publishes some."""
    shares = [max(plan.runs[0].share, 1), *(run.share for run in plan.runs[1:]), plan.last_share]
    return [EVENTS * so_far // sum(shares) for so_far in itertools.accumulate(shares)]


def define(process: Process, receivers: dict[Order, Misbehaving], gone: Gone) -> None:
    """Create the topic and the endpoints."""
    with mainstem.connect(process.address) as stem:
        stem.topics.create("orders", partitions=2)
    for order, receiver in receivers.items():
        add(process, order, receiver.url, order)
    add(process, "gone", gone.url, Order.ENDPOINT)


def leave(process: Process, gone: Gone) -> int:
    """Be gone from the next request on, and see it noticed; return how many requests there were."""
    gone.is_gone = True
    with mainstem.connect(process.address) as stem:
        # It may have had all events.
        stem.publish("orders", {"n": -1}, key="k0")
    wait_until(lambda: endpoints(process)["gone"].status == "disabled", "no 410")
    return sum(gone.answered.values())


def crash(victim: Misbehaving) -> threading.Timer:
    """Break off a receiver, which soon comes back."""
    victim.crash()
    restart = threading.Timer(0.3, victim.start)
    restart.start()
    return restart


def publish(process: Process, first: int, end: int) -> None:
    with mainstem.connect(process.address) as stem:
        for start in range(first, end, 10):
            events = [
                mainstem.Event(b"%d" % it, b"k%d" % (it % KEYS))
                for it in range(start, min(start + 10, end))
            ]
            stem.publish_many("orders", events)


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
        assert stem.topics.show("orders").events == EVENTS + 1
    everything = set(events_of(receivers[Order.PARALLEL].accepted))
    assert len(everything) == EVENTS + 1
    for order, receiver in receivers.items():
        assert set(events_of(receiver.accepted)) == everything
        asked = {"name": order.value, "limit": "10000"}
        logged: list[Attempt] = ask(process, ATTEMPTS, asked, list[Attempt])
        delivered = {
            (each.partition, each.offset) for each in logged if each.verdict == "delivered"
        }
        assert delivered == everything
        for status in (*STATUSES, REDIRECT):
            # A kill may come between an answer and its entry in the log.
            if receiver.answered[status] > 100:
                assert any(each.status == status for each in logged)
    first = list(dict.fromkeys(receivers[Order.ENDPOINT].accepted))
    for partition in (0, 1):
        offsets = [offset for each, offset, _ in first if each == partition]
        assert offsets == sorted(offsets)
    first = list(dict.fromkeys(receivers[Order.KEY].accepted))
    for key in {key for _, _, key in first}:
        offsets = [offset for _, offset, each in first if each == key]
        assert offsets == sorted(offsets)
    # No redirect was followed.
    assert inside.came == []


def events_of(accepted: list[tuple[int, int, str]]) -> list[tuple[int, int]]:
    return [(partition, offset) for partition, offset, _ in accepted]

"""Deliveries on a clock of the test, by plans that hypothesis draws: answers, time, restarts.

A receiver that has said 410 gets nothing more until an operator resumes the endpoint.

The receiver is a port of the head, in the test's hands: it answers when and as the plan says. The
broker, its queues and the head's own code are the real ones.
"""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.broker.brokers import Clock, new_broker, read_all
from tests.heads.contexts import context_on
from tests.heads.webhooks.served import SETTINGS
from tests.long_runs import LONG

from mainstem.broker.broker import Broker
from mainstem.core.event import Event
from mainstem.heads.webhooks.adapter.attempts import TOPIC, Attempt, create_attempt_log
from mainstem.heads.webhooks.adapter.endpoints import Endpoints
from mainstem.heads.webhooks.adapter.service import Service
from mainstem.heads.webhooks.client import Request
from mainstem.heads.webhooks.endpoints import Endpoint, Order, Payload, Status
from mainstem.heads.webhooks.payloads import message_id
from mainstem.heads.webhooks.schedule import GONE, Answer
from mainstem.heads.webhooks.secret_store import SecretStore
from mainstem.log.memory import MemoryLog

RETRIES_MS = (1_000, 5_000, 60_000)
EVENTS = 12


class Sent(NamedTuple):
    """A request that waits for its answer."""

    id: str
    done: Callable[[Answer], None]


class Receiver:
    """Takes requests, and answers when it is told to."""

    def __init__(self) -> None:
        self.open: list[Sent] = []
        self.log: list[tuple[str, Answer]] = []
        """Each answered request: its id, and the answer."""
        self.sent = self.sent_at_410 = 0
        """How many requests there were, and how many until 410 was said."""

    def send(self, request: Request, done: Callable[[Answer], None]) -> None:
        """Take a request."""
        assert "webhook-signature" not in request.headers
        self.sent += 1
        self.open.append(Sent(request.headers["webhook-id"], done))

    def answer(self, place: int, answer: Answer) -> None:
        """Answer one of the open requests."""
        sent = self.open.pop(place % len(self.open))
        self.log.append((sent.id, answer))
        if answer.status == GONE:
            self.sent_at_410 = self.sent
        sent.done(answer)


class Running(NamedTuple):
    """The head's endpoints on a log."""

    broker: Broker
    endpoints: Endpoints
    receiver: Receiver


ANSWERS = st.sampled_from(
    [
        Answer(200),
        Answer(204),
        Answer(500),
        Answer(429, retry_after_ms=30_000),
        Answer(503, retry_after_ms=2_000),
        Answer(302),
        Answer(410),
        Answer(error="no answer within 15 s"),
    ]
)
STEPS = st.lists(
    st.tuples(st.just("answer"), st.integers(0, 20), ANSWERS)
    | st.tuples(st.just("wait"), st.sampled_from([500, 1_200, 6_000, 70_000]), st.none())
    | st.tuples(st.just("restart"), st.none(), st.none())
    | st.tuples(st.just("resume"), st.none(), st.none()),
    max_size=40,
)


@settings(max_examples=3_000 if LONG else 60, deadline=None)
@given(st.sampled_from(Order), STEPS, st.integers(1, 4))
def test_whatever_happens_every_event_is_delivered_or_a_dead_letter_and_logged(
    order: Order, steps: list[tuple[str, object, object]], most: int
) -> None:
    endpoint = Endpoint(
        name="shop",
        url="https://shop.example/",
        topics="orders",
        order=order,
        retries_ms=RETRIES_MS,
        jitter=0.0,
        max_in_flight=most,
        payload=Payload.VALUE,
    )

    async def scenario() -> None:
        clock, log, history = Clock(), MemoryLog(), list[tuple[str, Answer]]()
        running = start(log, clock)
        running.broker.create_topic("orders")
        running.endpoints.add(endpoint, from_start=True)
        events = [Event(b"%d" % number, b"k%d" % (number % 3)) for number in range(EVENTS)]
        running.broker.publish("orders", events)
        for name, first, second in steps:
            await settle()
            check_limits(running, endpoint)
            if name == "answer" and running.receiver.open:
                assert isinstance(first, int)
                assert isinstance(second, Answer)
                await answer(running, first, second)
            elif name == "wait":
                assert isinstance(first, int)
                await wait(running, clock, first)
            elif name == "resume":
                running.endpoints.pause("shop", "by a test")
                running.endpoints.resume("shop")
            elif name == "restart":
                # As after kill -9: nobody hears the answers to what is under way.
                history += running.receiver.log
                was = running.endpoints.state("shop").status
                running = start(log, clock)
                assert running.endpoints.state("shop").status is was
        await finish(running, clock)
        check(running, [*history, *running.receiver.log], order)

    asyncio.run(scenario())


def start(log: MemoryLog, clock: Clock) -> Running:
    """Open the log as a new process does, and start the head's endpoints on it."""
    broker, receiver = new_broker(log, clock), Receiver()
    context = context_on(broker, clock)
    create_attempt_log(context, SETTINGS)
    service = Service(context, SETTINGS, receiver, SecretStore(None, {}), clock, lambda: 0.0)
    endpoints = Endpoints(service)
    endpoints.start()
    return Running(broker, endpoints, receiver)


async def answer(running: Running, place: int, given: Answer) -> None:
    """Answer an open request; one that says 410 disables the endpoint."""
    running.receiver.answer(place, given)
    await settle()
    if given.status == GONE:
        assert running.endpoints.state("shop").status is Status.DISABLED


async def settle() -> None:
    """Let the dispatcher and the collected settlements have their turn, a millisecond later."""
    await asyncio.sleep(0.003)


async def wait(running: Running, clock: Clock, duration_ms: int) -> None:
    """Move the clock; timers of the loop that wait for Retry-After are made to look again."""
    clock.now_ms += duration_ms
    running.broker.tick()
    if running.endpoints.state("shop").status is Status.ACTIVE:
        running.endpoints.pause("shop", "by a test")
        running.endpoints.resume("shop")
    await settle()


async def finish(running: Running, clock: Clock) -> None:
    """Resume the endpoint, and accept everything from now on, until nothing is left."""
    running.endpoints.resume("shop")
    for _ in range(1_000):
        await settle()
        while running.receiver.open:
            running.receiver.answer(0, Answer(200))
            await settle()
        if not running.broker.queues.show("orders", "webhook.shop").windows[0].unsettled:
            return
        await wait(running, clock, 70_000)
    raise AssertionError("events are left")


def check_limits(running: Running, endpoint: Endpoint) -> None:
    """Check that what may be open at the same time by the order is, and nothing after 410."""
    receiver = running.receiver
    if running.endpoints.state("shop").status is Status.DISABLED:
        assert receiver.sent == receiver.sent_at_410
    ids = [int(each.id.rpartition("_")[2]) for each in receiver.open]
    if endpoint.order is Order.ENDPOINT:
        assert len(ids) <= 1
    if endpoint.order is Order.KEY:
        keys = [each % 3 for each in ids]
        assert len(keys) == len(set(keys))


def check(running: Running, history: list[tuple[str, Answer]], order: Order) -> None:
    topic = running.broker.topic("orders")
    ids = [message_id(topic.id, each.position) for each in read_all(running.broker, "orders")]
    dead = {it.value for it in read_dead(running.broker)}
    accepted = [each for each, answer in history if answer.is_success]
    attempts = [
        msgspec.json.decode(each.value or b"", type=Attempt)
        for each in read_all(running.broker, TOPIC)
    ]
    for number, each in enumerate(ids):
        is_dead = b"%d" % number in dead
        of_event = [it for it in attempts if it.id == each]
        # At least once, and what is settled is logged.
        assert is_dead or each in accepted
        assert of_event[-1].verdict == ("dead" if is_dead else "delivered")
        if is_dead:
            assert of_event[-1].attempt > len(RETRIES_MS)
        for attempt in of_event:
            if attempt.retry_ms is not None:
                assert attempt.retry_ms >= RETRIES_MS[attempt.attempt - 1]
    firsts = [int(it.rpartition("_")[2]) for it in dict.fromkeys(accepted)]
    if order is Order.ENDPOINT:
        assert firsts == sorted(firsts)
    if order is Order.KEY:
        for key in range(3):
            of_key = [it for it in firsts if it % 3 == key]
            assert of_key == sorted(of_key)


def read_dead(broker: Broker) -> list[Event]:
    return read_all(broker, "orders.dead") if broker.topics("orders.dead") else []

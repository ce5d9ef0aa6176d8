"""A ZeroMQ head in the test's event loop, and sockets of pyzmq as its peers."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping

import msgspec
import zmq
from tests.broker.brokers import Clock, new_broker
from tests.heads.contexts import context_on
from tests.heads.started import running_head
from tests.heads.transport.echo import until

from mainstem.auth import Auth
from mainstem.broker.broker import Broker
from mainstem.core.event import Event
from mainstem.core.topic_settings import TopicSettings
from mainstem.heads.brokerless.codec import Answer, Published, decode_answer, decode_event
from mainstem.heads.head import Head, HeadSettings, RunningHead
from mainstem.heads.metric import Metric
from mainstem.heads.zmq import HEAD
from mainstem.heads.zmq.adapter import ZmqHead
from mainstem.heads.zmq.settings import ZmqSettings

TOPIC = "orders"


def broker_with_topic(name: str = TOPIC, **settings: object) -> Broker:
    """Return a broker in memory that has the topic."""
    broker = new_broker()
    broker.create_topic(name, TopicSettings().altered(**settings))
    return broker


class ServedZmq(msgspec.Struct, eq=False):
    """A running head, and a context for its peers."""

    broker: Broker
    head: ZmqHead
    peers: "zmq.Context[zmq.Socket[bytes]]"
    opened: list["zmq.Socket[bytes]"]
    """So that none is closed by the garbage collector."""

    @property
    def replay_url(self) -> str:
        return f"tcp://{self.head.address}"

    def socket(self, kind: int, url: str = "", **options: int | bytes) -> "zmq.Socket[bytes]":
        """Return a socket that is connected to the head."""
        found = self.peers.socket(kind)
        self.opened.append(found)
        found.setsockopt(zmq.LINGER, 0)
        for name, value in options.items():
            found.set(getattr(zmq, name), value)
        found.connect(url or self.replay_url)
        return found

    async def subscriber(self, prefix: bytes, **options: int | bytes) -> "zmq.Socket[bytes]":
        """Return a SUB socket whose subscription the head knows."""
        before = self.told(prefix)
        found = self.socket(zmq.SUB, f"tcp://{self.head.publishes_at}", **options)
        found.setsockopt(zmq.SUBSCRIBE, prefix)
        await until(lambda: self.told(prefix) > before and not self.head._is_due)
        return found

    def told(self, prefix: bytes) -> int:
        return self.head._subscriptions.told(prefix)

    async def publish(self, *events: Event, topic: str = TOPIC) -> None:
        for each in events:
            self.broker.publish(topic, [each])
        await asyncio.sleep(0)

    def metric(self, wanted: Metric, *labels: str) -> float:
        return sum(
            value
            for metric, (found, value) in self.head.samples()
            if metric is wanted and (not labels or found == labels)
        )


async def received(peer: "zmq.Socket[bytes]") -> list[bytes]:
    """Return the next message of a socket."""
    await until(lambda: peer.poll(0) != 0)
    found: list[bytes] = peer.recv_multipart()
    return found


async def events(peer: "zmq.Socket[bytes]", count: int) -> list[Published]:
    """Return the next events of a SUB socket."""
    return [decode_event(await received(peer)) for _ in range(count)]


async def answer(peer: "zmq.Socket[bytes]", *frames: bytes) -> Answer:
    """Return the answer to a request."""
    peer.send_multipart(frames)
    return decode_answer(await received(peer))


@contextlib.asynccontextmanager
async def head_on(
    broker: Broker,
    head: Head,
    kind: type[HeadSettings],
    auth: Auth | None,
    settings: Mapping[str, object],
) -> AsyncIterator[RunningHead]:
    """Run a head on a broker, with settings of its kind, until the block ends."""
    wanted = msgspec.convert(settings, kind)
    async with running_head(head, wanted, context_on(broker, Clock(), auth=auth)) as running:
        yield running


@contextlib.asynccontextmanager
async def serving(
    broker: Broker | None = None, auth: Auth | None = None, **settings: object
) -> AsyncIterator[ServedZmq]:
    """Run a head until the block ends."""
    broker = broker or broker_with_topic()
    opened: list[zmq.Socket[bytes]] = []
    with zmq.Context[zmq.Socket[bytes]]() as peers:
        try:
            async with head_on(broker, HEAD, ZmqSettings, auth, settings) as head:
                assert isinstance(head, ZmqHead)
                yield ServedZmq(broker, head, peers, opened)
        finally:
            for each in opened:
                each.close(0)

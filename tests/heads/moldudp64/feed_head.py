"""A head that publishes the topic ``trades``, and a receiver's sockets to it."""

import asyncio
import contextlib
import itertools
import os
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
from tests.broker.brokers import Clock, new_broker
from tests.client.feeds.relay import LOOPBACK, joined
from tests.heads.contexts import context_on
from tests.heads.started import nothing_unexpected
from tests.heads.transport.echo import until

import mainstem
from mainstem.auth import Auth
from mainstem.broker.broker import Broker
from mainstem.core.event import Event
from mainstem.core.topic_settings import TopicSettings
from mainstem.heads.addresses import Address
from mainstem.heads.metric import Metric
from mainstem.heads.moldudp64 import HEAD
from mainstem.heads.moldudp64.adapter import MoldHead
from mainstem.heads.moldudp64.codec import Packet, Request, decode_packet, encode_request
from mainstem.heads.moldudp64.settings import MoldSettings

TOPIC = "trades"
_ports = itertools.count(31_000 + os.getpid() % 1_000 * 20)


def new_group() -> str:
    """Return a multicast group that no other test uses at this time."""
    pid = os.getpid()
    return f"239.255.{pid // 250 % 250}.{pid % 250 + 1}:{next(_ports)}"


def broker_with_topic(**settings: object) -> Broker:
    """Return a broker in memory that has the topic."""
    broker = new_broker()
    broker.create_topic(TOPIC, TopicSettings().altered(**settings))
    return broker


def store_trades(path: Path) -> None:
    """Publish 5,000 events to the topic in a directory that a server opens later."""
    with mainstem.open(path) as stem:
        stem.topics.create(TOPIC, partitions=1)
        stem.publish_many(TOPIC, [Event(b"x" * 100) for _ in range(5_000)])


class Receiver(asyncio.DatagramProtocol):
    """Collects packets."""

    def __init__(self) -> None:
        self.packets: list[Packet] = []
        self.sizes: list[int] = []
        self.transport: asyncio.DatagramTransport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]

    def datagram_received(self, data: bytes, addr: object) -> None:
        self.packets.append(decode_packet(data))
        self.sizes.append(len(data))

    def error_received(self, exc: Exception) -> None:
        raise AssertionError(exc)

    @property
    def numbered(self) -> dict[int, bytes]:
        """All messages by their numbers; one number never has two messages."""
        found: dict[int, bytes] = {}
        for packet in self.packets:
            for number, message in enumerate(packet.messages, packet.sequence):
                assert found.setdefault(number, message) == message
        return found


class FeedHead(msgspec.Struct, eq=False):
    """A running head, what it sends to its group, and a peer that sends requests."""

    broker: Broker
    head: MoldHead
    group: Receiver
    peer: Receiver

    def ask(self, sequence: int, count: int, session: str = "S1") -> None:
        self.send(encode_request(Request(session, sequence, count)))

    def send(self, data: bytes) -> None:
        self.peer.transport.sendto(data)

    def outcomes(self) -> dict[str, float]:
        """Return how many requests had each outcome."""
        return {
            labels[0]: count
            for metric, (labels, count) in self.head.samples()
            if metric.name == "mainstem_moldudp64_requests_total"
        }

    def metric(self, wanted: Metric) -> float:
        return sum(count for metric, (_, count) in self.head.samples() if metric is wanted)

    async def answers(self, count: int) -> list[Packet]:
        """Return so many answers once they are there."""
        await until(lambda: len(self.peer.packets) >= count)
        return self.peer.packets

    async def hears(self, count: int) -> list[bytes]:
        """Return the messages of the session once there are so many."""
        await until(lambda: len(self.group.numbered) >= count)
        found = self.group.numbered
        assert sorted(found) == list(range(min(found), min(found) + len(found)))
        return [found[number] for number in sorted(found)]


@contextlib.asynccontextmanager
async def feeding(
    broker: Broker, group: str, *, auth: Auth | None = None, feeds: str = "", **settings: object
) -> AsyncIterator[FeedHead]:
    """Run a head that publishes the topic as session S1."""
    wanted = MoldSettings(feeds=feeds or f"S1={TOPIC}/0@{group}", **settings)  # type: ignore[arg-type]
    context = context_on(broker, Clock(), auth=auth)
    loop = asyncio.get_running_loop()
    async with contextlib.AsyncExitStack() as stack:
        stack.enter_context(nothing_unexpected())
        listener = stack.enter_context(HEAD.bind(wanted, Address(LOOPBACK, 0)))
        at, heard = listener.getsockname(), joined(group)
        heard.setblocking(False)
        _, received = await loop.create_datagram_endpoint(Receiver, sock=heard)
        stack.callback(received.transport.close)
        head = await HEAD.start(context, wanted, listener)
        assert isinstance(head, MoldHead)
        stack.push_async_callback(head.close)
        _, peer = await loop.create_datagram_endpoint(Receiver, remote_addr=at)
        stack.callback(peer.transport.close)
        yield FeedHead(broker, head, received, peer)
        context.drain()
        await head.drain(1, asyncio.Event())

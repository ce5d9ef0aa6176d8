"""An nng head in the test's event loop, and sockets of pynng as its peers."""

import contextlib
from collections.abc import AsyncIterator

import msgspec
import pynng
from tests.heads.transport.echo import until
from tests.heads.zmq.zmq_head import broker_with_topic, head_on

from mainstem.auth import Auth
from mainstem.broker.broker import Broker
from mainstem.heads.brokerless.codec import Answer, decode_answer, joined, parted
from mainstem.heads.metric import Metric
from mainstem.heads.nng import HEAD
from mainstem.heads.nng.adapter import NngHead
from mainstem.heads.nng.settings import NngSettings


class ServedNng(msgspec.Struct, eq=False):
    """A running head."""

    broker: Broker
    head: NngHead
    peers: contextlib.ExitStack

    def subscriber(self, prefix: bytes = b"") -> "pynng.Sub0":
        """Return a subscriber; wait for ``connected``."""
        found = self.peers.enter_context(pynng.Sub0(topics=[prefix]))
        found.dial(f"tcp://{self.head.publishes_at}", block=False)
        return found

    async def connected(self, count: int = 1) -> None:
        await until(lambda: len(self.head.connections()) >= count)

    def metric(self, wanted: Metric, *labels: str) -> float:
        return sum(
            value
            for metric, (found, value) in self.head.samples()
            if metric is wanted and (not labels or found == labels)
        )

    async def answer(self, *frames: bytes) -> Answer:
        with pynng.Req0() as asker:
            asker.dial(f"tcp://{self.head.address}", block=False)
            await asker.asend(joined(frames))
            return decode_answer(parted(await asker.arecv()))


async def received(peer: "pynng.Socket") -> bytes:
    """Return the next message of a socket."""
    found: bytes = await peer.arecv()
    return found


@contextlib.asynccontextmanager
async def serving(
    broker: Broker | None = None, auth: Auth | None = None, **settings: object
) -> AsyncIterator[ServedNng]:
    """Run a head until the block ends."""
    broker = broker or broker_with_topic()
    with contextlib.ExitStack() as peers:
        async with head_on(broker, HEAD, NngSettings, auth, settings) as head:
            assert isinstance(head, NngHead)
            yield ServedNng(broker, head, peers)

"""The webhooks head on a broker in memory, in the test's loop, with real sockets and time."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
from tests.broker.brokers import new_broker
from tests.heads.contexts import context_on
from tests.heads.started import running_head

from mainstem.auth import Auth, Peer
from mainstem.broker.broker import Broker
from mainstem.core.event import Event
from mainstem.heads.context import HeadContext
from mainstem.heads.head import RunningHead
from mainstem.heads.webhooks import HEAD
from mainstem.heads.webhooks.settings import WebhooksSettings
from mainstem.log.memory import MemoryLog

PEER = Peer("127.0.0.1:5")
SETTINGS = WebhooksSettings(allow="127.0.0.0/8", secrets=str(Path(__file__).parent / "secrets"))
"""Receivers of tests are on loopback."""
IN_MEMORY = WebhooksSettings(allow="127.0.0.0/8")
"""With these, secrets can be generated."""


def now_ms() -> int:
    return int(time.time() * 1000)


class RealClock:
    """The time of day, as a broker's clock."""

    def __call__(self) -> int:
        return now_ms()


class Served(msgspec.Struct, eq=False):
    """A running head, and what it runs on."""

    broker: Broker
    context: HeadContext
    running: RunningHead

    async def call(self, operation_name: str, /, **given: object) -> Any:
        """Call an operation of the admin port, in a thread as there."""
        operation = self.context.administration.find(f"webhooks/{operation_name}")
        assert operation is not None
        found = await asyncio.to_thread(operation.run, PEER, given, text=False)
        return msgspec.to_builtins(found)

    async def add(self, url: str, **given: object) -> Any:
        """Add the endpoint ``shop`` of the topic ``orders``, unless told otherwise."""
        asked: dict[str, object] = {"name": "shop", "topics": "orders", "url": url, "jitter": 0.0}
        return await self.call("add", **(asked | given))

    async def attempts(self, **given: object) -> list[dict[str, Any]]:
        asked: dict[str, object] = {"name": "shop", "limit": 10_000}
        found = await self.call("attempts", **(asked | given))
        assert isinstance(found, list)
        return found

    def samples(self) -> list[tuple[str, tuple[str, ...], float]]:
        """Return the head's metrics: name, labels and value."""
        return [(metric.name, *sample) for metric, sample in self.running.samples()]

    def publish(self, *values: bytes, topic: str = "orders", key: bytes | None = None) -> None:
        self.broker.publish(topic, [Event(value, key) for value in values])

    def unsettled(self, topic: str = "orders", name: str = "webhook.shop") -> int:
        return sum(it.unsettled for it in self.broker.queues.show(topic, name).windows)


def secret_in(file: str) -> str:
    """Return one of the secrets that tests know."""
    return (Path(SETTINGS.secrets) / file).read_text().strip()


async def until(true: Callable[[], object], within_s: float = 60) -> None:
    """Let others run until something is true."""
    async with asyncio.timeout(within_s):
        while not true():  # noqa: ASYNC110 - it is the others' turn that is waited for
            await asyncio.sleep(0.005)


@contextlib.asynccontextmanager
async def serving(
    settings: WebhooksSettings = IN_MEMORY,
    log: MemoryLog | None = None,
    auth: Auth | None = None,
    directory: Path | None = None,
) -> AsyncIterator[Served]:
    """Run the head until the block ends; there is the topic ``orders``."""
    broker = new_broker(log, clock=RealClock())  # type: ignore[arg-type]  # any clock will do
    if not broker.topics("orders"):
        broker.create_topic("orders")
    context = context_on(broker, now_ms, auth=auth)
    context.directory = directory
    async with running_head(HEAD, settings, context, drain_s=0.2) as running:
        context.addresses["webhooks"] = running.address
        yield Served(broker, context, running)

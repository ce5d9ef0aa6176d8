"""The HTTP head on a broker in memory, in the test's own loop, and an HTTP client of it."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import httpx
from tests.broker.brokers import publish
from tests.heads.started import TOPIC, Started, started
from tests.heads.transport.echo import run

from mainstem.auth import Auth
from mainstem.broker.broker import Broker
from mainstem.core.topic_settings import Overload, TopicSettings
from mainstem.heads.http import HEAD
from mainstem.heads.http.settings import HttpSettings

__all__ = [
    "EVENTS",
    "NDJSON",
    "SETTINGS",
    "TOPIC",
    "Client",
    "Scenario",
    "create_full_topic",
    "serve",
    "serving",
]

EVENTS = f"/topics/{TOPIC}/events"
NDJSON = {"content-type": "application/x-ndjson"}
SETTINGS = HttpSettings()
PATIENCE_S = 60

Client = httpx.AsyncClient
Scenario = Callable[[Started, Client], Awaitable[None]]


def create_full_topic(broker: Broker) -> None:
    """Create ``small``, which has room for one event and holds one: producers wait."""
    settings = TopicSettings(max_backlog=1, overload=Overload.BACKPRESSURE, hold_ms=60_000)
    broker.create_topic("small", settings)
    publish(broker, "small", b"1")


def serve(
    scenario: Scenario,
    settings: HttpSettings = SETTINGS,
    auth: Auth | None = None,
    broker: Broker | None = None,
) -> None:
    """Run a scenario against the HTTP head."""

    async def whole() -> None:
        async with serving(settings, auth, broker) as (server, client):
            await scenario(server, client)

    run("uvloop", whole)


@contextlib.asynccontextmanager
async def serving(
    settings: HttpSettings = SETTINGS, auth: Auth | None = None, broker: Broker | None = None
) -> AsyncIterator[tuple[Started, Client]]:
    """Serve until the block ends."""
    async with (
        started(HEAD, settings, auth, broker=broker) as server,
        httpx.AsyncClient(
            base_url=f"http://{server.running.address}", timeout=PATIENCE_S, trust_env=False
        ) as client,
    ):
        yield server, client

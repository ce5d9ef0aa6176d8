"""The HTTP head on a broker in memory, in the test's own loop, and an HTTP client of it."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import httpx
from tests.heads.started import TOPIC, Started, started
from tests.heads.transport.echo import run

from mainstem.auth import Auth
from mainstem.broker.broker import Broker
from mainstem.heads.http import HEAD
from mainstem.heads.http.settings import HttpSettings

__all__ = ["EVENTS", "NDJSON", "SETTINGS", "TOPIC", "Client", "Scenario", "serve", "serving"]

EVENTS = f"/topics/{TOPIC}/events"
NDJSON = {"content-type": "application/x-ndjson"}
SETTINGS = HttpSettings()
PATIENCE_S = 60

Client = httpx.AsyncClient
Scenario = Callable[[Started, Client], Awaitable[None]]


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

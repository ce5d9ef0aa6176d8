"""The running webhooks head: delivers to endpoints, and receives from sources."""

import random
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from mainstem.heads.addresses import AUTO, NONE
from mainstem.heads.context import HeadContext
from mainstem.heads.metric import Metric, Sample
from mainstem.heads.transport.traffic import ConnectionInfo
from mainstem.heads.web.limits import limits_of
from mainstem.heads.web.origin import LOCAL, Origins
from mainstem.heads.web.server import WebServer, serve_app
from mainstem.heads.webhooks.adapter.attempts import create_attempt_log
from mainstem.heads.webhooks.adapter.endpoint_operations import EndpointOperations
from mainstem.heads.webhooks.adapter.endpoints import Endpoints
from mainstem.heads.webhooks.adapter.receiving import app_of
from mainstem.heads.webhooks.adapter.service import Service
from mainstem.heads.webhooks.adapter.source_operations import SourceOperations
from mainstem.heads.webhooks.adapter.sources import Sources
from mainstem.heads.webhooks.addresses import AllowedAddresses, parse_networks
from mainstem.heads.webhooks.client import Client
from mainstem.heads.webhooks.secret_store import SecretStore
from mainstem.heads.webhooks.settings import WebhooksSettings

if TYPE_CHECKING:
    import asyncio
    import socket

SECRETS = "webhook-secrets"
"""The name of the directory of secrets in the data directory."""


class WebhooksHead:
    """The webhooks head while it runs."""

    def __init__(
        self, server: WebServer, client: Client, endpoints: Endpoints, service: Service
    ) -> None:
        self._server, self._client = server, client
        self._endpoints, self._service = endpoints, service
        self.address, self.traffic = server.address, server.traffic

    def connections(self) -> list[ConnectionInfo]:
        """Return the connections of clients that send webhooks to this server."""
        return self._server.connections()

    def samples(self) -> Iterable[tuple[Metric, Sample]]:
        """Return the head's metrics with their values; called from any thread."""
        return self._service.counts.samples()

    async def drain(self, within_s: float, hurry: "asyncio.Event") -> None:
        """Send and accept no more requests; wait for the answers to those that were sent."""
        self._endpoints.close()
        began = time.monotonic()
        await self._server.drain(within_s, hurry)
        await self._client.idle(max(0.0, within_s + began - time.monotonic()), hurry)
        self._service.outcomes.flush()

    async def close(self) -> None:
        """Abort all requests; their events are delivered again after the next start."""
        self._endpoints.close()
        await self._client.close()
        self._endpoints.leave()
        await self._server.close()


async def start(
    context: HeadContext, settings: WebhooksSettings, listener: "socket.socket"
) -> WebhooksHead:
    """Start the head on a bound socket."""
    allowed = AllowedAddresses(() if settings.allow == NONE else parse_networks(settings.allow))
    create_attempt_log(context, settings)
    client = Client(allowed, context.now_ms)
    service = Service(
        context,
        settings,
        client,
        SecretStore(_directory(context, settings)),
        lambda: int(time.monotonic() * 1000),
        random.random,
    )
    endpoints, sources = Endpoints(service), Sources(service)
    endpoints.start()
    sources.start()
    context.administration.offer_all(EndpointOperations(service, endpoints))
    context.administration.offer_all(SourceOperations(service, sources))
    limits = limits_of(settings)
    hosts = frozenset(filter(None, (each.strip() for each in settings.hosts.split(","))))
    server = serve_app(
        context, app_of(service, sources), listener, limits, Origins(hosts=LOCAL | hosts)
    )
    return WebhooksHead(server, client, endpoints, service)


def _directory(context: HeadContext, settings: WebhooksSettings) -> Path | None:
    if settings.secrets != AUTO:
        return Path(settings.secrets)
    return None if context.directory is None else context.directory / SECRETS

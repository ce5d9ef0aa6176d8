"""What all endpoints and sources of the webhooks head share."""

from collections.abc import Callable
from typing import Protocol

from mainstem.heads.context import HeadContext
from mainstem.heads.webhooks.adapter.outcomes import Outcomes
from mainstem.heads.webhooks.client import Request
from mainstem.heads.webhooks.metrics import Counts
from mainstem.heads.webhooks.schedule import Answer
from mainstem.heads.webhooks.secret_store import SecretStore
from mainstem.heads.webhooks.settings import WebhooksSettings

HEAD = "webhooks"
"""The name under which this head's definitions are stored."""


class Sends(Protocol):
    """Sends HTTP requests to endpoints."""

    def send(self, request: Request, done: Callable[[Answer], None]) -> None:
        """Send a request; ``done`` is called later with its answer."""


class Service:
    """The state that all endpoints and sources share."""

    def __init__(
        self,
        context: HeadContext,
        settings: WebhooksSettings,
        client: Sends,
        secrets: SecretStore,
        clock_ms: Callable[[], int],
        chance: Callable[[], float],
    ) -> None:
        self.context, self.settings = context, settings
        self.client, self.secrets = client, secrets
        self.clock_ms = clock_ms
        """Returns the time of the monotonic clock in ms."""
        self.chance = chance
        """Returns a random number from 0 to 1."""
        self.counts = Counts()
        self.outcomes = Outcomes(context, self.counts)
        self.definitions = context.broker.definitions.open(HEAD)

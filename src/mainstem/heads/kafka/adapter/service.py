"""What the functions of the APIs get: the broker, settings, clock and event loop."""

import asyncio
import copy
import secrets
from collections.abc import Callable
from functools import partial

import msgspec

from mainstem.auth import Action, Peer, Resource
from mainstem.heads.context import HeadContext
from mainstem.heads.conversation import Later
from mainstem.heads.kafka.adapter.fetching.fetch_sessions import FetchSessions
from mainstem.heads.kafka.adapter.share.share_sessions import ShareSessions
from mainstem.heads.kafka.counts import Counts
from mainstem.heads.kafka.settings import KafkaSettings
from mainstem.kafka_protocol.fields import Wire
from mainstem.kafka_protocol.server_codec import RequestHeader

Reply = Callable[[Wire | None], None]
"""Sends the response to a request; called once, in the loop's thread. None for no response."""


class Service:
    """What all conversations of the Kafka head share."""

    def __init__(
        self, context: HeadContext, settings: KafkaSettings, cluster_id: str = "mainstem"
    ) -> None:
        self._context = context
        self.broker = context.broker
        self.may: Callable[[Action, Resource], None] = _everything
        """Raises Denied if the peer lacks a permission; for requests that do not reach the broker.
        """
        self.now_ms = context.now_ms
        self.defaults = context.defaults
        """The settings of new topics, unless a request sets them."""
        self.settings = settings
        self.cluster_id = cluster_id
        self.counts = Counts()
        self.host, self.port = "127.0.0.1", 0
        """The advertised host and port; set once the head listens."""
        self.run_id = context.run_id
        loop = asyncio.get_running_loop()
        self.fetch_sessions = FetchSessions(
            settings,
            monotonic_ms=lambda: int(loop.time() * 1000),
            # Random, so that a client cannot guess another's session id.
            new_id=lambda: secrets.randbelow(2**31 - 1) + 1,
        )
        self.share_sessions = ShareSessions(
            self.broker.queues, self.topic_name, lambda: context.draining
        )
        self.auto_create = context.auto_create
        """Whether a topic that does not exist is created when a client names it."""
        self.after = context.after
        self.on_loop = context.on_loop
        self.wait_with = context.wait_with
        self.park = context.park
        self.dispatcher = context.dispatcher

    def as_seen_by(self, peer: Peer) -> "Service":
        """Return a copy with the permissions of this peer."""
        broker = self._context.door(peer)
        if broker is self.broker:
            return self
        seen = copy.copy(self)
        seen.broker = broker
        seen.may = partial(self._context.auth.authorize, peer.principal)
        return seen

    @property
    def draining(self) -> bool:
        """Whether the server is stopping, so that requests that wait must be answered."""
        return self._context.draining

    @property
    def admin(self) -> str | None:
        """The address of the admin head, None if it is off."""
        address = self._context.addresses.get("admin")
        return None if address is None else str(address)

    def topic_name(self, topic_id: bytes) -> str | None:
        """Return the name of the topic with this id, None if there is none."""
        found = self._context.broker.topic_by_id(topic_id.hex())
        return None if found is None else found.name


def _everything(_action: Action, _resource: Resource) -> None:
    """Allow every action: the default without authorization."""


class Asked(msgspec.Struct, frozen=True):
    """The context of a request: the service, the request's header, the client's address."""

    service: Service
    header: RequestHeader
    peer: str
    waiting: set[Callable[[], None]]
    """Callbacks for the peer's disconnect, which end the waits of its requests."""
    later: Later
    """The answer to the request, if it is delayed; can stop further reads, or disconnect the peer.
    """

"""What all AMQP connections share: the topology, the queues, and the list of connections."""

from collections.abc import Callable
from functools import partial
from secrets import randbits, token_bytes, token_urlsafe
from typing import TYPE_CHECKING

import mainstem
from mainstem.core.errors import StorageFull
from mainstem.core.event import ID_HEADER, Event
from mainstem.core.unique_ids import RANDOM_BITS, UniqueIds
from mainstem.heads.amqp091.adapter.messages import SECRET_BYTES, MessageFormat
from mainstem.heads.amqp091.adapter.publishing import incomplete_messages
from mainstem.heads.amqp091.adapter.publishing.delayed_messages import HEAD, DelayedRouter
from mainstem.heads.amqp091.adapter.publishing.queue_overflow import FullQueues
from mainstem.heads.amqp091.adapter.publishing.replies import Replies
from mainstem.heads.amqp091.adapter.queues.dead_letter_router import DeadLetterRouter
from mainstem.heads.amqp091.adapter.queues.queues import DeclaredQueues
from mainstem.heads.amqp091.adapter.topology.topology import Topology
from mainstem.heads.amqp091.fields import Table
from mainstem.heads.amqp091.metrics import Counts
from mainstem.heads.amqp091.settings import AmqpSettings
from mainstem.heads.context import HeadContext
from mainstem.heads.settlements import RETRY_MS
from mainstem.heads.transport.receive_budget import ReceiveBudget

if TYPE_CHECKING:
    from mainstem.heads.amqp091.adapter.conversation import AmqpConversation

SERVER_PROPERTIES: Table = {
    # Clients derive a server's features from product and version (kombu: the meaning of basic.qos).
    "product": "RabbitMQ",
    "version": "4.1.0",
    "platform": f"mainstem {mainstem.__version__}",
    "information": "mainstem, which speaks AMQP 0-9-1 as RabbitMQ does",
    "capabilities": {
        "publisher_confirms": True,
        "exchange_exchange_bindings": True,
        "basic.nack": True,
        "consumer_cancel_notify": True,
        "connection.blocked": True,
        "consumer_priorities": True,
        "authentication_failure_close": True,
        "per_consumer_qos": True,
        "direct_reply_to": True,
    },
}


_SECRET = "secret", "messages"


class Service:
    """The state that all AMQP connections share."""

    def __init__(
        self, context: HeadContext, settings: AmqpSettings, clock_ms: Callable[[], int]
    ) -> None:
        self.context = context
        self.settings = settings
        self.clock_ms = clock_ms
        """Returns the time of the monotonic clock in ms."""
        self.properties = SERVER_PROPERTIES
        self.counts = Counts()
        self.connections: set[AmqpConversation] = set()
        self.replies = Replies()
        self.unfinished = ReceiveBudget(incomplete_messages.MAX_BYTES)
        """Memory limit on the incomplete messages of all connections together."""
        self.definitions = context.broker.definitions.open("amqp")
        self.messages = MessageFormat(self._secret())
        self.topology = Topology(self.definitions, token_bytes)
        self.queues = DeclaredQueues(self)
        self.full_queues = FullQueues()
        self.dead_letters = DeadLetterRouter(self)
        context.broker.queues.route_dead_letters(self.dead_letters)
        context.broker.delays.route_delayed(HEAD, DelayedRouter(self))
        self._ids = 0
        self._message_ids = UniqueIds(context.now_ms, randbits(RANDOM_BITS))

    def for_all(self, event: Event, copies: int) -> Event:
        """Return the event for ``copies`` queues; for more than one, with an id in its headers."""
        if copies < 2:
            return event
        its_id = ID_HEADER, self._message_ids.next().encode()
        return Event(event.value, event.key, (its_id, *event.headers))

    def _secret(self) -> bytes:
        """Return the secret that signs stored messages; create it in a new data directory."""
        secret = self.definitions.get(*_SECRET)
        if secret is None:
            secret = token_bytes(SECRET_BYTES)
            self._store(secret)
        return secret

    def _store(self, secret: bytes) -> None:
        try:
            self.definitions.set(*_SECRET, secret)
        except StorageFull:
            # A full disk must not prevent the start. Nothing can be published meanwhile, either.
            self.context.after(RETRY_MS, partial(self._store, secret))

    def new_connection_id(self) -> str:
        """Return an id for a new connection, unique also across restarts of the server."""
        self._ids += 1
        return f"amqp {self.context.run_id}-{self._ids}"

    def new_consumer_tag(self) -> str:
        """Return a consumer tag for a client that chose none."""
        return f"amq.ctag-{self.new_token()}"

    def new_token(self) -> str:
        """Return a random token that cannot be guessed."""
        return token_urlsafe(16)

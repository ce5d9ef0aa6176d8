"""What all requests of the HTTP head share: the broker, settings, counters."""

from typing import TYPE_CHECKING

from mainstem.auth import Peer
from mainstem.broker.door import Door
from mainstem.core.errors import TopicExists, UnknownTopic
from mainstem.core.names import check_topic
from mainstem.heads.context import HeadContext
from mainstem.heads.http.adapter.appends import Appends
from mainstem.heads.http.adapter.idempotency import IdempotencyKeys
from mainstem.heads.http.adapter.streams import Streams
from mainstem.heads.http.metrics import Counts
from mainstem.heads.http.settings import HttpSettings
from mainstem.heads.web.login import user_of
from mainstem.heads.web.waits import until_durable

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import Scope


class Service:
    """The state that all requests of the HTTP head share."""

    def __init__(self, context: HeadContext, settings: HttpSettings) -> None:
        self.context, self.settings = context, settings
        self.counts = Counts()
        self.appends = Appends(context)
        self.keys = IdempotencyKeys(context)
        self.streams = Streams(context, self.counts, settings.slow_client_s)

    def user(self, scope: "Scope") -> Peer:
        """Return the authenticated user of a request; raises Unauthenticated."""
        return user_of(self.context.auth, scope)

    def door(self, scope: "Scope") -> Door:
        """Return the broker's interface with the permissions of the user of a request."""
        return self.context.door(self.user(scope))

    async def ensure_topic(self, door: Door, topic: str) -> None:
        """Create the topic if it does not exist and topics are created automatically.

        Raises UnknownTopic if they are not.
        """
        try:
            door.topic(topic)
        except UnknownTopic:
            if not self.context.auto_create:
                raise
            try:
                made = door.create_topic(topic, self.context.defaults)
            except TopicExists:
                return
            await until_durable(self.context, made.durable)


def topic_of(request: "Request") -> str:
    """Return the topic in a request's path; raises InvalidName."""
    topic: str = request.path_params["topic"]
    check_topic(topic)
    return topic

"""Operations of the admin port on feeds: list, serve, end, remove, find a sequence number.

Permissions: a feed is listed if the peer may DESCRIBE its topic; the others need READ on the topic.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, TypeVar

import msgspec
from msgspec import Meta

from mainstem.auth import Action, Peer, Resource, ResourceKind
from mainstem.broker.door import Durable
from mainstem.core.errors import Denied, Unauthenticated
from mainstem.heads.admin_operations import operation
from mainstem.heads.moldudp64.feeds import Feed

if TYPE_CHECKING:
    from mainstem.heads.context import HeadContext
    from mainstem.heads.moldudp64.adapter import MoldHead
    from mainstem.heads.moldudp64.publication import Publication

LIST, SERVE, END, REMOVE = "feeds", "feeds/serve", "feeds/end", "feeds/rm"
SEQUENCE = "feeds/sequence"
T = TypeVar("T")


class ListFeeds(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """List the multicast feeds."""


class ServeFeed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Publish a partition as a multicast feed, from now on and after restarts."""

    session: str
    topic: str
    group: str
    """The multicast group, HOST:PORT."""
    partition: Annotated[int, Meta(ge=0)] = 0
    second_group: str = ""
    """Another group for the same packets; empty for none."""


class NameFeed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """End or remove a multicast feed."""

    session: str


class FindSequence(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Find the sequence number at which a receiver goes on from an offset of the topic."""

    session: str
    offset: Annotated[int, Meta(ge=0)]
    """The offset after the events that the receiver has, such as those of a snapshot."""


class SequenceInfo(msgspec.Struct, frozen=True):
    """The sequence number of the first message at or after an offset."""

    session: str
    offset: int
    sequence: int


class FeedInfo(msgspec.Struct, frozen=True):
    """A feed, as the admin port returns it."""

    session: str
    topic: str
    partition: int
    group: str
    second_group: str
    state: str
    """The state: live, ended or failed."""
    next_sequence: int
    error: str
    requests: str
    """The address to which receivers send requests."""


class FeedOperations:
    """The admin port's operations on feeds.

    Must not be called in the event loop: the operations wait for it.
    """

    def __init__(self, context: "HeadContext", head: "MoldHead") -> None:
        self._context, self._head = context, head

    @operation(LIST, "GET feeds")
    def list(self, peer: Peer, asked: ListFeeds) -> list[FeedInfo]:
        """List the multicast feeds."""
        found = self._on_loop(lambda: [self._info(it) for it in self._head.publications()])
        return [each for each in found if self._may_describe(peer, each.topic)]

    @operation(SERVE, "POST feeds")
    def serve(self, peer: Peer, asked: ServeFeed) -> FeedInfo:
        """Publish a partition as a multicast feed, from now on and after restarts."""
        self._authorize(peer, Action.READ, asked.topic)
        wanted = Feed(asked.session, asked.topic, asked.partition, asked.group, asked.second_group)

        def carry_out() -> tuple[FeedInfo, Durable | None]:
            publication, durable = self._head.serve(wanted)
            return self._info(publication), durable

        return self._durably(carry_out)

    @operation(END, "POST feeds/{session}/end")
    def end(self, peer: Peer, asked: NameFeed) -> FeedInfo:
        """End a session after the last event that is in its partition now."""
        self._authorize(peer, Action.READ, self._topic_of(asked.session))

        def carry_out() -> tuple[FeedInfo, Durable | None]:
            durable = self._head.end(asked.session)
            return self._info(self._head.find(asked.session)), durable

        return self._durably(carry_out)

    @operation(REMOVE, "DELETE feeds/{session}")
    def remove(self, peer: Peer, asked: NameFeed) -> object:
        """Stop publishing a feed, and delete its session; the topic stays."""
        self._authorize(peer, Action.READ, self._topic_of(asked.session))
        self._on_loop(lambda: self._head.remove(asked.session)).wait()
        return {}

    @operation(SEQUENCE, "GET feeds/{session}/sequence")
    def sequence(self, peer: Peer, asked: FindSequence) -> SequenceInfo:
        """Return the sequence number of the first message at or after an offset."""
        self._authorize(peer, Action.READ, self._topic_of(asked.session))

        def carry_out() -> int:
            publication = self._head.find(asked.session)
            return publication.sequence_at(self._context.door(peer), asked.offset)

        return SequenceInfo(asked.session, asked.offset, self._on_loop(carry_out))

    def _topic_of(self, session: str) -> str:
        return self._on_loop(lambda: self._head.find(session).feed.topic)

    def _durably(self, call: Callable[[], tuple[FeedInfo, Durable | None]]) -> FeedInfo:
        info, durable = self._on_loop(call)
        if durable is not None:
            durable.wait()
        return info

    def _on_loop(self, call: Callable[[], T]) -> T:
        return self._context.from_thread(call)

    def _authorize(self, peer: Peer, action: Action, topic: str) -> None:
        resource = Resource(ResourceKind.TOPIC, topic)
        self._context.auth.authorize(peer.principal, action, resource)

    def _may_describe(self, peer: Peer, topic: str) -> bool:
        try:
            self._authorize(peer, Action.DESCRIBE, topic)
        except (Denied, Unauthenticated):
            return False
        return True

    def _info(self, publication: "Publication") -> FeedInfo:
        it = publication.feed
        return FeedInfo(
            *(it.session, it.topic, it.partition, it.group, it.second_group),
            state="failed" if publication.failed else "live" if it.end_offset is None else "ended",
            next_sequence=publication.next_sequence,
            error=publication.failed,
            requests=str(self._head.address),
        )

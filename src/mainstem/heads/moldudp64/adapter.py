"""Maps MoldUDP64 to the broker.

| MoldUDP64 | the broker |
|---|---|
| a session | a partition, from an offset on; defined by a feed, which survives restarts |
| a message | an event's value; its sequence number is that of ``numbering.py`` |
| a request | a read of the log, with the permissions of its sender; answered by unicast |
| the retransmission window | the topic's retention |
| the end of session | a feed that was ended |

MoldUDP64 has no refusals: a request that cannot be answered is counted by its reason.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from mainstem.broker.door import Durable
from mainstem.core.errors import InvalidSetting, MainstemError
from mainstem.heads.context import HeadContext
from mainstem.heads.metric import Metric, Sample
from mainstem.heads.moldudp64 import metrics
from mainstem.heads.moldudp64.codec import BadPacket, Request, decode_request, joined
from mainstem.heads.moldudp64.feeds import (
    Feed,
    FeedDefinitions,
    FeedExists,
    UnknownFeed,
    checked,
    declared,
    removes_between,
)
from mainstem.heads.moldudp64.operations import FeedOperations
from mainstem.heads.moldudp64.publication import Publication
from mainstem.heads.moldudp64.retransmission import Deleted, NotSent
from mainstem.heads.moldudp64.session import RequestLimits
from mainstem.heads.moldudp64.settings import MoldSettings
from mainstem.heads.transport.datagrams import Datagrams, MulticastSender, Sender
from mainstem.heads.transport.traffic import ConnectionInfo

if TYPE_CHECKING:
    import asyncio
    import socket

_logger = logging.getLogger("mainstem.heads.moldudp64")

NAME = "moldudp64"
SEND_BUFFER_BYTES = 4 * 1024 * 1024
READS_PER_REQUEST = 100
"""A request that makes the server read more events than this counts as several."""


class MoldHead:
    """The MoldUDP64 head while it runs."""

    def __init__(
        self,
        context: HeadContext,
        settings: MoldSettings,
        listener: "socket.socket",
        clock: Callable[[], float],
    ) -> None:
        self._context, self._settings, self._clock = context, settings, clock
        self._stored = FeedDefinitions(context.broker.definitions.open(NAME))
        try:
            self._sender = MulticastSender(settings.interface, settings.ttl, SEND_BUFFER_BYTES)
        except OSError as error:
            raise InvalidSetting(
                f"moldudp64.interface = {settings.interface!r:.60}: {error}; write the IPv4 "
                "address of a network interface, such as 127.0.0.1"
            ) from None
        self._datagrams = Datagrams(listener, self._received)
        self.address = self._datagrams.address
        self.traffic = self._datagrams.traffic
        self._limits = RequestLimits(settings.requests_per_s)
        self._outcomes: Counter[str] = Counter()
        self._replayed = 0
        self._publications: dict[str, Publication] = {}

    async def start(self) -> None:
        """Publish the stored feeds and those of the settings, and answer requests."""
        for feed in self._stored.feeds():
            self._publish(feed)
        for feed in declared(self._settings.feeds):
            self.serve(feed)
        self._context.administration.offer_all(FeedOperations(self._context, self))
        await self._datagrams.start()

    # Feeds

    def publications(self) -> list[Publication]:
        """Return all feeds, sorted by session."""
        return [self._publications[session] for session in sorted(self._publications)]

    def serve(self, feed: Feed) -> tuple[Publication, Durable | None]:
        """Publish a feed from now on, also after restarts; do nothing if it is published already.

        Returns None instead of a ``Durable`` in the second case. Raises FeedExists, InvalidSetting,
        Unsupported, UnknownTopic, UnknownPartition.
        """
        topic = self._context.broker.topic(checked(feed).topic)
        self._context.broker.bounds(feed.topic, feed.partition)
        feed = Feed(
            *(feed.session, feed.topic, feed.partition, feed.group, feed.second_group, topic.id),
            first_offset=feed.first_offset,
            stores_numbers=removes_between(topic.settings),
        )
        feed.check_topic(topic.settings)
        there = self._stored.find(feed.session)
        if there is None:
            durable = self._stored.create(feed)
            return self._publish(feed), durable
        if not there.is_like(feed):
            raise FeedExists(feed.session, there.topic, there.partition)
        return self._publications[feed.session], None

    def end(self, session: str) -> Durable | None:
        """End a session at the current end of its partition; return None if it was ended before.

        Earlier events are still sent, then end-of-session packets.
        """
        publication = self.find(session)
        feed = publication.feed
        if feed.end_offset is not None:
            return None
        ended = feed.ended_at(self._context.broker.bounds(feed.topic, feed.partition).tail)
        durable = self._stored.set(ended)
        publication.end(ended)
        return durable

    def remove(self, session: str) -> Durable:
        """Stop publishing a feed, and delete its definition and numbers."""
        self.find(session).close()
        del self._publications[session]
        return self._stored.delete(session)

    def find(self, session: str) -> Publication:
        """Return the feed of a session; raises UnknownFeed."""
        publication = self._publications.get(session)
        if publication is None:
            raise UnknownFeed(session)
        return publication

    def _publish(self, feed: Feed) -> Publication:
        found = self._publications[feed.session] = Publication(
            self._context, self._settings, feed, self._stored, self._sender, self._clock
        )
        return found

    # Requests

    def _received(self, data: bytes, sender: Sender) -> None:
        pace = self._limits.may_ask(sender[0], self._clock())
        if pace is None:
            self._outcomes["limited"] += 1
            return
        pace.take()
        try:
            request = decode_request(data)
            read = self._answer(request, sender)
        except BadPacket:
            self._outcomes["malformed"] += 1
        except UnknownFeed:
            self._outcomes["unknown_session"] += 1
        except NotSent:
            self._outcomes["not_yet"] += 1
        except Deleted:
            self._outcomes["deleted"] += 1
        except MainstemError as error:
            self._outcomes[error.failure.value] += 1
        else:
            pace.take(read // READS_PER_REQUEST)

    def _answer(self, request: Request, sender: Sender) -> int:
        """Send the requested messages; return how many events were read from the log for them."""
        host, port = sender
        door = self._context.door(self._context.auth.peer(f"{host}:{port}"))
        publication = self.find(request.session)
        publication.check_topic()
        found = publication.retransmission.read(
            door, request.sequence, request.count, publication.next_sequence
        )
        packet = joined(request.session, request.sequence, list(found.blocks))
        if self._datagrams.answer(packet, sender):
            self._outcomes["answered"] += 1
            self._replayed += len(found.blocks)
        else:
            self._outcomes["unsent"] += 1
        return found.read

    # Called by the node

    def connections(self) -> Sequence[ConnectionInfo]:
        """Return nothing: UDP has no connections."""
        return ()

    def samples(self) -> Iterator[tuple[Metric, Sample]]:
        """Yield the head's metrics with their values."""
        for each in self.publications():
            session = (each.feed.session,)
            yield metrics.MESSAGES, (session, each.messages)
            yield metrics.PACKETS, (session, each.packets)
            yield metrics.NEXT, (session, each.next_sequence)
            yield metrics.FAILED, (session, int(bool(each.failed)))
            yield metrics.TOO_LARGE, (session, each.too_large)
            yield metrics.MISSED, (session, each.missed)
        for outcome, count in list(self._outcomes.items()):
            yield metrics.REQUESTS, ((outcome,), count)
        yield metrics.REPLAYED, ((), self._replayed)
        yield metrics.KERNEL_DROPS, ((), self._datagrams.kernel_drops)

    async def drain(self, within_s: float, hurry: "asyncio.Event") -> None:
        """Stop publishing and answering; sessions continue at the next start."""
        self._stop()

    async def close(self) -> None:
        """Stop publishing and answering."""
        self._stop()

    def _stop(self) -> None:
        self._datagrams.close()
        for each in self._publications.values():
            each.close()
        self._sender.close()

"""PUB for one named subscriber: the events of a topic, from the subscriber's cursor on.

How this works: a PUB socket of nng drops messages for which a peer has no room, and does not report
it. So this module speaks nng's protocol itself: while TCP takes no more, the topic is not read on.
The cursor is that of the group with the subscriber's name; it follows what TCP has acknowledged
(``progress.py``). Messages that the peer's sub0 socket drops cannot be detected: ``pace.py`` sends
slowly enough to avoid that.
"""

import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from mainstem.auth import Action, Resource, ResourceKind
from mainstem.core.errors import InvalidSetting, MainstemError
from mainstem.core.event import Event
from mainstem.heads.brokerless.codec import encode_whole
from mainstem.heads.context import HeadContext
from mainstem.heads.conversation import AcknowledgedOutbox, Answer, Outbox, ProtocolError
from mainstem.heads.metric import Metric, Sample
from mainstem.heads.nng import metrics, sp
from mainstem.heads.nng.pace import Pace
from mainstem.heads.nng.progress import Progress
from mainstem.heads.topic_consumer import TopicConsumer
from mainstem.heads.transport.server import Server, bind, serve

if TYPE_CHECKING:
    from mainstem.heads.brokerless.addresses import Place
    from mainstem.heads.nng.settings import NngSettings

HANDSHAKE_MS = 5_000
TICK_MS = 10
COMMIT_MS = 100
REFRESH_MS = 3_600_000
"""The cursors of a connected subscriber are stored again after this time, so that they do not
expire.
"""
SILENCE_MS = 30_000
"""After this time without a sign of the subscriber's host, its connection is closed, so that it can
connect again.
"""

_logger = logging.getLogger("mainstem.heads.nng")


class Subscriber:
    """A named subscriber: its address, its cursor, and its connections."""

    def __init__(self, context: HeadContext, place: "Place", settings: "NngSettings") -> None:
        """Listen on the subscriber's address; raises InvalidSetting, UnknownTopic."""
        self.topic, self.name = place.topic, place.name
        self.rate, self.repeat = settings.subscriber_rate, settings.subscriber_repeat
        self.context = context
        self.sent = self.missed = 0
        self._failed = ""
        self._publications = list[_Publication]()
        context.broker.topic(place.topic)
        try:
            listener = bind(*place.address.pair, SILENCE_MS)
        except OSError as error:
            raise InvalidSetting(
                f"nng.subscribers: cannot listen on {place.address}: {error.strerror}"
            ) from None
        # One connection only: two would share the cursor, and each would lack events.
        self.server: Server = serve(listener, self._converse, max_connections=1)

    def samples(self) -> Iterator[tuple[Metric, Sample]]:
        """Yield the subscriber's metrics."""
        labels = self.topic, self.name
        missed = self.missed + sum(each.missed for each in self._publications)
        yield metrics.SUBSCRIBER_SENT, (labels, self.sent)
        yield metrics.SUBSCRIBER_MISSED, (labels, missed)

    def look(self) -> None:
        """Also publish partitions that were added to the topic."""
        for each in self._publications:
            each.look()

    def check(self, peer: str) -> None:
        """Raise Denied or Unauthenticated unless a peer may READ the topic and the group."""
        auth = self.context.auth
        principal = auth.peer(peer).principal
        auth.authorize(principal, Action.READ, Resource(ResourceKind.TOPIC, self.topic))
        auth.authorize(principal, Action.READ, Resource(ResourceKind.GROUP, self.name))

    def cursor(self, partition: int) -> int | None:
        """Return the offset from which the subscriber reads on, None if it has no cursor."""
        found = self.context.broker.cursor(self.name, self.topic, partition)
        return None if found is None else found.offset

    def commit(self, cursors: dict[int, int]) -> None:
        """Store cursors; if that fails, their events may be sent again after a restart."""
        offsets = {(self.topic, partition): offset for partition, offset in cursors.items()}
        try:
            self.context.broker.commit(self.name, offsets).then(self._stored)
        except MainstemError as error:
            self._stored(error)

    def refresh(self) -> None:
        """Store the cursors again, so that retention of cursors does not delete them."""
        broker = self.context.broker
        found = (
            (each, self.cursor(each)) for each in range(len(broker.topic(self.topic).partitions))
        )
        self.commit({partition: offset for partition, offset in found if offset is not None})

    def ended(self, publication: "_Publication") -> None:
        """Remove a connection that has ended."""
        self._publications.remove(publication)
        self.missed += publication.missed

    def _converse(self, outbox: Outbox) -> "_Publication":
        assert isinstance(outbox, AcknowledgedOutbox)
        found = _Publication(self, outbox)
        self._publications.append(found)
        return found

    def _stored(self, error: MainstemError | None) -> None:
        said = "" if error is None else str(error)
        if said and not self._failed:
            _logger.error("the cursor of subscriber %s is not stored: %s", self.name, said)
        self._failed = said


def check_names(subscribers: "Sequence[Place]") -> None:
    """Raise InvalidSetting if a subscriber has two addresses."""
    named = [(each.topic, each.name) for each in subscribers]
    for topic, name in named:
        if named.count((topic, name)) > 1:
            raise InvalidSetting(f"nng.subscribers: {topic}/{name} is there twice")


class _Publication:
    """One connection of the subscriber."""

    def __init__(self, subscriber: Subscriber, outbox: AcknowledgedOutbox) -> None:
        self._subscriber, self._outbox = subscriber, outbox
        self._pace, self._progress = Pace(subscriber.rate), Progress(subscriber.repeat)
        self._due_ms = outbox.heard_ms + HANDSHAKE_MS
        self._commit_ms = self._refresh_ms = 0
        self._after: dict[int, int] = {}
        self._consumer: TopicConsumer | None = None
        said = sp.header(sp.PUB)
        self._progress.sent_header(len(said))
        outbox.send([said])

    @property
    def missed(self) -> int:
        """How many offsets retention deleted before their events were sent."""
        return 0 if self._consumer is None else self._consumer.missed

    def look(self) -> None:
        """Also publish partitions that were added to the topic."""
        if self._consumer is not None:
            self._consumer.look()

    def frame_size(self, view: memoryview) -> int | None:
        """Return the size of the header: a subscriber sends nothing else."""
        if self._consumer is not None:
            raise ProtocolError("a subscriber sends no messages")
        if not sp.is_header(bytes(view[: sp.HEADER_BYTES])):
            raise ProtocolError("it does not speak nng's protocol")
        return sp.HEADER_BYTES

    def handle(self, frame: memoryview) -> Answer:
        """Check the peer's header and permissions, and begin to publish."""
        sp.check_peer(bytes(frame), sp.SUB)
        subscriber = self._subscriber
        try:
            subscriber.check(self._outbox.peer)
            self._consumer = TopicConsumer(
                subscriber.context,
                subscriber.context.broker,
                self._outbox,
                subscriber.topic,
                self._send,
                self._gone,
                credit=self._pace.burst,
                from_start=True,
                cursor=subscriber.cursor,
            )
        except MainstemError as error:
            raise ProtocolError(str(error)) from None
        self._due_ms = 0
        return ()

    def deadline(self) -> int:
        """Return when ``tick`` must be called next (monotonic ms)."""
        return self._due_ms

    def tick(self, now_ms: int) -> Answer:
        """Allow more events to be sent, and commit the cursor if it has moved."""
        if self._consumer is None:
            raise ProtocolError(f"it has not said within {HANDSHAKE_MS} ms what it speaks")
        self._consumer.add_credit(self._pace.granted(now_ms))
        if now_ms >= self._commit_ms:
            self._commit_ms = now_ms + COMMIT_MS
            self._move()
        if now_ms >= self._refresh_ms:
            self._refresh_ms = now_ms + REFRESH_MS
            self._subscriber.refresh()
        if self._pace.is_spent:
            self._due_ms = now_ms + TICK_MS
        elif self._progress.is_open:
            self._due_ms = self._commit_ms
        else:
            self._due_ms = self._refresh_ms
        return ()

    def close(self) -> None:
        """Stop publishing, and commit the cursor."""
        if self._consumer is not None:
            self._consumer.close()
            self._move()
        self._subscriber.ended(self)

    def _send(self, events: list[Event]) -> None:
        frames = list[bytes]()
        number = events[0].partition
        after = self._begin(number, events[0].offset)
        for event in events:
            frames.append(sp.framed(encode_whole(event, after)))
            self._progress.sent(number, event.offset, len(frames[-1]))
            after = event.offset + 1
        self._after[number] = after
        self._subscriber.sent += len(events)
        self._pace.spend(len(events))
        self._due_ms = 0
        self._outbox.send(frames)

    def _begin(self, partition: int, first: int) -> int:
        """Return the ``after`` to send with the event at ``first``: no event is between them."""
        expected = self._after.get(partition)
        if expected is None:
            expected = self._subscriber.cursor(partition) or 0
        # Never before the log's start, so that the peer notices what retention has deleted.
        broker = self._subscriber.context.broker
        start = broker.bounds(self._subscriber.topic, partition).start
        return min(max(expected, start), first)

    def _move(self) -> None:
        unacknowledged = self._outbox.unacknowledged_bytes
        if unacknowledged is not None:
            self._progress.acknowledged(unacknowledged)
        if moved := self._progress.take():
            self._subscriber.commit(moved)

    def _gone(self, error: MainstemError) -> None:
        self._outbox.close(str(error))

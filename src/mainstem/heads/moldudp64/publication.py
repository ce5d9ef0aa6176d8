"""Publishes one partition as a session: reads the log, fills packets, paces them, sends heartbeats.

How this works: ``_turn`` sends as many packets as allowed, then waits for the first of: new events,
permission to send more, the next heartbeat. After a restart the session continues at its last
stored mark, so some messages are sent twice, with the same numbers. A session that stores all its
numbers sends a message only when its number is durable; after a restart it continues with the next
one. Only the event loop calls this module.
"""

import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from mainstem.broker.door import Door, Durable
from mainstem.core.errors import Failure, MainstemError, OffsetOutOfRange, UnknownTopic
from mainstem.core.event import Event
from mainstem.heads.admin_operations import OperationFailed
from mainstem.heads.context import HeadContext
from mainstem.heads.moldudp64.codec import (
    MAX_MESSAGE_BYTES,
    Packet,
    blocked,
    encode_packet,
    fitting,
    joined,
)
from mainstem.heads.moldudp64.feeds import Feed, FeedDefinitions
from mainstem.heads.moldudp64.numbering import FAR, Mark, Numbering
from mainstem.heads.moldudp64.retransmission import Retransmission
from mainstem.heads.moldudp64.session import Pace, Silence
from mainstem.heads.moldudp64.settings import MoldSettings
from mainstem.heads.transport.datagrams import MulticastSender

if TYPE_CHECKING:
    import asyncio

_logger = logging.getLogger("mainstem.heads.moldudp64")

BURST_S = 0.005
"""The packets of this much time at the configured rate may be sent at once."""
READ_EVENTS = 1_000
MARK_MS = 5_000
"""How long after the last stored mark another is stored, if no messages wait."""
BLOCK_MARKS = 500
"""How many marks are stored in one definition, by sessions that store all of them."""
MAX_PACKETS_AT_ONCE = 64
"""Maximum number of packets sent before the event loop does other work."""


class Publication:
    """Publishes one feed."""

    def __init__(
        self,
        context: HeadContext,
        settings: MoldSettings,
        feed: Feed,
        stored: FeedDefinitions,
        sender: MulticastSender,
        clock: Callable[[], float],
    ) -> None:
        """``clock``: returns the monotonic time in ms."""
        self._context, self._settings, self._stored = context, settings, stored
        self._sender, self._clock = sender, clock
        self._groups = feed.groups()
        self.feed = feed
        self.failed = ""
        """Why the feed has stopped; empty while it runs."""
        self.messages = self.packets = self.too_large = self.missed = 0
        marks = (stored.numbers if feed.stores_numbers else stored.marks)(feed.session)
        self._numbering = Numbering(marks, exact=feed.stores_numbers)
        self._block = self._numbering.next.sequence
        """The sequence number at which the next block of marks to be stored begins."""
        self._unstored: Durable | None = None
        """The durability of the last stored block, which has the numbers of the waiting messages;
        None if it is durable.
        """
        self.retransmission = Retransmission(feed, self._numbering, settings.max_packet_bytes)
        self._marked = self._numbering.next
        self._marked_ms = clock()
        self._far_mark: Mark | None = None
        """A mark to store once the messages before it were sent."""
        per_s = settings.packets_per_s
        self._pace = Pace(per_s, max(1.0, per_s * BURST_S))
        self._silence = Silence(
            feed.session, settings.heartbeat_ms, settings.end_of_session_ms, clock()
        )
        self._waiting: deque[bytes] = deque()
        """Blocks of messages that were read and numbered, but not sent yet."""
        self._timer: asyncio.TimerHandle | None = None
        self._unwatch: Callable[[], None] | None = None
        self._is_closed = False
        self._duty = context.broker.duties.hold(f"moldudp64/{feed.session}", self._wake)
        try:
            self.check_topic()
            self._check_start()
            first = self._numbering.next.offset
            self._reader = context.broker.follow(feed.topic, feed.partition, first)
        except MainstemError as error:
            self._fail(error)
            return
        self._wake()

    @property
    def next_sequence(self) -> int:
        """The sequence number of the next message to send."""
        return self._numbering.next.sequence - len(self._waiting)

    def check_topic(self) -> None:
        """Raise an error if the topic can no longer be published.

        UnknownTopic if it was deleted, even if one of its name exists; FeedUnsupported if its
        settings were changed so that they do not allow the feed.
        """
        topic = self._context.broker.topic(self.feed.topic)
        if topic.id != self.feed.topic_id:
            raise UnknownTopic(self.feed.topic)
        self.feed.check_topic(topic.settings)

    def sequence_at(self, door: Door, offset: int) -> int:
        """Return the sequence number of the first message at or after an offset.

        Raises OffsetOutOfRange if the offset is deleted, OperationFailed if it has no number yet.
        """
        self.check_topic()
        if self.failed or offset > self._reader.offset:
            raise OperationFailed(
                Failure.NOT_FOUND,
                f"offset {offset} has no sequence number in session {self.feed.session}"
                + (f": {self.failed}" if self.failed else " yet"),
            )
        return self.retransmission.sequence_at(door, offset)

    def end(self, ended: Feed) -> None:
        """End the session at the end offset of its new definition ``ended``."""
        self.feed = ended
        self._wake()

    def close(self) -> None:
        """Stop publishing; the session continues at the next start."""
        if self._is_closed:
            return
        self._is_closed = True
        self._stop_waiting()
        if not self.failed and not self._waiting and self._duty.is_held:
            self._store_mark(self._numbering.next)
        self._duty.release()

    # Sending

    def _wake(self) -> None:
        self._context.on_loop(self._turn)

    def _turn(self) -> None:
        if self._is_closed or self.failed or not self._duty.is_held:
            return
        self._stop_waiting()
        try:
            self.check_topic()
            is_all = self._send_all()
            self._store_due_mark()
            wait_ms = self._be_silent() if is_all else 0.0
            if is_all and not self._is_at_end():
                self._unwatch = self._reader.watch(self._wake)
        except (MainstemError, OSError) as error:
            self._fail(error)
            return
        if wait_ms is not None:
            self._timer = self._context.after(int(wait_ms) + 1, self._turn)

    def _send_all(self) -> bool:
        """Send as many messages as allowed; return whether all were sent."""
        for _ in range(MAX_PACKETS_AT_ONCE):
            if not self._waiting and not self._read():
                return True
            if not self._is_stored() or self._pace.left(self._clock()) < 1:
                return False
            if not self._send_packet():
                return False
        return False

    def _send_packet(self) -> bool:
        limit = self._settings.max_packet_bytes
        count, is_full = fitting(map(len, self._waiting), limit)
        if not is_full and not self.feed.stores_numbers and self._read():
            # More events have arrived, so the packet can be filled further.
            count, _ = fitting(map(len, self._waiting), limit)
        blocks = [self._waiting[at] for at in range(count)]
        if not self._send(joined(self.feed.session, self.next_sequence, blocks)):
            return False
        for _ in range(count):
            self._waiting.popleft()
        self.messages += count
        self._pace.take()
        return True

    def _send(self, data: bytes) -> bool:
        for group in self._groups:
            # A packet to the second group may be lost: receivers expect that of UDP.
            if not self._sender.send(data, group) and group is self._groups[0]:
                return False
        self.packets += 1
        self._silence.sent(self._clock())
        return True

    def _be_silent(self) -> float | None:
        """Send a due heartbeat or end of session; return the ms to the next one, or None."""
        now_ms = self._clock()
        if self._is_at_end():
            self._silence.end(now_ms)
        due: Packet | None = self._silence.due(self.next_sequence, now_ms)
        if due is not None:
            self._send(encode_packet(due))
        return self._silence.wait_ms(self._clock())

    # Reading

    def _read(self) -> bool:
        """Read and number more messages; return False if none wait to be sent."""
        if self._is_at_end():
            return False
        end = self.feed.end_offset
        try:
            events = self._reader.take(READ_EVENTS)
        except OffsetOutOfRange as error:
            if error.offset >= error.start:
                raise
            self._go_on_at(error.start)
            return self._read()
        first = self._numbering.next.sequence
        blocks: list[bytes] = []
        for event in events:
            message = event.value or b""
            if end is not None and event.offset >= end:
                break
            if len(message) > MAX_MESSAGE_BYTES:
                self._leave_out(event)
                continue
            self._numbering.add(event.offset)
            blocks.append(blocked(message))
        self._waiting.extend(blocks)
        self.retransmission.recent.add(first, blocks)
        if blocks and self.feed.stores_numbers:
            self._store_numbers()
        if self._far_mark is None and self._numbering.next.sequence - self._marked.sequence >= FAR:
            self._far_mark = self._numbering.next
        return bool(self._waiting)

    def _is_at_end(self) -> bool:
        """Tell whether the session has ended, and all its messages were read."""
        end = self.feed.end_offset
        return end is not None and self._reader.offset >= end

    def _leave_out(self, event: Event) -> None:
        self.too_large += 1
        _logger.error(
            "feed %s leaves out %s/%d@%d: its value has more than %d bytes",
            *(self.feed.session, event.topic, event.partition, event.offset, MAX_MESSAGE_BYTES),
        )

    def _go_on_at(self, start: int) -> None:
        self.missed += start - self._reader.offset
        _logger.error(
            "feed %s: retention deleted offsets %d to %d before they were sent; raise the topic's "
            "retention or moldudp64.packets_per_s",
            *(self.feed.session, self._reader.offset, start - 1),
        )
        self._reader.seek(start)
        self._numbering.skip_to(start)
        self._store_mark(self._numbering.next)

    # Marks

    def _store_numbers(self) -> None:
        marks = self._numbering.since(self._block)
        self._unstored = self._stored.set_numbers(self.feed.session, marks, self._log_start())
        self._unstored.then(lambda _: self._wake())
        if len(marks) >= BLOCK_MARKS:
            self._block = self._numbering.next.sequence

    def _is_stored(self) -> bool:
        """Tell whether the numbers of waiting messages are durable, if they must be."""
        if self._unstored is not None:
            if not self._unstored.done:
                return False
            self._unstored.wait(0)
            self._unstored = None
        return True

    def _store_due_mark(self) -> None:
        """Store a mark after FAR messages, or, if no messages wait, after MARK_MS."""
        far, now_ms = self._far_mark, self._clock()
        if far is not None and self.next_sequence >= far.sequence:
            self._store_mark(far)
        elif not self._waiting and now_ms - self._marked_ms >= MARK_MS:
            self._store_mark(self._numbering.next)

    def _store_mark(self, mark: Mark) -> None:
        self._far_mark, self._marked_ms = None, self._clock()
        if mark > self._marked and not self.feed.stores_numbers:
            self._marked = mark
            self._stored.add_mark(self.feed.session, mark, self._log_start())

    def _log_start(self) -> int:
        return self._context.broker.bounds(self.feed.topic, self.feed.partition).start

    def _check_start(self) -> None:
        """Raise OperationFailed if deleted events may have had numbers that are unknown."""
        first, start = self._numbering.next.offset, self._log_start()
        if self._numbering.next.sequence > 1 and first < start and not self.feed.stores_numbers:
            raise OperationFailed(
                Failure.CONFLICT,
                f"retention deleted offsets {first} to {start - 1}, whose sequence numbers were "
                "not yet stored; remove the feed, and serve the topic as another session",
            )

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._unwatch is not None:
            self._unwatch()
            self._unwatch = None

    def _fail(self, error: Exception) -> None:
        self.failed = str(error)
        _logger.error("feed %s has stopped: %s", self.feed.session, error)
        self._stop_waiting()

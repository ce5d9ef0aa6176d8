"""One connection: drives a conversation over a socket, with bounded memory.

How this works: an idle connection has no buffers; only an incomplete frame is kept by its
connection (``receiver.py``). All frames of one read are handled before anything is written, and
their answers are sent in one write, in the order of the requests (``answers.py``). Pushes
(``Outbox``) of one loop iteration also share a write.

If the frames of one read take long to handle, or their answers grow large, the rest of the input is
kept (``backlog``) until the next loop iteration. If the peer does not read its answers or has too
many unanswered requests, it is kept until the peer has read, or got answers. Meanwhile nothing is
read. This is the only backpressure, and bounds the memory that a peer can use.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import cast

from mainstem.heads.addresses import peer_of
from mainstem.heads.conversation import (
    Answer,
    Conversation,
    Converse,
    DrainedConversation,
    Later,
    ProtocolError,
    RunConversation,
    TimedConversation,
    WaitingConversation,
)
from mainstem.heads.transport.answers import Answers
from mainstem.heads.transport.read_pause import Reading
from mainstem.heads.transport.receive_budget import ReceiveBudget
from mainstem.heads.transport.receiver import Receiver
from mainstem.heads.transport.timer import Timer
from mainstem.heads.transport.traffic import Traffic

_logger = logging.getLogger("mainstem.heads")

TURN_S = 0.005
"""Maximum time to handle requests of one connection before other connections are served."""
LINGER_S = 2.0
"""How long a connection that is being closed waits for the peer to read the last data."""


class Connection(asyncio.BufferedProtocol):
    """Drives one conversation over one socket; it is the ``Outbox`` of the conversation."""

    __slots__ = (
        "_answers",
        "_backlog",
        "_connections",
        "_conversation",
        "_converse",
        "_ending",
        "_half_closes",
        "_handle_run",
        "_heard",
        "_loop",
        "_reading",
        "_receiver",
        "_room_calls",
        "_scheduled",
        "_timer",
        "_traffic",
        "_transport",
        "peer",
        "since",
    )

    def __init__(
        self,
        converse: Converse,
        scratch: memoryview,
        budget: ReceiveBudget,
        connections: set["Connection"],
        traffic: Traffic,
    ) -> None:
        traffic.accepted += 1
        self._traffic = traffic
        self._converse = converse
        self._connections = connections
        self._receiver = Receiver(scratch, budget, self)
        self._backlog: memoryview | None = None
        self._room_calls: list[Callable[[], None]] | None = None
        """Callbacks for when the send queue has room again; None while there are none."""
        self._scheduled = False
        self._ending = False
        self._half_closes = False
        """Whether, after everything is sent, to wait for the peer to close its side."""
        self._conversation: Conversation | None = None
        self._handle_run: Callable[[memoryview], tuple[Answer | Later, int] | None] | None = None
        self._timer: Timer | None = None
        self.peer = "?"
        self.since = self._heard = time.monotonic()
        """When the peer connected, in seconds of the monotonic clock."""

    # Called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Create the conversation."""
        self._loop = asyncio.get_running_loop()
        self._transport = cast(asyncio.Transport, transport)
        self._answers = Answers(self._transport, self._traffic, self._settle, self._settle_soon)
        self._reading = Reading(self._transport, self._peer_sent_all)
        self.peer = peer_of(transport)
        self._connections.add(self)
        conversation = self._conversation = self._converse(self)
        if isinstance(conversation, RunConversation):
            self._handle_run = conversation.handle_run
        if isinstance(conversation, TimedConversation):
            self._timer = Timer(conversation, self._tick)
            self._timer.ask()

    def connection_lost(self, error: Exception | None) -> None:
        """Close the conversation, and drop unsent data."""
        if error is not None and not isinstance(error, ConnectionError):
            _logger.warning("lost %s: %s", self.peer, error)
        self._traffic.closed += 1
        self._connections.discard(self)
        self._stop_listening()
        self._answers.queue.clear()

    def eof_received(self) -> bool:
        """Close once all requests are answered; return whether the transport stays open until then.

        The conversation is closed at once, which ends the waits of requests that wait for events.
        """
        self._ending = True
        self._let_go()
        return bool(self._answers)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the buffer into which the loop reads next."""
        return self._receiver.room()

    def buffer_updated(self, nbytes: int) -> None:
        """Handle the complete frames of the bytes just read, and keep the incomplete one."""
        self._traffic.bytes_in += nbytes
        self._heard = time.monotonic()
        if self._ending:
            return
        try:
            assert self._conversation is not None
            came = self._receiver.received(nbytes, self._conversation.frame_size)
            if came is None:
                self._reading.want(self._receiver.has_room)
                return
            self._take(self._conversation, came)
        except Exception as error:
            self._cut_off(error)
        else:
            self._flush()

    def pause_writing(self) -> None:
        """Stop sending: the socket's buffer is full until the peer reads."""
        self._answers.queue.blocked = True

    def resume_writing(self) -> None:
        """Continue sending: the peer has read."""
        self._answers.queue.blocked = False
        self._go_on()

    # Called by the budget.

    def room_again(self) -> None:
        """Enlarge the buffer of an incomplete frame if the budget has memory again, and read on."""
        if not self._ending:
            self._receiver.grow()
            self._flush()

    # Called by the conversation and its pushes: see ``Outbox``.

    @property
    def is_tls(self) -> bool:
        """Whether the connection is encrypted."""
        return self._transport.get_extra_info("ssl_object") is not None

    @property
    def heard_ms(self) -> int:
        """When the peer's last bytes arrived (monotonic ms)."""
        return int(self._heard * 1000)

    @property
    def is_full(self) -> bool:
        """Whether the send queue accepts no more data until the peer reads."""
        return self._answers.is_full

    @property
    def unacknowledged_bytes(self) -> int | None:
        """How many bytes were sent that the peer's TCP has not acknowledged; None if unknown.

        It is unknown for encrypted connections, and for those that end.
        """
        if self.is_tls or self._transport.is_closing():
            return None
        return self._answers.queue.unacknowledged_bytes()

    def send(self, pieces: Answer) -> None:
        """Queue data for the peer; it is sent at the end of this iteration."""
        if not self._ending:
            self._answers.queue.add(pieces)
            self._settle_soon()

    def when_room(self, call: Callable[[], None]) -> None:
        """Call ``call`` once, soon after the send queue has room again."""
        if self._ending:
            return
        if self._room_calls is None:
            self._room_calls = []
        self._room_calls.append(call)
        self._settle_soon()

    def close(self, reason: str = "") -> None:
        """Drop unanswered requests, and close once the queued data is sent."""
        self._tell(reason)
        self._stop_listening()
        self._flush()
        if self._answers and not self._transport.is_closing():
            self._loop.call_later(LINGER_S, self.abort)

    def end(self, farewell: Answer = (), reason: str = "") -> None:
        """Accept no more requests, answer the pending ones, send ``farewell``, and close."""
        if self._ending:
            return
        self._tell(reason)
        self._finish(farewell)
        self._loop.call_later(LINGER_S, self._end_at_last)

    # Called by the server.

    @property
    def is_ending(self) -> bool:
        """Whether the connection is ending, and accepts no more requests."""
        return self._ending

    @property
    def is_owed(self) -> bool:
        """Whether the peer has unanswered requests, or answers that are not completely sent."""
        return bool(self._answers) or self._backlog is not None

    def say_goodbye(self) -> None:
        """Send the farewell to a peer that has all its answers; close when the peer closes."""
        if not self._ending and not self._transport.is_closing():
            self._finish(self._last_words())

    def close_with_last_words(self) -> None:
        """Send the farewell, and close without answering the pending requests."""
        if not self._ending:
            self._answers.queue.add(self._last_words())
        self.close()

    def abort(self) -> None:
        """Close the connection at once."""
        self._transport.abort()

    def _cut_off(self, error: Exception) -> None:
        """Close after an error; one that is not a ProtocolError is a bug, and logged as such."""
        if isinstance(error, ProtocolError):
            self._answers.queue.add([error.farewell])
            self.close(str(error))
        else:
            problem = "the request could not be carried out"
            _logger.error("closing %s: %s", self.peer, problem, exc_info=error)
            self._traffic.cut_off += 1
            self.close()

    def _tell(self, reason: str) -> None:
        if reason:
            _logger.warning("closing %s: %s", self.peer, reason)
            self._traffic.cut_off += 1

    def _take(self, conversation: Conversation, view: memoryview) -> None:
        """Handle the received requests; those left after TURN_S are kept in the backlog."""
        until = time.monotonic() + TURN_S
        handle_run = self._handle_run
        answers = self._answers
        while not self._ending:
            size = conversation.frame_size(view)
            if size is None or size > len(view):
                self._receiver.keep(view, size)
                return
            run = handle_run(view) if handle_run is not None and size < len(view) else None
            if run is None:
                answers.add(conversation.handle(view[:size]), size)
            else:
                size = run[1]
                answers.add(*run)
            view = view[size:]
            if not len(view):
                return
            if answers.must_catch_up() or time.monotonic() > until:
                # Writable, as the log sets the offsets in appended batches in place.
                self._backlog = memoryview(bytearray(view))
                return

    def _settle(self) -> None:
        """Send settled answers: at once if no other can follow, else after this iteration."""
        unanswered = self._answers.unanswered
        only_one = unanswered is not None and len(unanswered) == 1
        if only_one and self._backlog is None and not self._ending:
            # No more can follow, so there is no reason to wait.
            self._go_on()
        else:
            self._settle_soon()

    def _settle_soon(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        """Send settled answers, then handle the backlog unless the peer must catch up first."""
        self._scheduled = False
        if self._transport.is_closing():
            return
        try:
            self._answers.take_settled()
            backlog, conversation = self._backlog, self._conversation
            if backlog is not None and conversation and not self._answers.must_catch_up():
                self._backlog = None
                self._take(conversation, backlog)
        except Exception as error:
            self._cut_off(error)
        else:
            self._flush()

    def _flush(self) -> None:
        """Send as much as possible; then resume reading, handle the backlog, wait, or close."""
        if self._transport.is_closing():
            return
        try:
            self._answers.queue.push()
        except OSError as error:
            _logger.error("closing %s: %s", self.peer, error)
            self._transport.abort()
            return
        if self._answers.has_next():
            self._settle_soon()
        if self._ending:
            if not self._answers:
                self._close_transport()
            return
        if self._room_calls is not None and not self.is_full:
            calls, self._room_calls = self._room_calls, None
            for call in calls:
                self._loop.call_soon(call)
        if self._timer is not None:
            self._timer.ask()
        waits = self._answers.must_catch_up()
        if self._backlog is not None and not waits:
            self._settle()
        self._reading.want(self._backlog is None and self._receiver.has_room and not waits)

    def _tick(self, now_ms: int) -> None:
        try:
            assert isinstance(self._conversation, TimedConversation)
            self._answers.queue.add(self._conversation.tick(now_ms))
        except Exception as error:
            self._cut_off(error)
        else:
            self._flush()

    def _peer_sent_all(self) -> None:
        if isinstance(self._conversation, WaitingConversation):
            # Its earlier requests are read and handled once its waiting ones are answered.
            self._conversation.stop_waiting()

    # Closing.

    def _last_words(self) -> Answer:
        conversation = self._conversation
        return conversation.drain() if isinstance(conversation, DrainedConversation) else ()

    def _finish(self, farewell: Answer) -> None:
        """Close once all requests are answered, all data is sent, and the peer has closed, too."""
        self._ending = self._half_closes = True
        self._backlog = None
        self._receiver.release()
        self._answers.add(farewell, 0)
        self._let_go()
        self._reading.want(True)
        self._settle_soon()

    def _close_transport(self) -> None:
        if not self._half_closes or not self._transport.can_write_eof():
            self._transport.close()
            return
        # Closing with unread data would reset the connection, and the peer could lose answers.
        try:
            self._transport.write_eof()
        except OSError:
            # The peer has already disconnected.
            self.abort()

    def _end_at_last(self) -> None:
        """Close the connection if its peer does not read; if answers are pending, later."""
        if self._answers.unanswered:
            self._loop.call_later(LINGER_S, self._end_at_last)
        else:
            self.abort()

    def _stop_listening(self) -> None:
        self._ending = True
        self._half_closes = False
        self._backlog = None
        self._answers.give_up()
        self._receiver.release()
        if not self._transport.is_closing():
            self._reading.want(False)
        self._let_go()

    def _let_go(self) -> None:
        self._room_calls = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._conversation is not None:
            conversation, self._conversation = self._conversation, None
            conversation.close()

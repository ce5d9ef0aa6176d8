"""One connection: drives a conversation over a socket, with bounded memory.

How this works: bytes are read into one buffer that all connections of the loop share, so an idle
connection holds no memory; only a frame that is not whole yet is kept by its own connection. The
frames of one read are handled before anything is written, and their answers leave in one write.
Answers leave in the order of the requests, also those that come later (an append that waits for
the disk, a read that waits for events).

A turn ends early when it has taken long or its answers are many: what was read and not handled is
kept (``backlog``), and nothing more is read until it is done. It goes on after everybody else had
a turn; or, if the peer does not read its answers or has too many requests unanswered, once it has
caught up. That is all the backpressure there is, and all the memory that a peer can take.
"""

import asyncio
import logging
import socket
import time
from collections import deque
from collections.abc import Callable
from typing import cast

from mainstem.heads.conversation import Answer, Conversation, Later, ProtocolError
from mainstem.heads.transport.receive_budget import ReceiveBudget
from mainstem.heads.transport.send_queue import SendQueue
from mainstem.heads.transport.traffic import Traffic

_logger = logging.getLogger("mainstem.heads")

READ_BYTES = 256 * 1024
KEPT_BYTES = 32 * 1024
"""Of a frame up to this size what came is put before the next read, which may bring many more."""
AHEAD_BYTES = 1280 * 1024
"""Room for a frame of which little has come: the largest batches of most clients are 1 MB."""
LEAST_READ_BYTES = 4096
"""While there is no room for frames that are not whole."""
UNFINISHED_BYTES = 32 * 1024 * 1024
"""Frames that are not whole, of all connections; one of them may be larger."""
TURN_S = 0.005
"""After this the others have their turn."""
TURN_BYTES = 1024 * 1024
"""Answers in memory, or requests unanswered, after which a peer has to catch up."""
MAX_UNANSWERED = 512
LINGER_S = 2.0
"""How long a peer that is cut off may take to read what it was told last."""
GONE_S = 1.0
"""How often a peer that nothing is read from is looked at."""
_CLOSED, _CLOSED_BY_PEER = 7, 8
"""States of a connection, as the kernel numbers them."""


class Connection(asyncio.BufferedProtocol):
    """Drives one conversation over one socket."""

    __slots__ = (
        "_backlog",
        "_budget",
        "_connections",
        "_conversation",
        "_converse",
        "_ending",
        "_filled",
        "_has_room",
        "_held_by",
        "_is_looked_at",
        "_loop",
        "_out",
        "_owed",
        "_owed_bytes",
        "_partial",
        "_reading",
        "_scheduled",
        "_scratch",
        "_traffic",
        "_transport",
        "_wanted",
        "peer",
        "since",
    )

    def __init__(
        self,
        converse: Callable[["Connection"], Conversation],
        scratch: memoryview,
        budget: ReceiveBudget,
        connections: set["Connection"],
        traffic: Traffic,
    ) -> None:
        traffic.accepted += 1
        self._traffic = traffic
        self._converse = converse
        self._scratch = scratch
        self._budget = budget
        self._connections = connections
        self._partial: bytearray | None = None
        self._filled = 0
        self._wanted = 0
        self._has_room = True
        self._backlog: memoryview | None = None
        self._owed: deque[tuple[Later, int]] | None = None
        """Requests that are not answered, and their sizes; None while there are none."""
        self._owed_bytes = 0
        self._held_by: Later | None = None
        """A request before whose answer nothing more is taken from the peer."""
        self._reading = True
        self._scheduled = False
        self._is_looked_at = False
        self._ending = False
        self._conversation: Conversation | None = None
        self.peer = "?"
        self.since = time.monotonic()
        """When the peer connected."""

    # Called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the conversation."""
        self._loop = asyncio.get_running_loop()
        self._transport = cast(asyncio.Transport, transport)
        self._out = SendQueue(self._transport, self._traffic)
        self.peer = peer_of(transport)
        self._connections.add(self)
        self._conversation = self._converse(self)

    def connection_lost(self, error: Exception | None) -> None:
        """End the conversation."""
        if error is not None and not isinstance(error, ConnectionError):
            _logger.warning("lost %s: %s", self.peer, error)
        self._traffic.closed += 1
        self._connections.discard(self)
        self._stop_listening()
        self._out.clear()

    def eof_received(self) -> bool:
        """Close once everything that the peer asked for is answered, except what may never be."""
        self._ending = True
        self._let_go()
        return bool(self._owed or self._out)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where to read into: the rest of a large frame, or the shared buffer."""
        filled = 0
        if self._partial is not None:
            filled = self._filled
            if filled < len(self._partial):
                return memoryview(self._partial)[filled:]
            self._scratch[:filled] = self._partial
        if self._budget.is_tight:
            return self._scratch[filled : filled + LEAST_READ_BYTES]
        return self._scratch[filled:]

    def buffer_updated(self, nbytes: int) -> None:
        """Handle the frames that are whole now, and keep the rest."""
        self._traffic.bytes_in += nbytes
        if self._ending:
            return
        if self._partial is None:
            self._turn(self._scratch[:nbytes])
            return
        if self._filled == len(self._partial):
            self._partial = None
            self._budget.release(self)
            self._turn(self._scratch[: self._filled + nbytes])
            return
        self._filled += nbytes
        if self._filled >= self._wanted:
            data, self._partial = memoryview(self._partial)[: self._filled], None
            self._budget.release(self)
            self._turn(data)
        elif self._filled == len(self._partial):
            self.room_again()

    def pause_writing(self) -> None:
        """Send nothing more until the peer has read."""
        self._out.blocked = True

    def resume_writing(self) -> None:
        """Go on once it has."""
        self._out.blocked = False
        self._go_on()

    # Called by the budget.

    def room_again(self) -> None:
        """Make room for more of a frame, or wait until there is."""
        if self._ending or self._partial is None:
            return
        self._grow(memoryview(self._partial)[: self._filled])
        self._flush()

    def give_way(self, reason: str) -> None:
        """Close, because others need the room."""
        _logger.warning("closing %s: %s", self.peer, reason)
        self._traffic.cut_off += 1
        self.close()

    # Ours.

    def close(self) -> None:
        """Take no more requests, and close once what was answered has been sent."""
        self._stop_listening()
        self._flush()
        if self._out and not self._transport.is_closing():
            self._loop.call_later(LINGER_S, self.abort)

    @property
    def is_ending(self) -> bool:
        """Whether no more requests are taken."""
        return self._ending

    @property
    def is_owed(self) -> bool:
        """Whether the peer waits for an answer, or for the rest of one."""
        return bool(self._owed or self._out or self._backlog is not None)

    def say_goodbye(self) -> None:
        """Take no more requests, and close when the peer does, who has all its answers."""
        if self._ending or self._transport.is_closing():
            return
        self._ending = True
        self._partial = None
        self._budget.release(self)
        self._let_go()
        self._read(True)
        # Closing with requests unread would reset the connection, and answers may be lost by that.
        try:
            self._transport.write_eof()
        except OSError:
            # The peer has gone already, and we have not been told yet.
            self.abort()

    def abort(self) -> None:
        """Close at once."""
        self._transport.abort()

    def _turn(self, view: memoryview) -> None:
        try:
            assert self._conversation is not None
            self._take(self._conversation, view)
        except Exception as error:
            self._cut_off(error)
        else:
            self._flush()

    def _cut_off(self, error: Exception) -> None:
        """Close: a bug of ours costs one connection, not the server; the log says where it is."""
        if isinstance(error, ProtocolError):
            _logger.warning("closing %s: %s", self.peer, error)
            self._out.add([error.farewell])
        else:
            problem = "the request could not be carried out"
            _logger.error("closing %s: %s", self.peer, problem, exc_info=error)
        self._traffic.cut_off += 1
        self.close()

    def _take(self, conversation: Conversation, view: memoryview) -> None:
        until = time.monotonic() + TURN_S
        while not self._ending:
            size = conversation.frame_size(view)
            if size is None or size > len(view):
                self._keep(view, size or len(view) + 1)
                return
            run = conversation.handle_run(view) if size < len(view) else None
            if run is None:
                self._answer(conversation.handle(view[:size]), size)
            else:
                size = run[1]
                self._answer(*run)
            view = view[size:]
            if not len(view):
                return
            if self._has_to_catch_up() or time.monotonic() > until:
                # Writable, as the log writes offsets into what it appends.
                self._backlog = memoryview(bytearray(view))
                return

    def _keep(self, rest: memoryview, wanted: int) -> None:
        self._budget.hold(self, len(rest), must=True)
        self._wanted = wanted
        if wanted <= KEPT_BYTES and self._budget.hold(self, wanted):
            self._has_room = True
            self._partial = bytearray(rest)
            self._filled = len(rest)
        else:
            self._grow(rest)

    def _grow(self, came: memoryview) -> None:
        """Keep what came of a frame, with room for more if there is any."""
        # A peer's word is not enough for more than twice what came; but a batch of the usual size
        # is given its place at once, as moving it costs more than all the rest of its way.
        ahead = AHEAD_BYTES if len(came) >= KEPT_BYTES else READ_BYTES
        size = min(max(2 * len(came), ahead), self._wanted)
        self._has_room = self._budget.hold(self, size)
        self._partial = bytearray(size if self._has_room else len(came))
        self._partial[: len(came)] = came
        self._filled = len(came)

    def _can_send_more(self) -> bool:
        """Tell whether the next answer is there, and the peer has read enough of those before."""
        next_is_there = self._owed and self._owed[0][0].answer is not None
        return bool(next_is_there) and not self._is_full()

    def _is_full(self) -> bool:
        return self._out.blocked or self._out.held_bytes >= TURN_BYTES

    def _has_to_catch_up(self) -> bool:
        return (
            self._is_full()
            or self._held_by is not None
            or self._owed_bytes >= TURN_BYTES
            or (self._owed is not None and len(self._owed) >= MAX_UNANSWERED)
        )

    def _answer(self, answer: Answer | Later, size: int) -> None:
        if isinstance(answer, Later):
            if answer.answer is None:
                answer.then(self._settle)
            else:
                self._settle_soon()
            if answer.holds:
                self._held_by = answer
        elif self._owed:
            ready = Later()
            ready.settle(answer)
            size = max(size, sum(len(each) for each in answer if isinstance(each, bytes)))
            answer = ready
        else:
            self._out.add(answer)
            return
        if self._owed is None:
            self._owed = deque()
        self._owed.append((answer, size))
        self._owed_bytes += size

    def _settle(self) -> None:
        """Send what can be sent, soon if there may be more: much is settled in one turn."""
        if self._owed and len(self._owed) == 1 and self._backlog is None and not self._ending:
            # Nothing more can be: another turn of the loop would only let others go first.
            self._go_on()
        else:
            self._settle_soon()

    def _settle_soon(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        """Send what is settled, then handle what was read."""
        self._scheduled = False
        if self._transport.is_closing():
            return
        owed = self._owed
        while owed and self._can_send_more():
            later, size = owed.popleft()
            self._owed_bytes -= size
            if later is self._held_by:
                self._held_by = None
            try:
                self._out.add(later.take())
            except Exception as error:
                self._cut_off(error)
                return
            if later.failed is not None:
                self._cut_off(later.failed)
                return
        if not owed:
            self._owed = None
        backlog = self._backlog
        if backlog is not None and not self._has_to_catch_up():
            self._backlog = None
            self._turn(backlog)
        else:
            self._flush()

    def _flush(self) -> None:
        """Send what can be sent, and see what is next: reading, handling, waiting, or the end."""
        if self._transport.is_closing():
            return
        try:
            self._out.push()
        except OSError as error:
            _logger.error("closing %s: %s", self.peer, error)
            self._transport.abort()
            return
        if self._can_send_more():
            self._settle_soon()
        if self._ending:
            if not (self._owed or self._out):
                self._transport.close()
            return
        waits = self._has_to_catch_up()
        if self._backlog is not None and not waits:
            self._settle()
        self._read(self._backlog is None and self._has_room and not waits)

    def _read(self, wanted: bool) -> None:
        if wanted and not self._reading:
            self._reading = True
            self._transport.resume_reading()
        elif not wanted and self._reading:
            self._reading = False
            self._transport.pause_reading()
            if not self._is_looked_at and not self._ending:
                self._is_looked_at = True
                self._loop.call_later(GONE_S, self._look_whether_gone)

    def _look_whether_gone(self) -> None:
        """Notice that a peer has gone: the loop does not tell while nothing is read from it."""
        self._is_looked_at = False
        if self._reading or self._ending or self._transport.is_closing():
            return
        known = self._transport.get_extra_info("socket")
        (state,) = known.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)
        if state == _CLOSED:
            self.abort()
            return
        if state == _CLOSED_BY_PEER and self._conversation is not None:
            # What it sent before is still to be read, once nothing waits on its behalf.
            self._conversation.close()
        self._is_looked_at = True
        self._loop.call_later(GONE_S, self._look_whether_gone)

    def _stop_listening(self) -> None:
        self._ending = True
        self._owed = self._backlog = self._partial = None
        self._owed_bytes = 0
        self._budget.release(self)
        if not self._transport.is_closing():
            self._read(False)
        self._let_go()

    def _let_go(self) -> None:
        if self._conversation is not None:
            self._conversation.close()
            self._conversation = None


def peer_of(transport: asyncio.BaseTransport) -> str:
    """Return who is at the other side, as the log names it."""
    host, port, *_ = transport.get_extra_info("peername") or ("?", 0)
    return f"{host}:{port}"

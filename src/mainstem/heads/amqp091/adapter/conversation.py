"""One AMQP connection: carries out the client's requests and sends the responses."""

import logging
import time
from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from mainstem.auth import Credentials, Peer
from mainstem.core.errors import MainstemError, StorageFull
from mainstem.heads.amqp091 import methods
from mainstem.heads.amqp091.adapter.channel import AmqpChannel
from mainstem.heads.amqp091.adapter.failures import refusal
from mainstem.heads.amqp091.adapter.publishing.incomplete_messages import Unfinished
from mainstem.heads.amqp091.adapter.publishing.publisher import Publisher
from mainstem.heads.amqp091.adapter.service import Service
from mainstem.heads.amqp091.codec import method_frame
from mainstem.heads.amqp091.errors import AmqpError, ReplyCode
from mainstem.heads.amqp091.messages import SETTLE_BYTES, Publish, Said
from mainstem.heads.amqp091.methods import Bare, BasicPublish, Ids, Method
from mainstem.heads.amqp091.session import RUN_BYTES, Login, ProtocolHeader, Request, Session
from mainstem.heads.conversation import Answer, Later, Outbox, Piece
from mainstem.heads.parked import Over
from mainstem.heads.settlements import RETRY_MS

_logger = logging.getLogger("mainstem.heads.amqp091")

MIN_RUN_BYTES = 4 * 1024
RUN_PARTS = 4
"""Maximum number of runs of frames that are appended together, while they have few messages."""
RUN_MESSAGES = 400
"""No further run is appended together with runs of this many messages: the cost of the append is
small.
"""
QUICK_S = 0.05
"""If a run of frames was handled in less time, the next run may be as large as ``RUN_BYTES``. Other
connections wait while a run is handled.
"""


class AmqpConversation:
    """One client's connection.

    ``send`` sends frames at once, so a channel does not wait for the responses of other channels.
    """

    def __init__(self, service: Service, outbox: Outbox) -> None:
        self.service = service
        self.outbox = outbox
        self.session = Session(service.settings, service.clock_ms())
        self.id = service.new_connection_id()
        self.vhost = "/"
        self.waiting: set[Callable[[], None]] = set()
        """Callbacks that end each wait of a publish or request, with one last attempt."""
        self.publisher = Publisher(self)
        self._channels: dict[int, AmqpChannel] = {}
        self.opened = 0
        """How many channels were opened, ever."""
        self.consumers = 0
        """Number of consumers on all channels."""
        self.in_transactions = 0
        """Bytes of messages in open transactions, on all channels."""
        self.user = ""
        self.login: Login | None = None
        """The client's login: its mechanism and properties; None before the login."""
        self.connected_ms = service.context.now_ms()
        self._is_blocked = False
        self._gives_up = False
        """Set when the connection ends: while the disk is full, publishes then fail at once instead
        of waiting.
        """
        self._run_bytes = MIN_RUN_BYTES
        """Maximum size of the next run of frames; larger if the last run was handled quickly."""
        self._held: Later | None = None
        """Set by a request that later ones must wait for; settled when that request is complete."""
        self._unfinished = Unfinished(service.unfinished, outbox, self.block, self.unblock)
        self._is_closed = False
        self.act_as(service.context.auth.peer(outbox.peer, tls=outbox.is_tls))
        service.connections.add(self)

    # Called by the transport

    def frame_size(self, view: memoryview) -> int | None:
        """Return the size of the frame that begins here, None if too few bytes have arrived."""
        return self.session.frame_size(view)

    def handle(self, frame: memoryview) -> Answer | Later:
        """Carry out the request in a frame; return a Later if the next frame must wait."""
        if len(frame) == SETTLE_BYTES and (run := self.handle_run(frame)) is not None:
            # A single acknowledgement, which a client with a small prefetch limit sends.
            return run[0]
        try:
            received = self.session.receive(frame)
            if received is not None:
                self._carry_out(*received)
        except AmqpError as error:
            self.refuse(error, self.session.channel)
        waits = self._unfinished.keep(self.session.unfinished)
        held, self._held = self._held, None
        return self.publisher.flush() or held or waits or ()

    def handle_run(self, view: memoryview) -> tuple[Answer | Later, int] | None:
        """Carry out the publishes and acknowledgements of several frames with one append.

        Returns the answer and the number of bytes handled, or None if the first frame is another
        method.
        """
        received, size = self.session.receive_run(view[: self._run_bytes])
        if not size:
            return None
        began = time.monotonic()
        self._carry_out_run(received)
        count, most = len(received), self._run_bytes * RUN_PARTS
        # Many messages, however large, share an append to each of their queues.
        while count < RUN_MESSAGES and size < min(len(view), most):
            received, more = self.session.receive_run(view[size : size + self._run_bytes])
            if not more:
                break
            self._carry_out_run(received)
            count, size = count + len(received), size + more
        waits = self.publisher.flush()
        is_quick = time.monotonic() - began < QUICK_S
        self._run_bytes = RUN_BYTES if is_quick else MIN_RUN_BYTES
        return waits or (), size

    def _carry_out_run(self, received: Sequence[tuple[int, Said]]) -> None:
        for number, said in received:
            channel = self._channels.get(number)
            if channel is None:
                # An earlier message of this run closed the channel.
                continue
            try:
                if isinstance(said, Publish):
                    channel.publish(said)
                else:
                    channel.settle(said)
            except AmqpError as error:
                ids = BasicPublish.ids if isinstance(said, Publish) else said.ids
                self.refuse(error.about(*ids), number)
                if error.is_hard:
                    break

    def deadline(self) -> int | None:
        """Return when a heartbeat is due or the client times out (monotonic ms), None if never."""
        self.session.heard_ms = self._heard_ms(self.service.clock_ms())
        return self.session.deadline()

    def tick(self, now_ms: int) -> Answer:
        """Send a heartbeat if one is due; ProtocolError if the client has timed out."""
        self.session.heard_ms = self._heard_ms(now_ms)
        beat = self.session.tick(now_ms)
        return (beat,) if beat else ()

    def _heard_ms(self, now_ms: int) -> int:
        """Return when bytes last arrived, or ``now_ms`` while nothing is read from the client."""
        is_read = not self.waiting and not self._unfinished.waits
        return self.outbox.heard_ms if is_read else now_ms

    def drain(self) -> Answer:
        """Return Connection.Close for the client, because the server stops."""
        detail = "broker forced connection closure with reason 'shutdown'"
        error = AmqpError(ReplyCode.CONNECTION_FORCED, detail)
        return (self.session.refused(error, 0, self.service.clock_ms()),)

    def stop_waiting(self) -> None:
        """Retry one last time all requests that wait for disk space, room or durability."""
        for give_up in list(self.waiting):
            give_up()

    def close(self) -> None:
        """Requeue unacknowledged deliveries, and delete the connection's exclusive queues."""
        self._is_closed = True
        # Freed explicitly: conversations are in reference cycles, which are collected late.
        self.session.end()
        self._unfinished.release()
        self.stop_waiting()
        self._close_channels()
        self.service.connections.discard(self)
        for error in self.service.queues.delete_exclusive(self):
            self.warn(str(error))

    # For channels and publishers

    def send(self, pieces: Sequence[Piece]) -> None:
        """Send frames to the client."""
        if pieces and not self._is_closed:
            self.session.sent_ms = self.service.clock_ms()
            self.outbox.send(pieces)

    def warn(self, problem: str) -> None:
        """Log a warning about this connection."""
        _logger.warning("%s: %s", self.outbox.peer, problem)

    def refuse(self, error: AmqpError, number: int) -> None:
        """Count an error and close the channel; the connection for a hard error or channel 0."""
        if self._is_closed:
            return
        self.service.counts.errors[error.code.name] += 1
        if error.is_hard or not number:
            _logger.warning("closing %s: %s", self.outbox.peer, error)
        frame = self.session.refused(error, number, self.service.clock_ms())
        if frame:
            self.send([frame])
        if error.is_hard or not number:
            self._close_channels()
        elif (channel := self._channels.pop(number, None)) is not None:
            channel.close()

    @property
    def name(self) -> str:
        """The connection's name, as RabbitMQ forms it."""
        return f"{self.outbox.peer} -> {self.service.context.addresses.get('amqp', '')}"

    @property
    def channels(self) -> list[AmqpChannel]:
        """The open channels."""
        return list(self._channels.values())

    def guarded(self, number: int, ids: Ids, call: Callable[[], None]) -> None:
        """Call a function that carries out a method on a channel; an error closes the channel."""
        try:
            call()
        except AmqpError as error:
            self.refuse(error.about(*ids), number)
        except MainstemError as error:
            self.refuse(refusal(error, ids), number)
        except Exception as error:
            # Also called by timers, where nobody else would end the client's wait.
            _logger.error("%s: a request failed", self.outbox.peer, exc_info=error)
            self.refuse(AmqpError(ReplyCode.INTERNAL_ERROR, "internal error", *ids), number)

    def hold(self) -> Callable[[], None]:
        """Make later requests of the connection wait until the returned function is called."""
        held = self._held = Later()
        held.hold()
        return lambda: held.settle(())

    def block(self, reason: str) -> None:
        """Send Connection.Blocked, unless the client is blocked already."""
        if not self._is_blocked and (frame := self.session.blocked(reason)):
            self.send([frame])
        self._is_blocked = True

    def unblock(self) -> None:
        """Send Connection.Unblocked, if the client is blocked."""
        if self._is_blocked and (frame := self.session.unblocked()):
            self.send([frame])
        self._is_blocked = False

    def wait_for_space(self, error: StorageFull, again: Callable[[], None]) -> bool:
        """Block the client because the disk is full, and call ``again`` after RETRY_MS.

        Returns False, and does neither, if the connection or the server is stopping.
        """
        if self._gives_up or self._is_closed or self.service.context.draining:
            return False
        if not self._is_blocked:
            self.warn(f"publishing is blocked: {error}")
        self.block(str(error))

        def over(why: Over) -> None:
            self._gives_up = why is not Over.TIME
            again()

        self.service.context.park(self.waiting, RETRY_MS, over)
        return True

    def check_user_id(self, said: str | None) -> None:
        """Raise AmqpError if a message has a user-id other than the authenticated user."""
        if said is not None and said != self.user:
            detail = f"user_id property set to '{said}' but authenticated user was '{self.user}'"
            raise AmqpError(ReplyCode.PRECONDITION_FAILED, detail, *methods.BasicPublish.ids)

    # Requests

    def _carry_out(self, number: int, request: Request) -> None:
        if isinstance(request, Publish):
            publish = self._channels[number].publish
            self.guarded(number, BasicPublish.ids, partial(publish, request))
        elif not number:
            self._on_connection(request)
        elif isinstance(request, methods.ChannelOpen):
            self._channels[number] = AmqpChannel(self, number)
            self.send([method_frame(number, methods.ChannelOpenOk())])
        elif isinstance(request, methods.ChannelClose):
            if (channel := self._channels.pop(number, None)) is not None:
                channel.close()
            self.send([method_frame(number, Bare.CHANNEL_CLOSE_OK)])
        elif isinstance(request, Method | Bare):
            carry_out = self._channels[number].carry_out
            self.guarded(number, request.ids, partial(carry_out, request))

    def _on_connection(self, request: Request) -> None:
        match request:
            case ProtocolHeader():
                self.send([self.session.start(self.service.properties)])
            case Login():
                self._log_in(request)
            case methods.ConnectionOpen():
                self.vhost = request.virtual_host
                self.send([self.session.open_ok()])
            case methods.ConnectionUpdateSecret():
                self.send([method_frame(0, Bare.CONNECTION_UPDATE_SECRET_OK)])
            case methods.ConnectionClose():
                self._close_channels()
                self.send([method_frame(0, Bare.CONNECTION_CLOSE_OK)])
                self.outbox.end()
            case Bare.CONNECTION_CLOSE_OK:
                self.outbox.end()

    def _log_in(self, login: Login) -> None:
        auth = self.service.context.auth
        said = Credentials(login.user, login.password)
        try:
            peer = auth.authenticate(login.mechanism, said, self._peer)
        except MainstemError as error:
            farewell = self.session.login_refused()
            self.outbox.end((farewell,) if farewell else (), f"login refused: {error}")
            return
        self.user = login.user
        # Whoever lists connections must not be able to find the password.
        self.login = msgspec.structs.replace(login, password=b"")
        self.act_as(peer)
        self.send([self.session.tune()])

    def act_as(self, peer: Peer) -> None:
        """Set the authenticated peer, with whose permissions the broker is used from now on."""
        self._peer = peer
        self.door = self.service.context.door(peer)

    def _close_channels(self) -> None:
        channels, self._channels = self._channels, {}
        for channel in channels.values():
            channel.close()

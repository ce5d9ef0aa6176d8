"""One AMQP 0-9-1 connection: what may be said when, and the frames that answer it.

Order and errors are those of RabbitMQ 4 (rabbit_reader, rabbit_channel, rabbit_command_assembler).

How this works: ``receive`` takes a frame and returns the request that it makes and its channel, or
None if there is nothing to do yet: a heartbeat, a part of a message, what is said on a channel that
is being closed. ``receive_run`` takes many frames at once if they are messages and
acknowledgements, and is several times as quick. The conversation carries requests out:

| request | answer |
|---|---|
| ProtocolHeader | ``start``: Start |
| Login | ``tune``: Tune; or ``login_refused``, and the end |
| ConnectionOpen | ``open_ok``: OpenOk; or ``refused`` |
| ConnectionClose | CloseOk, and the end |
| Bare.CONNECTION_CLOSE_OK | the end: we have closed, and the client knows |
| ChannelOpen | ChannelOpenOk |
| ChannelClose | CloseOk, also if the channel was refused before, and nothing is left to close |
| Publish and all others | their own, by ``codec.method_frame`` and those beside it |

Nothing more is received before Login and ConnectionOpen are answered. Whatever is refused is
``AmqpError``, raised by ``receive`` (then ``channel`` says where), or by the broker and told to
``refused``, which returns Channel.Close or Connection.Close. The client may still send what it
likes until it answers with CloseOk, and all of it is ignored; so is what comes behind a refused
request in a run, on its channel (``is_open``). What is no frame, or has no right end, is
``ProtocolError``: where the next one begins cannot be told.

    def handle(self, frame: memoryview) -> Answer:
        try:
            received = self._session.receive(frame)
            return () if received is None else self._carry_out(*received)
        except AmqpError as error:
            return (self._session.refused(error, self._session.channel, now_ms),)

    def handle_run(self, view: memoryview) -> tuple[Answer, int] | None:
        received, size = self._session.receive_run(view)
        return (self._carry_out_all(received), size) if size else None

Time is an argument: milliseconds of one clock that never goes back.
"""

from collections.abc import Mapping
from enum import StrEnum
from struct import Struct

import msgspec

from mainstem.heads.amqp091 import codec, fields, methods
from mainstem.heads.amqp091.codec import BODY, HEADER, HEARTBEAT, METHOD
from mainstem.heads.amqp091.errors import AmqpError, ReplyCode
from mainstem.heads.amqp091.messages import PUBLISH, TAG, Channel, Publish, Said, settled, take_run
from mainstem.heads.amqp091.methods import Bare, Method, decode_method
from mainstem.heads.amqp091.sasl import MECHANISMS, credentials
from mainstem.heads.amqp091.settings import AmqpSettings
from mainstem.heads.conversation import ProtocolError

CLOSE_MS = 10_000
"""How long a client may take to answer Connection.Close."""
INITIAL_FRAME_MAX = 8192
"""Bytes of a frame before limits are agreed upon, as of RabbitMQ 4.1; tokens may be long."""
RUN_BYTES = 64 * 1024
"""How much ``receive_run`` takes at most; larger messages gain nothing by it."""


class Phase(StrEnum):
    """How far a connection has got, in RabbitMQ's words, which are part of its texts."""

    HEADER = "pre_init"
    """The protocol header is to come."""
    STARTING = "starting"
    """StartOk is to come."""
    SECURING = "securing"
    """Whether the login is accepted is to be said."""
    TUNING = "tuning"
    """TuneOk is to come."""
    OPENING = "opening"
    """Open is to come, or to be answered."""
    RUNNING = "running"
    CLOSING = "closing"
    """We have sent Close."""
    CLOSED = "closed"
    """Nothing more is taken; the conversation ends."""


class ProtocolHeader(msgspec.Struct, frozen=True):
    """The protocol header came, and is ours."""


class Login(msgspec.Struct, frozen=True):
    """StartOk."""

    mechanism: str
    user: str
    password: bytes
    client_properties: fields.Table

    def __repr__(self) -> str:
        """Show no password."""
        return f"Login({self.mechanism!r}, {self.user!r})"


Request = ProtocolHeader | Login | Publish | Method | Bare
Received = tuple[int, Request]
"""A channel, and what is asked for on it."""

_ON_CHANNELS = (
    methods.BasicAck,
    methods.BasicCancel,
    methods.BasicConsume,
    methods.BasicGet,
    methods.BasicNack,
    methods.BasicQos,
    methods.BasicRecover,
    methods.BasicRecoverAsync,
    methods.BasicReject,
    methods.ChannelFlow,
    methods.ConfirmSelect,
    methods.ExchangeBind,
    methods.ExchangeDeclare,
    methods.ExchangeDelete,
    methods.ExchangeUnbind,
    methods.QueueBind,
    methods.QueueDeclare,
    methods.QueueDelete,
    methods.QueuePurge,
    methods.QueueUnbind,
)
"""What a client may say on an open channel, beside what is about the channel itself."""
_TX = (Bare.TX_SELECT, Bare.TX_COMMIT, Bare.TX_ROLLBACK)
_HEADERS = frozenset((codec.PROTOCOL_HEADER, b"AMQP\x01\x01\x00\x09"))
"""The second is that of 0-9, which is taken for the same, as RabbitMQ does."""

_OVER = frozenset((Phase.CLOSING, Phase.CLOSED))
_KINDS = frozenset((METHOD, HEADER, BODY, HEARTBEAT))
_RUN_METHODS = frozenset((40, 80, 90, 120))
_METHOD = Struct(">BHIHH")
_CHANNEL_CLOSE, _CHANNEL_CLOSE_OK = b"\0\x14\0\x28", b"\0\x14\0\x29"


class Session:
    """Frames in, requests out; answers in, frames out."""

    def __init__(self, settings: AmqpSettings, now_ms: int) -> None:
        self._settings = settings
        self._begun_ms = now_ms
        self._closing_ms = now_ms
        self._channels: dict[int, Channel] = {}
        self._channel_max = settings.channel_max
        self._unfinished = 0
        """Bytes that are kept of messages that are coming, on all channels."""
        self._heartbeat_ms = 0
        self._mechanism = ""
        self._capabilities: frozenset[str] = frozenset()
        self.heard_ms = self.sent_ms = now_ms
        """When bytes last came from the client, and were last sent to it; told from outside."""
        self.phase = Phase.HEADER
        self.channel = 0
        """Of the frame that came last."""
        self.frame_max = min(INITIAL_FRAME_MAX, settings.frame_max)
        """Bytes of a frame, both ways."""

    # Frames in

    def frame_size(self, view: memoryview) -> int | None:
        """Return the size of the frame that begins here, None if more of it has to come."""
        if self.phase is Phase.HEADER:
            begun = bytes(view[:4])
            if not b"AMQP".startswith(begun):
                raise self._no_header(begun)
            return len(codec.PROTOCOL_HEADER)
        try:
            return codec.frame_size(view, self.frame_max)
        except AmqpError as error:
            raise self._fatal(error) from None

    def receive(self, frame: memoryview) -> Received | None:
        """Return what a frame asks for and on which channel, None if there is nothing to do yet."""
        if self.phase is Phase.HEADER:
            return self._header(bytes(frame))
        kind, number, size = codec.HEAD.unpack_from(frame)
        self.channel = number
        if frame[-1] != codec.FRAME_END:
            what = f"{{invalid_frame_end_marker,{frame[-1]}}}"
            raise self._fatal(_frame_error(ReplyCode.FRAME_ERROR, kind, frame, what))
        if number and self.phase is Phase.RUNNING and METHOD <= kind <= BODY:
            return self._on_channel(kind, number, frame)
        if self.phase in _OVER:
            return self._after_close(kind, number, frame)
        if kind not in _KINDS or (kind == HEARTBEAT and size):
            raise _frame_error(ReplyCode.FRAME_ERROR, kind, frame, "unknown_frame")
        if number or kind in (HEADER, BODY):
            raise _frame_error(ReplyCode.UNEXPECTED_FRAME, kind, frame)
        if kind == HEARTBEAT:
            return None
        return self._on_connection(decode_method(bytes(frame[7:-1])))

    def receive_run(self, view: memoryview) -> tuple[list[tuple[int, Said]], int]:
        """Take whole messages, BasicAck, BasicNack and BasicReject from what came.

        Returns what is asked for, and the size of the frames that were taken. It stops before
        anything else, and before what is not right: that is for ``receive``.
        """
        # No frame that fits is over the limit, then.
        stop = min(len(view), RUN_BYTES, self.frame_max)
        if stop < _METHOD.size or self.phase is not Phase.RUNNING:
            return [], 0
        kind, _, _, class_id, method_id = _METHOD.unpack_from(view)
        if kind != METHOD or class_id != 60 or method_id not in _RUN_METHODS:
            return [], 0
        # A copy, as nearly all of it will be copied anyway, and slices of bytes are quicker.
        return take_run(bytes(view[:stop]), self._channels, self._settings.max_message_bytes)

    # Frames out

    def start(self, server_properties: fields.Table) -> bytes:
        """Answer the protocol header."""
        start = methods.ConnectionStart(
            0, 9, server_properties, " ".join(MECHANISMS).encode(), b"en_US"
        )
        return codec.method_frame(0, start)

    def tune(self) -> bytes:
        """Accept a login."""
        self.phase = Phase.TUNING
        limits = self._settings
        tune = methods.ConnectionTune(limits.channel_max, limits.frame_max, limits.heartbeat_s)
        return codec.method_frame(0, tune)

    def login_refused(self) -> bytes:
        """Refuse a login; the connection ends. Clients that do not expect Close are told nothing.

        Why is not for the client to know.
        """
        self.phase = Phase.CLOSED
        if not self.has("authentication_failure_close"):
            return b""
        detail = (
            f"Login was refused using authentication mechanism {self._mechanism}. "
            "For details see the broker logfile."
        )
        return _connection_close(AmqpError(ReplyCode.ACCESS_REFUSED, detail))

    def open_ok(self) -> bytes:
        """Open the connection: channels may be opened."""
        self.phase = Phase.RUNNING
        return codec.method_frame(0, methods.ConnectionOpenOk())

    def refused(self, error: AmqpError, channel: int, now_ms: int) -> bytes:
        """Close the channel, or the connection if the error is hard or was on channel 0.

        Nothing is said about a channel that is closed, or to a client that was told to go.
        """
        if self.phase in _OVER:
            return b""
        if error.is_hard or channel == 0:
            self._close(now_ms)
            return _connection_close(error)
        found = self._channels.get(channel)
        if found is None or found.closing:
            return b""
        self._unfinished -= found.held
        found.close()
        text = _shortened(error.reply_text)
        return codec.method_frame(
            channel, methods.ChannelClose(error.code, text, error.class_id, error.method_id)
        )

    def blocked(self, reason: str) -> bytes:
        """Tell a client that wants to know that nothing it publishes is taken for a while."""
        if not self.has("connection.blocked"):
            return b""
        return codec.method_frame(0, methods.ConnectionBlocked(_shortened(reason)))

    def unblocked(self) -> bytes:
        """Tell a client that wants to know that it may publish again."""
        if not self.has("connection.blocked"):
            return b""
        return codec.method_frame(0, Bare.CONNECTION_UNBLOCKED)

    def is_open(self, channel: int) -> bool:
        """Return whether what is asked for on a channel is carried out: it was not refused."""
        found = self._channels.get(channel)
        return found is not None and not found.closing

    def end(self) -> None:
        """Take nothing more, and keep nothing: the connection has ended."""
        self.phase = Phase.CLOSED
        self._forget_channels()

    @property
    def unfinished(self) -> int:
        """Bytes that are kept of messages that are coming, on all channels."""
        return self._unfinished

    def has(self, capability: str) -> bool:
        """Return whether a client says that it knows something beyond the specification."""
        return capability in self._capabilities

    # Time

    def deadline(self) -> int | None:
        """Return when ``tick`` is to be called, None if never."""
        if self.phase in _OVER:
            return self._closing_ms + CLOSE_MS if self.phase is Phase.CLOSING else None
        times = []
        if self.phase is not Phase.RUNNING:
            times.append(self._begun_ms + self._settings.handshake_ms)
        if self._heartbeat_ms:
            times += (self.sent_ms + self._heartbeat_ms // 2, self._silent_at())
        return min(times, default=None)

    def tick(self, now_ms: int) -> bytes:
        """Return a heartbeat if it is time for one; ProtocolError if the client took too long."""
        if self.phase in _OVER:
            if self.phase is Phase.CLOSING and now_ms >= self._closing_ms + CLOSE_MS:
                raise ProtocolError(f"no answer to Connection.Close within {CLOSE_MS} ms")
            return b""
        limit_ms = self._settings.handshake_ms
        if self.phase is not Phase.RUNNING and now_ms >= self._begun_ms + limit_ms:
            raise ProtocolError(f"not open within {limit_ms} ms (amqp.handshake_ms)")
        if not self._heartbeat_ms:
            return b""
        if now_ms >= self._silent_at():
            timeout_s = self._heartbeat_ms // 1000
            raise ProtocolError(f"missed heartbeats from client, timeout: {timeout_s}s")
        if now_ms >= self.sent_ms + self._heartbeat_ms // 2:
            self.sent_ms = now_ms
            return codec.HEARTBEAT_FRAME
        return b""

    def _silent_at(self) -> int:
        # "no incoming traffic (i.e. received octets) for two heartbeat intervals or longer" [4.2.7]
        return self.heard_ms + 2 * self._heartbeat_ms

    # The connection

    def _header(self, header: bytes) -> Received:
        if header not in _HEADERS:
            raise self._no_header(header)
        self.phase = Phase.STARTING
        return 0, ProtocolHeader()

    def _no_header(self, came: bytes) -> ProtocolError:
        """Return the error of another protocol, or version: it is told what is spoken [4.2.2]."""
        self.phase = Phase.CLOSED
        if b"GET ".startswith(came):
            what = "an HTTP GET request came"
        elif came[:1] == b"\x16":
            what = "a TLS client came to a plaintext port"
        else:
            what = f"the client did not start with the header of AMQP 0-9-1: {came!r}"
        return ProtocolError(what, codec.PROTOCOL_HEADER)

    def _on_connection(self, method: Method | Bare) -> Received | None:
        phase = self.phase
        match method:
            case methods.ConnectionStartOk() if phase is Phase.STARTING:
                return 0, self._login(method)
            case methods.ConnectionTuneOk() if phase is Phase.TUNING:
                self._tuned(method)
                return None
            case methods.ConnectionOpen() if phase is Phase.OPENING:
                return 0, method
            case methods.ConnectionUpdateSecret() if phase is Phase.RUNNING:
                return 0, method
            case methods.ConnectionClose():
                self._forget_channels()
                self.phase = Phase.CLOSED
                return 0, method
        detail = f"unexpected method in connection state {phase}"
        raise AmqpError(ReplyCode.CHANNEL_ERROR, detail, *method.ids)

    def _login(self, method: methods.ConnectionStartOk) -> Login:
        self.phase = Phase.SECURING
        capabilities = method.client_properties.get("capabilities")
        if isinstance(capabilities, Mapping):
            known = (name for name, value in capabilities.items() if value is True)
            self._capabilities = frozenset(known)
        self._mechanism = method.mechanism
        user, password = credentials(method.mechanism, method.response)
        return Login(method.mechanism, user, password, method.client_properties)

    def _tuned(self, method: methods.ConnectionTuneOk) -> None:
        """Take the client's limits. Its 0, for no limit, is no more than ours."""
        ours = self._settings
        _check_limit("frame_max", method.frame_max, codec.MIN_FRAME_MAX, ours.frame_max)
        _check_limit("channel_max", method.channel_max, 1, ours.channel_max)
        self.frame_max = method.frame_max or ours.frame_max
        self._channel_max = method.channel_max or ours.channel_max
        self._heartbeat_ms = method.heartbeat * 1000
        self.phase = Phase.OPENING

    def _close(self, now_ms: int) -> None:
        self.phase = Phase.CLOSING
        self._closing_ms = now_ms
        self._forget_channels()

    def _forget_channels(self) -> None:
        self._channels.clear()
        self._unfinished = 0

    def _after_close(self, kind: int, number: int, frame: memoryview) -> Received | None:
        """Wait for the client to close, too.

        "any received methods except Close and Close-OK MUST be discarded" [connection.close]
        """
        if kind != METHOD or number or self.phase is Phase.CLOSED:
            return None
        try:
            method = decode_method(bytes(frame[7:-1]))
        except AmqpError:
            return None
        if method is Bare.CONNECTION_CLOSE_OK or isinstance(method, methods.ConnectionClose):
            self.phase = Phase.CLOSED
            return 0, method
        return None

    def _fatal(self, error: AmqpError) -> ProtocolError:
        """Return the end of a connection on which no frame can be found any more."""
        told = self.phase in _OVER
        self._forget_channels()
        self.phase = Phase.CLOSED
        close = b"" if told else _connection_close(error)
        return ProtocolError(str(error), close)

    # Channels

    def _on_channel(self, kind: int, number: int, frame: memoryview) -> Received | None:
        channel = self._channels.get(number)
        if channel is not None and channel.busy:
            if channel.closing:
                return self._on_closing_channel(kind, number, frame)
            return self._content(channel, kind, number, frame)
        if kind != METHOD:
            detail = "expected method frame, got non method frame instead"
            raise AmqpError(ReplyCode.UNEXPECTED_FRAME, detail)
        payload = bytes(frame[7:-1])
        if channel is None:
            return self._open_channel(number, decode_method(payload))
        ids = payload[:4]
        if ids == PUBLISH:
            channel.publish(payload[6:])
            return None
        if len(payload) == 13:
            quick = settled(ids, 13, *TAG.unpack_from(payload, 4))
            if quick is not None:
                return number, quick
        return number, self._asked(number, decode_method(payload))

    def _asked(self, number: int, method: Method | Bare) -> Method | Bare:
        """Return a method that may be asked for on an open channel."""
        if isinstance(method, methods.ChannelClose):
            del self._channels[number]
        elif isinstance(method, methods.ChannelOpen):
            raise AmqpError(ReplyCode.CHANNEL_ERROR, "second 'channel.open' seen", *method.ids)
        elif isinstance(method, methods.ChannelFlow) and not method.active:
            raise AmqpError(ReplyCode.NOT_IMPLEMENTED, "active=false", *method.ids)
        elif not isinstance(method, _ON_CHANNELS) and method not in _TX:
            raise AmqpError(ReplyCode.COMMAND_INVALID, "unimplemented method", *method.ids)
        return method

    def _open_channel(self, number: int, method: Method | Bare) -> Received:
        if not isinstance(method, methods.ChannelOpen):
            raise AmqpError(ReplyCode.CHANNEL_ERROR, "expected 'channel.open'", *method.ids)
        opened = len(self._channels)
        if opened >= self._channel_max:
            detail = (
                f"number of channels opened ({opened}) has reached the negotiated channel_max "
                f"({self._channel_max})"
            )
            raise AmqpError(ReplyCode.NOT_ALLOWED, detail, *method.ids)
        self._channels[number] = Channel()
        return number, method

    def _on_closing_channel(self, kind: int, number: int, frame: memoryview) -> Received | None:
        """Ignore all but Close, which crossed ours, and CloseOk."""
        if kind != METHOD:
            return None
        payload = bytes(frame[7:-1])
        if payload == _CHANNEL_CLOSE_OK:
            del self._channels[number]
        return (number, decode_method(payload)) if payload[:4] == _CHANNEL_CLOSE else None

    def _content(
        self, channel: Channel, kind: int, number: int, frame: memoryview
    ) -> Received | None:
        before = channel.held
        done = channel.add_content(kind, frame, self._settings.max_message_bytes)
        self._unfinished += channel.held - before
        most = self._settings.max_unfinished_bytes
        if self._unfinished > most:
            detail = f"unfinished messages of more than {most} bytes (amqp.max_unfinished_bytes)"
            raise AmqpError(ReplyCode.RESOURCE_ERROR, detail, *methods.BasicPublish.ids)
        return None if done is None else (number, done)


def _check_limit(name: str, said: int, least: int, most: int) -> None:
    if said and said < least:
        how = f"lower than the minimum allowed value ({least})"
    elif said > most:
        how = f"higher than the maximum allowed value ({most})"
    else:
        return
    detail = f"negotiated {name} = {said} is {how}"
    raise AmqpError(ReplyCode.NOT_ALLOWED, detail, *methods.ConnectionTune.ids)


def _frame_error(code: ReplyCode, kind: int, frame: memoryview, what: str = "") -> AmqpError:
    """Return the error of a frame as RabbitMQ words it: with the first bytes of the payload."""
    payload = bytes(frame[7:-1])
    shown = "all" if len(payload) <= 16 else "first 16"
    octets = ",".join(map(str, payload[:16]))
    detail = f"type {kind}, {shown} octets = <<{octets}>>"
    return AmqpError(code, f"{detail}: {what}" if what else detail)


def _connection_close(error: AmqpError) -> bytes:
    text = _shortened(error.reply_text)
    close = methods.ConnectionClose(error.code, text, error.class_id, error.method_id)
    return codec.method_frame(0, close)


def _shortened(text: str) -> str:
    """Return as much of a text as a short string takes."""
    said = text.encode("utf-8", "replace")
    return said[: fields.MAX_SHORT_BYTES].decode("utf-8", "ignore")

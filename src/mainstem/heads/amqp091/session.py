"""One AMQP 0-9-1 connection's state: which methods are allowed when, and the frames in response.

Order and errors are those of RabbitMQ 4 (rabbit_reader, rabbit_channel, rabbit_command_assembler).

How this works: ``receive`` takes a frame and returns its request and channel. It returns None if
there is nothing to do: a heartbeat, part of a message, or a frame on a channel that is being
closed. ``receive_run`` takes many frames of messages and acknowledgements at once, which is several
times faster. The conversation carries the requests out:

| request | response |
|---|---|
| ProtocolHeader | ``start``: Start |
| Login | ``tune``: Tune; or ``login_refused``, then the connection ends |
| ConnectionOpen | ``open_ok``: OpenOk; or ``refused`` |
| ConnectionClose | CloseOk, then the connection ends |
| Bare.CONNECTION_CLOSE_OK | the connection ends: this answers our Close |
| ChannelOpen | ChannelOpenOk |
| ChannelClose | CloseOk, even if we have closed the channel already |
| Publish and all others | built by ``codec.method_frame`` and the functions beside it |

Nothing is received until Login and ConnectionOpen are answered. A refused request is an
``AmqpError``. ``receive`` raises it and sets ``channel``, or the broker raises it. ``refused``
turns it into Channel.Close or Connection.Close. Until the client answers with CloseOk, everything
else it sends there is ignored, including the rest of a run (``is_open``). A malformed frame is a
``ProtocolError``, because the start of the next frame is unknown.

    def handle(self, frame: memoryview) -> Answer:
        try:
            received = self._session.receive(frame)
            return () if received is None else self._carry_out(*received)
        except AmqpError as error:
            return (self._session.refused(error, self._session.channel, now_ms),)

    def handle_run(self, view: memoryview) -> tuple[Answer, int] | None:
        received, size = self._session.receive_run(view)
        return (self._carry_out_all(received), size) if size else None

Time is an argument: milliseconds of a monotonic clock.
"""

from collections.abc import Mapping
from enum import StrEnum, auto
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
"""How long a client may take to answer our Connection.Close."""
INITIAL_FRAME_MAX = 8192
"""Largest frame that is accepted before Tune, as in RabbitMQ 4.1: SASL tokens may be long."""
RUN_BYTES = 64 * 1024
"""Maximum number of bytes that ``receive_run`` decodes; with larger messages it is no faster."""


class Phase(StrEnum):
    """The state of the connection, named as in RabbitMQ, whose error texts contain the names."""

    HEADER = "pre_init"
    """Waiting for the protocol header."""
    STARTING = auto()
    """Waiting for StartOk."""
    SECURING = auto()
    """The login is being checked."""
    TUNING = auto()
    """Waiting for TuneOk."""
    OPENING = auto()
    """Waiting for Open, or carrying it out."""
    RUNNING = auto()
    CLOSING = auto()
    """We have sent Connection.Close, and wait for CloseOk."""
    CLOSED = auto()
    """The connection ends; everything received is ignored."""


class ProtocolHeader(msgspec.Struct, frozen=True):
    """The request of a client that sent a supported protocol header."""


class Login(msgspec.Struct, frozen=True):
    """The request to log in, with the credentials from StartOk."""

    mechanism: str
    user: str
    password: bytes
    client_properties: fields.Table

    def __repr__(self) -> str:
        """Return the fields without the password, for logs."""
        return f"Login({self.mechanism!r}, {self.user!r})"


Request = ProtocolHeader | Login | Publish | Method | Bare
Received = tuple[int, Request]
"""A channel number and its request."""

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
"""Methods that a client may send on an open channel, besides opening and closing it."""
_TX = (Bare.TX_SELECT, Bare.TX_COMMIT, Bare.TX_ROLLBACK)
_HEADERS = frozenset((codec.PROTOCOL_HEADER, b"AMQP\x01\x01\x00\x09"))
"""Accepted protocol headers; the second is that of AMQP 0-9, as in RabbitMQ."""

_OVER = frozenset((Phase.CLOSING, Phase.CLOSED))
_KINDS = frozenset((METHOD, HEADER, BODY, HEARTBEAT))
_RUN_METHODS = frozenset((40, 80, 90, 120))
_METHOD = Struct(">BHIHH")
_CHANNEL_CLOSE, _CHANNEL_CLOSE_OK = b"\0\x14\0\x28", b"\0\x14\0\x29"


class Session:
    """The protocol state of one connection: decodes frames to requests, and encodes responses."""

    def __init__(self, settings: AmqpSettings, now_ms: int) -> None:
        self._settings = settings
        self._begun_ms = now_ms
        self._closing_ms = now_ms
        self._channels: dict[int, Channel] = {}
        self._channel_max = settings.channel_max
        self._unfinished = 0
        """Bytes of incomplete messages on all channels."""
        self._heartbeat_ms = 0
        self._mechanism = ""
        self._capabilities: frozenset[str] = frozenset()
        self.heard_ms = self.sent_ms = now_ms
        """When the client last sent bytes, and was last sent any (monotonic ms); the caller sets
        them.
        """
        self.phase = Phase.HEADER
        self.channel = 0
        """The channel number of the frame that ``receive`` got last."""
        self.frame_max = min(INITIAL_FRAME_MAX, settings.frame_max)
        """Largest frame in bytes that either side may send."""

    @property
    def channel_max(self) -> int:
        """How many channels the client may open."""
        return self._channel_max

    @property
    def heartbeat_s(self) -> int:
        """The negotiated heartbeat interval; 0 for none."""
        return self._heartbeat_ms // 1000

    # Frames in

    def frame_size(self, view: memoryview) -> int | None:
        """Return the size of the frame that begins here, None if too few bytes have arrived."""
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
        """Return a frame's channel number and request, None if there is nothing to do."""
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
        """Decode the complete messages and acknowledgements at the start of the buffer.

        Returns the requests with their channels, and the number of bytes decoded. Stops before any
        other frame and before an invalid one, which ``receive`` must handle.
        """
        # Cutting the buffer at frame_max means that no complete frame in it exceeds the limit.
        stop = min(len(view), RUN_BYTES, self.frame_max)
        if stop < _METHOD.size or self.phase is not Phase.RUNNING:
            return [], 0
        kind, _, _, class_id, method_id = _METHOD.unpack_from(view)
        if kind != METHOD or class_id != 60 or method_id not in _RUN_METHODS:
            return [], 0
        # A copy, as nearly all of it is copied anyway, and slicing bytes is faster.
        return take_run(bytes(view[:stop]), self._channels, self._settings.max_message_bytes)

    # Frames out

    def start(self, server_properties: fields.Table) -> bytes:
        """Return Start, the response to the protocol header."""
        start = methods.ConnectionStart(
            0, 9, server_properties, " ".join(MECHANISMS).encode(), b"en_US"
        )
        return codec.method_frame(0, start)

    def tune(self) -> bytes:
        """Accept the login and return Tune."""
        self.phase = Phase.TUNING
        limits = self._settings
        tune = methods.ConnectionTune(limits.channel_max, limits.frame_max, limits.heartbeat_s)
        return codec.method_frame(0, tune)

    def login_refused(self) -> bytes:
        """Refuse the login; return Close, empty for clients that do not support it here.

        The client is not told the reason.
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
        """Return OpenOk; from now on channels may be opened."""
        self.phase = Phase.RUNNING
        return codec.method_frame(0, methods.ConnectionOpenOk())

    def refused(self, error: AmqpError, channel: int, now_ms: int) -> bytes:
        """Return Connection.Close if the error is hard or on channel 0, else Channel.Close.

        Empty if the channel or the connection is already closed.
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
        """Return Connection.Blocked, empty if the client does not support it."""
        if not self.has("connection.blocked"):
            return b""
        return codec.method_frame(0, methods.ConnectionBlocked(_shortened(reason)))

    def unblocked(self) -> bytes:
        """Return Connection.Unblocked, empty if the client does not support it."""
        if not self.has("connection.blocked"):
            return b""
        return codec.method_frame(0, Bare.CONNECTION_UNBLOCKED)

    def is_open(self, channel: int) -> bool:
        """Tell whether a channel is open, and no Channel.Close was sent on it."""
        found = self._channels.get(channel)
        return found is not None and not found.closing

    def end(self) -> None:
        """Mark the connection as ended: free memory, and ignore further frames."""
        self.phase = Phase.CLOSED
        self._forget_channels()

    @property
    def unfinished(self) -> int:
        """Bytes of incomplete messages on all channels."""
        return self._unfinished

    def has(self, capability: str) -> bool:
        """Tell whether the client announced this capability (such as ``connection.blocked``)."""
        return capability in self._capabilities

    # Time

    def deadline(self) -> int | None:
        """Return when ``tick`` must be called next (monotonic ms), None if never."""
        if self.phase in _OVER:
            return self._closing_ms + CLOSE_MS if self.phase is Phase.CLOSING else None
        times = []
        if self.phase is not Phase.RUNNING:
            times.append(self._begun_ms + self._settings.handshake_ms)
        if self._heartbeat_ms:
            times += (self.sent_ms + self._heartbeat_ms // 2, self._silent_at())
        return min(times, default=None)

    def tick(self, now_ms: int) -> bytes:
        """Return a heartbeat if one is due; raises ProtocolError if the client has timed out."""
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
        """Return the error for a client of another protocol; it carries our header [4.2.2]."""
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
        """Apply the limits from TuneOk; 0 means no limit of the client, so ours applies."""
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
        """Ignore every frame except Connection.Close and CloseOk, which end the connection.

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
        """Return the error for a malformed frame; it carries the Connection.Close to send."""
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
        """Return the method if it is allowed on an open channel; raises AmqpError otherwise.

        For ChannelClose, remove the channel.
        """
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
        """Ignore every frame on a closing channel, except CloseOk and the client's own Close."""
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
    """Return a frame error in RabbitMQ's words, which quote the first bytes of the payload."""
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
    """Truncate a text to 255 bytes, the maximum of an AMQP short string."""
    said = text.encode("utf-8", "replace")
    return said[: fields.MAX_SHORT_BYTES].decode("utf-8", "ignore")

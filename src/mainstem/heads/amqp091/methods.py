"""AMQP 0-9-1 methods: their fields, and how they are encoded and decoded.

Reference: RabbitMQ's amqp0-9-1.extended.xml. Fields are in wire order; the annotation is the wire
type. Consecutive bits share an octet. Methods without fields are members of ``Bare``.
"""

from collections.abc import Callable
from enum import Enum
from struct import Struct
from typing import Annotated, ClassVar

import msgspec

from mainstem.heads.amqp091 import fields
from mainstem.heads.amqp091.errors import AmqpError, ReplyCode

Ids = tuple[int, int]
"""Class id and method id."""
Octet = Annotated[int, "octet"]
Short = Annotated[int, "short"]
Long = Annotated[int, "long"]
LongLong = Annotated[int, "longlong"]
Bit = Annotated[bool, "bit"]
ShortStr = Annotated[str, "shortstr"]
LongStr = Annotated[bytes, "longstr"]
Table = Annotated[fields.Table, "table"]


class Method(msgspec.Struct, frozen=True):
    """A method that has fields; one subclass for each."""

    ids: ClassVar[Ids] = (0, 0)


class Bare(Enum):
    """A method that has no fields; one member for each."""

    CONNECTION_CLOSE_OK = (10, 51)
    CONNECTION_UNBLOCKED = (10, 61)
    CONNECTION_UPDATE_SECRET_OK = (10, 71)
    CHANNEL_CLOSE_OK = (20, 41)
    EXCHANGE_DECLARE_OK = (40, 11)
    EXCHANGE_DELETE_OK = (40, 21)
    EXCHANGE_BIND_OK = (40, 31)
    EXCHANGE_UNBIND_OK = (40, 51)
    QUEUE_BIND_OK = (50, 21)
    QUEUE_UNBIND_OK = (50, 51)
    BASIC_QOS_OK = (60, 11)
    BASIC_RECOVER_OK = (60, 111)
    CONFIRM_SELECT_OK = (85, 11)
    TX_SELECT = (90, 10)
    TX_SELECT_OK = (90, 11)
    TX_COMMIT = (90, 20)
    TX_COMMIT_OK = (90, 21)
    TX_ROLLBACK = (90, 30)
    TX_ROLLBACK_OK = (90, 31)

    @property
    def ids(self) -> Ids:
        """The class id and method id."""
        return self.value


class ConnectionStart(Method, frozen=True):
    """Server → client: the server's protocol version, SASL mechanisms and properties."""

    ids: ClassVar[Ids] = (10, 10)
    version_major: Octet = 0
    version_minor: Octet = 9
    server_properties: Table = {}
    mechanisms: LongStr = b"PLAIN"
    locales: LongStr = b"en_US"


class ConnectionStartOk(Method, frozen=True):
    """Client → server: the client's properties and its credentials."""

    ids: ClassVar[Ids] = (10, 11)
    client_properties: Table = {}
    mechanism: ShortStr = "PLAIN"
    response: LongStr = b""
    locale: ShortStr = "en_US"


class ConnectionSecure(Method, frozen=True):
    """Server → client: a SASL challenge; never sent, as no supported mechanism has one."""

    ids: ClassVar[Ids] = (10, 20)
    challenge: LongStr = b""


class ConnectionSecureOk(Method, frozen=True):
    """Client → server: the response to a SASL challenge."""

    ids: ClassVar[Ids] = (10, 21)
    response: LongStr = b""


class ConnectionTune(Method, frozen=True):
    """Server → client: proposed limits, and the heartbeat interval in seconds."""

    ids: ClassVar[Ids] = (10, 30)
    channel_max: Short = 0
    frame_max: Long = 0
    heartbeat: Short = 0


class ConnectionTuneOk(Method, frozen=True):
    """Client → server: the chosen limits, which both sides must keep."""

    ids: ClassVar[Ids] = (10, 31)
    channel_max: Short = 0
    frame_max: Long = 0
    heartbeat: Short = 0


class ConnectionOpen(Method, frozen=True):
    """Client → server: use this virtual host on the connection."""

    ids: ClassVar[Ids] = (10, 40)
    virtual_host: ShortStr = "/"
    capabilities: ShortStr = ""
    insist: Bit = False


class ConnectionOpenOk(Method, frozen=True):
    """Server → client: the virtual host may be used, and channels opened."""

    ids: ClassVar[Ids] = (10, 41)
    known_hosts: ShortStr = ""


class ConnectionClose(Method, frozen=True):
    """Both directions: ends the connection; names the method that caused it, if any."""

    ids: ClassVar[Ids] = (10, 50)
    reply_code: Short = 0
    reply_text: ShortStr = ""
    class_id: Short = 0
    method_id: Short = 0


class ConnectionBlocked(Method, frozen=True):
    """Server → client: stop publishing for now; publishes are not accepted."""

    ids: ClassVar[Ids] = (10, 60)
    reason: ShortStr = ""


class ConnectionUpdateSecret(Method, frozen=True):
    """Client → server: a new password or token replaces that of the login."""

    ids: ClassVar[Ids] = (10, 70)
    new_secret: LongStr = b""
    reason: ShortStr = ""


class ChannelOpen(Method, frozen=True):
    """Client → server: opens a channel."""

    ids: ClassVar[Ids] = (20, 10)
    out_of_band: ShortStr = ""


class ChannelOpenOk(Method, frozen=True):
    """Server → client: the channel is open."""

    ids: ClassVar[Ids] = (20, 11)
    channel_id: LongStr = b""


class ChannelFlow(Method, frozen=True):
    """Both directions: ask the other side to stop or resume sending content."""

    ids: ClassVar[Ids] = (20, 20)
    active: Bit = False


class ChannelFlowOk(Method, frozen=True):
    """Both directions: the answer to ChannelFlow."""

    ids: ClassVar[Ids] = (20, 21)
    active: Bit = False


class ChannelClose(Method, frozen=True):
    """Both directions: ends a channel; names the method that caused it, if any."""

    ids: ClassVar[Ids] = (20, 40)
    reply_code: Short = 0
    reply_text: ShortStr = ""
    class_id: Short = 0
    method_id: Short = 0


class ExchangeDeclare(Method, frozen=True):
    """Client → server: create an exchange, or check that it exists."""

    ids: ClassVar[Ids] = (40, 10)
    ticket: Short = 0
    exchange: ShortStr = ""
    type: ShortStr = "direct"
    passive: Bit = False
    durable: Bit = False
    auto_delete: Bit = False
    internal: Bit = False
    nowait: Bit = False
    arguments: Table = {}


class ExchangeDelete(Method, frozen=True):
    """Client → server: delete an exchange."""

    ids: ClassVar[Ids] = (40, 20)
    ticket: Short = 0
    exchange: ShortStr = ""
    if_unused: Bit = False
    nowait: Bit = False


class ExchangeBind(Method, frozen=True):
    """Client → server: route messages from one exchange to another."""

    ids: ClassVar[Ids] = (40, 30)
    ticket: Short = 0
    destination: ShortStr = ""
    source: ShortStr = ""
    routing_key: ShortStr = ""
    nowait: Bit = False
    arguments: Table = {}


class ExchangeUnbind(Method, frozen=True):
    """Client → server: remove a binding between two exchanges."""

    ids: ClassVar[Ids] = (40, 40)
    ticket: Short = 0
    destination: ShortStr = ""
    source: ShortStr = ""
    routing_key: ShortStr = ""
    nowait: Bit = False
    arguments: Table = {}


class QueueDeclare(Method, frozen=True):
    """Client → server: create a queue, or check that it exists."""

    ids: ClassVar[Ids] = (50, 10)
    ticket: Short = 0
    queue: ShortStr = ""
    passive: Bit = False
    durable: Bit = False
    exclusive: Bit = False
    auto_delete: Bit = False
    nowait: Bit = False
    arguments: Table = {}


class QueueDeclareOk(Method, frozen=True):
    """Server → client: the queue's name, and its numbers of messages and consumers."""

    ids: ClassVar[Ids] = (50, 11)
    queue: ShortStr = ""
    message_count: Long = 0
    consumer_count: Long = 0


class QueueBind(Method, frozen=True):
    """Client → server: route messages from an exchange to a queue."""

    ids: ClassVar[Ids] = (50, 20)
    ticket: Short = 0
    queue: ShortStr = ""
    exchange: ShortStr = ""
    routing_key: ShortStr = ""
    nowait: Bit = False
    arguments: Table = {}


class QueuePurge(Method, frozen=True):
    """Client → server: remove the waiting messages of a queue."""

    ids: ClassVar[Ids] = (50, 30)
    ticket: Short = 0
    queue: ShortStr = ""
    nowait: Bit = False


class QueuePurgeOk(Method, frozen=True):
    """Server → client: the number of removed messages."""

    ids: ClassVar[Ids] = (50, 31)
    message_count: Long = 0


class QueueDelete(Method, frozen=True):
    """Client → server: delete a queue."""

    ids: ClassVar[Ids] = (50, 40)
    ticket: Short = 0
    queue: ShortStr = ""
    if_unused: Bit = False
    if_empty: Bit = False
    nowait: Bit = False


class QueueDeleteOk(Method, frozen=True):
    """Server → client: the number of messages deleted with the queue."""

    ids: ClassVar[Ids] = (50, 41)
    message_count: Long = 0


class QueueUnbind(Method, frozen=True):
    """Client → server: remove a binding of a queue; unlike the others it has no ``nowait``."""

    ids: ClassVar[Ids] = (50, 50)
    ticket: Short = 0
    queue: ShortStr = ""
    exchange: ShortStr = ""
    routing_key: ShortStr = ""
    arguments: Table = {}


class BasicQos(Method, frozen=True):
    """Client → server: set the prefetch limit, the maximum number of unacknowledged deliveries."""

    ids: ClassVar[Ids] = (60, 10)
    prefetch_size: Long = 0
    prefetch_count: Short = 0
    is_global: Bit = False


class BasicConsume(Method, frozen=True):
    """Client → server: start a consumer."""

    ids: ClassVar[Ids] = (60, 20)
    ticket: Short = 0
    queue: ShortStr = ""
    consumer_tag: ShortStr = ""
    no_local: Bit = False
    no_ack: Bit = False
    exclusive: Bit = False
    nowait: Bit = False
    arguments: Table = {}


class BasicConsumeOk(Method, frozen=True):
    """Server → client: the consumer's tag."""

    ids: ClassVar[Ids] = (60, 21)
    consumer_tag: ShortStr = ""


class BasicCancel(Method, frozen=True):
    """Both directions: end a consumer."""

    ids: ClassVar[Ids] = (60, 30)
    consumer_tag: ShortStr = ""
    nowait: Bit = False


class BasicCancelOk(Method, frozen=True):
    """Both directions: confirms that the consumer has ended."""

    ids: ClassVar[Ids] = (60, 31)
    consumer_tag: ShortStr = ""


class BasicPublish(Method, frozen=True):
    """Client → server: publish a message; content follows."""

    ids: ClassVar[Ids] = (60, 40)
    ticket: Short = 0
    exchange: ShortStr = ""
    routing_key: ShortStr = ""
    mandatory: Bit = False
    immediate: Bit = False


class BasicReturn(Method, frozen=True):
    """Server → client: returns a mandatory message that no queue got; content follows."""

    ids: ClassVar[Ids] = (60, 50)
    reply_code: Short = 0
    reply_text: ShortStr = ""
    exchange: ShortStr = ""
    routing_key: ShortStr = ""


class BasicDeliver(Method, frozen=True):
    """Server → client: a message for a consumer; content follows."""

    ids: ClassVar[Ids] = (60, 60)
    consumer_tag: ShortStr = ""
    delivery_tag: LongLong = 0
    redelivered: Bit = False
    exchange: ShortStr = ""
    routing_key: ShortStr = ""


class BasicGet(Method, frozen=True):
    """Client → server: request one message."""

    ids: ClassVar[Ids] = (60, 70)
    ticket: Short = 0
    queue: ShortStr = ""
    no_ack: Bit = False


class BasicGetOk(Method, frozen=True):
    """Server → client: the requested message; content follows."""

    ids: ClassVar[Ids] = (60, 71)
    delivery_tag: LongLong = 0
    redelivered: Bit = False
    exchange: ShortStr = ""
    routing_key: ShortStr = ""
    message_count: Long = 0


class BasicGetEmpty(Method, frozen=True):
    """Server → client: the queue has no message."""

    ids: ClassVar[Ids] = (60, 72)
    cluster_id: ShortStr = ""


class BasicAck(Method, frozen=True, gc=False):
    """Client → server: a delivery is processed; server → client: a publish is confirmed."""

    ids: ClassVar[Ids] = (60, 80)
    delivery_tag: LongLong = 0
    multiple: Bit = False


class BasicReject(Method, frozen=True, gc=False):
    """Client → server: reject or requeue one delivery."""

    ids: ClassVar[Ids] = (60, 90)
    delivery_tag: LongLong = 0
    requeue: Bit = True


class BasicRecoverAsync(Method, frozen=True):
    """Client → server: the same as BasicRecover, without a response."""

    ids: ClassVar[Ids] = (60, 100)
    requeue: Bit = False


class BasicRecover(Method, frozen=True):
    """Client → server: redeliver all unacknowledged messages of the channel."""

    ids: ClassVar[Ids] = (60, 110)
    requeue: Bit = False


class BasicNack(Method, frozen=True, gc=False):
    """Client → server: reject or requeue deliveries; server → client: a publish was not stored."""

    ids: ClassVar[Ids] = (60, 120)
    delivery_tag: LongLong = 0
    multiple: Bit = False
    requeue: Bit = True


class ConfirmSelect(Method, frozen=True):
    """Client → server: confirm all messages published from now on."""

    ids: ClassVar[Ids] = (85, 10)
    nowait: Bit = False


_IDS = Struct(">HH")
_NUMBERS = {
    "octet": Struct(">B"),
    "short": Struct(">H"),
    "long": Struct(">I"),
    "longlong": Struct(">Q"),
}
_READ: dict[str, Callable[[bytes, int, int], tuple[object, int]]] = {
    "shortstr": fields.read_short_string,
    "longstr": fields.read_long_string,
    "table": fields.read_table,
}
_WRITE: dict[str, Callable[..., bytes]] = {
    "shortstr": fields.short_string,
    "longstr": fields.long_string,
    "table": fields.table,
}


def _layout(method: type[Method]) -> tuple[tuple[str, str], ...]:
    """Return the names and wire types of a method's fields."""
    types = method.__annotations__
    return tuple((name, types[name].__metadata__[0]) for name in method.__struct_fields__)


METHODS: dict[Ids, type[Method]] = {each.ids: each for each in Method.__subclasses__()}
_LAYOUTS = {method: _layout(method) for method in METHODS.values()}
_BARE: dict[Ids, Bare] = {each.ids: each for each in Bare}


def decode_method(payload: bytes) -> Method | Bare:
    """Decode a method frame's payload; raises AmqpError if the method is unknown or malformed."""
    if len(payload) < 4:
        raise fields.malformed("a method frame without a class and method id")
    ids = _IDS.unpack_from(payload)
    bare, method = _BARE.get(ids), METHODS.get(ids)
    if method is None and bare is None:
        detail = f"unknown method {ids[1]} of class {ids[0]}"
        raise AmqpError(ReplyCode.COMMAND_INVALID, detail, *ids)
    try:
        values, at = _values(() if method is None else _LAYOUTS[method], payload)
        if at != len(payload):
            raise fields.malformed(f"{len(payload) - at} bytes too many in a method frame")
    except AmqpError as error:
        raise AmqpError(error.code, error.detail, *ids) from None
    return bare or METHODS[ids](*values)


def _values(layout: tuple[tuple[str, str], ...], payload: bytes) -> tuple[list[object], int]:
    values: list[object] = []
    at, end, bit = 4, len(payload), 0
    for _, kind in layout:
        if kind == "bit":
            # "starting from the low bit in each octet" [4.2.5.2]
            if bit == 0:
                at += 1
            if at > end:
                raise fields.malformed("a method frame ends too early")
            values.append(bool(payload[at - 1] >> bit & 1))
            bit = (bit + 1) % 8
            continue
        bit = 0
        number = _NUMBERS.get(kind)
        if number is None:
            value, at = _READ[kind](payload, at, end)
            values.append(value)
            continue
        if at + number.size > end:
            raise fields.malformed("a method frame ends too early")
        values.append(number.unpack_from(payload, at)[0])
        at += number.size
    return values, at


def encode_method(method: Method | Bare) -> bytes:
    """Encode a method frame's payload."""
    parts = [_IDS.pack(*method.ids)]
    if isinstance(method, Bare):
        return parts[0]
    bit = 0
    for name, kind in _LAYOUTS[type(method)]:
        value = getattr(method, name)
        if kind == "bit":
            if bit == 0:
                parts.append(b"\0")
            parts[-1] = bytes((parts[-1][0] | value << bit,))
            bit = (bit + 1) % 8
            continue
        bit = 0
        number = _NUMBERS.get(kind)
        parts.append(_WRITE[kind](value) if number is None else number.pack(value))
    return b"".join(parts)

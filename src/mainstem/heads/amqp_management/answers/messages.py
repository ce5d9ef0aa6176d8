"""Messages: publish one, get some."""

import contextlib
from base64 import b64decode, b64encode
from typing import Annotated, Literal, cast

import msgspec
from msgspec import Meta

from mainstem.core.errors import Failure
from mainstem.heads.admin_operations import OperationFailed
from mainstem.heads.amqp_management.call import Answer, Call, Item

_ACK_MODES = {
    "ack_requeue_true": "requeue",
    "reject_requeue_true": "requeue",
    "ack_requeue_false": "ack",
    "reject_requeue_false": "reject",
}


class Publish(msgspec.Struct, frozen=True):
    """The body of a publish."""

    routing_key: str
    payload: str
    payload_encoding: Literal["string", "base64"] = "string"
    properties: dict[str, object] | list[None] = {}
    """An empty list counts as empty: tools in languages without empty objects send one."""


class Get(msgspec.Struct, frozen=True):
    """The body of a request for messages."""

    count: Annotated[int, Meta(ge=0)]
    ackmode: str
    encoding: Literal["auto", "base64"] = "auto"
    truncate: Annotated[int, Meta(ge=0)] | None = None


def _publish(call: Call) -> object:
    said = call.read(Publish)
    payload = said.payload
    if said.payload_encoding == "string":
        payload = b64encode(payload.encode()).decode()
    try:
        return call.item(
            "amqp/publish",
            vhost=call.vhost,
            exchange=call.exchange(),
            routing_key=said.routing_key,
            payload=payload,
            properties=said.properties or {},
        )
    except OperationFailed as error:
        if error.failure is Failure.NOT_FOUND:
            # 400 rather than 404, as in RabbitMQ: the exchange is only an argument here.
            raise OperationFailed(Failure.INVALID, str(error)) from None
        raise


def _get(call: Call) -> object:
    said = call.read(Get)
    if said.ackmode not in _ACK_MODES:
        why = f"ackmode must be one of {', '.join(_ACK_MODES)}, not {said.ackmode!r:.100}"
        raise OperationFailed(Failure.INVALID, why)
    if not said.count:
        call.run("amqp/queues/show", vhost=call.vhost, queue=call.path["queue"])
        return []
    found = call.items(
        "amqp/get",
        vhost=call.vhost,
        queue=call.path["queue"],
        count=said.count,
        ack_mode=_ACK_MODES[said.ackmode],
    )
    return [_item(each, said) for each in found]


def _item(message: Item, said: Get) -> Item:
    body = b64decode(cast(str, message["payload"]))
    shown = body if said.truncate is None else body[: said.truncate]
    encoding, payload = "base64", b64encode(shown).decode()
    if said.encoding == "auto":
        # A body that is not UTF-8 stays in base64.
        with contextlib.suppress(UnicodeDecodeError):
            encoding, payload = "string", shown.decode()
    return {
        "exchange": message["exchange"],
        "routing_key": message["routing_key"],
        "redelivered": message["redelivered"],
        "message_count": message["message_count"],
        "properties": message["properties"],
        "payload_bytes": len(body),
        "payload": payload,
        "payload_encoding": encoding,
    }


ROUTES: dict[str, Answer] = {
    "POST exchanges/{vhost}/{exchange}/publish": _publish,
    "POST queues/{vhost}/{queue}/get": _get,
}

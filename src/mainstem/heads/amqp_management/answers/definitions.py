"""Definitions: export and import of durable exchanges and queues, and their bindings.

An import declares one definition after the other, and stops at the first one that is refused. The
definitions before it stay declared; declaring them again has no effect, so the corrected file can
be imported as a whole.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import msgspec

from mainstem.auth import Action
from mainstem.core.errors import Failure, MainstemError
from mainstem.heads.admin_operations import OperationFailed
from mainstem.heads.amqp_management.answers.bindings import bind, binding_items
from mainstem.heads.amqp_management.answers.exchanges import exchange_items
from mainstem.heads.amqp_management.answers.overview import PRODUCT, RABBITMQ_VERSION
from mainstem.heads.amqp_management.answers.queues import queue_items
from mainstem.heads.amqp_management.answers.users import PARAMETERS, POLICIES
from mainstem.heads.amqp_management.answers.vhosts import names
from mainstem.heads.amqp_management.call import Answer, Call, Declaration, Item, Status

_logger = logging.getLogger("mainstem.heads.amqp_management")
_QUEUE = ("name", "vhost", "durable", "auto_delete", "arguments")
_EXCHANGE = ("name", "vhost", "type", "durable", "auto_delete", "internal", "arguments")
_BINDING = (
    "source",
    "vhost",
    "destination",
    "destination_type",
    "routing_key",
    "arguments",
)

NONE = msgspec.Raw(b"[]")
_LEFT_OUT = ("users", "permissions", "topic_permissions")
"""Sections that an import skips: they only grant permissions, so nobody can do more without them.
"""


class Exchange(Declaration, frozen=True, kw_only=True):
    """An exchange in definitions; has no ``vhost`` if the request's path has it."""

    name: str
    type: str
    vhost: str = ""
    durable: bool = True
    internal: bool = False


class Queue(Declaration, frozen=True, kw_only=True):
    """A queue in definitions."""

    name: str
    vhost: str = ""
    durable: bool = True


class Binding(msgspec.Struct, frozen=True):
    """A binding in definitions."""

    source: str
    destination: str
    destination_type: str
    vhost: str = ""
    routing_key: str = ""
    arguments: dict[str, object] = {}


class Definitions(msgspec.Struct, frozen=True):
    """The body of an import; sections of RabbitMQ's files that have no meaning here are ignored."""

    exchanges: list[Exchange] = []
    queues: list[Queue] = []
    bindings: list[Binding] = []
    policies: msgspec.Raw = NONE
    operator_policies: msgspec.Raw = NONE
    parameters: msgspec.Raw = NONE
    users: msgspec.Raw = NONE
    permissions: msgspec.Raw = NONE
    topic_permissions: msgspec.Raw = NONE


def _export(call: Call) -> object:
    call.check()
    exchanges = [each for each in exchange_items(call) if _is_defined(each)]
    queues = [each for each in queue_items(call) if each["durable"] and not each["exclusive"]]
    ends = {(each["vhost"], "queue", each["name"]) for each in queues} | {
        (each["vhost"], "exchange", each["name"]) for each in exchange_items(call)
    }
    bindings = [
        each
        for each in binding_items(call)
        if each["source"] and (each["vhost"], each["destination_type"], each["destination"]) in ends
    ]
    parts: Item = {
        "policies": [],
        "queues": [_only(each, _QUEUE, call) for each in queues],
        "exchanges": [_only(each, _EXCHANGE, call) for each in exchanges],
        "bindings": [_only(each, _BINDING, call) for each in bindings],
        "parameters": [],
    }
    if "vhost" in call.path:
        return {"rabbit_version": RABBITMQ_VERSION, **PRODUCT, **parts}
    return {
        "rabbit_version": RABBITMQ_VERSION,
        **PRODUCT,
        "users": [],
        "vhosts": [{"name": each} for each in names(call)],
        "permissions": [],
        "topic_permissions": [],
        "global_parameters": [],
        **parts,
    }


def _is_defined(exchange: Item) -> bool:
    """Tell whether an exchange belongs in an export: durable, and declared by a client."""
    name = cast(str, exchange["name"])
    return bool(exchange["durable"]) and bool(name) and not name.startswith("amq.")


def _only(item: Item, names: tuple[str, ...], call: Call) -> Item:
    return {name: item[name] for name in names if name != "vhost" or "vhost" not in call.path}


def _import(call: Call) -> object:
    call.check(Action.ALTER)
    found = call.read(Definitions)
    for unsupported, why in (
        (found.policies, POLICIES),
        (found.operator_policies, POLICIES),
        (found.parameters, PARAMETERS),
    ):
        if _holds(unsupported):
            raise OperationFailed(Failure.UNSUPPORTED, f"nothing was imported: {why}")
    for exchange in found.exchanges:
        own: Item = {"exchange": exchange.name, "type": exchange.type}
        _declare(call, "exchange", exchange, own | {"internal": exchange.internal})
    for queue in found.queues:
        _declare(call, "queue", queue, {"queue": queue.name})
    for binding in found.bindings:
        with _named(f"binding from {binding.source!r:.300} to {binding.destination!r:.300}"):
            bind(call, _vhost(call, binding), msgspec.structs.asdict(binding))
    return _answer(found)


def _declare(call: Call, kind: str, defined: Exchange | Queue, given: Item) -> None:
    with _named(f"{kind} {defined.name!r:.300}"):
        call.run(
            f"amqp/{kind}s/declare",
            vhost=_vhost(call, defined),
            durable=defined.durable,
            auto_delete=defined.auto_delete,
            arguments=defined.arguments,
            **given,
        )


def _vhost(call: Call, defined: Exchange | Queue | Binding) -> str:
    """Return the virtual host of a definition: that in the path, or else its own."""
    if "vhost" in call.path:
        return call.vhost
    if not defined.vhost:
        raise OperationFailed(Failure.INVALID, "its vhost is missing")
    return defined.vhost


@contextmanager
def _named(what: str) -> Iterator[None]:
    """Add to errors which definition was refused."""
    try:
        yield
    except MainstemError as error:
        raise OperationFailed(error.failure, f"{what}: {error}") from None


def _answer(found: Definitions) -> Status | None:
    """Return the sections that were skipped; None (204) if none were, as RabbitMQ answers."""
    skipped = [name for name in _LEFT_OUT if _holds(getattr(found, name))]
    if not skipped:
        return None
    _logger.warning("definitions were imported without their %s", ", ".join(skipped))
    return Status(200, {"skipped": skipped})


def _holds(section: msgspec.Raw) -> bool:
    """Tell whether a section has entries, without decoding it."""
    return bytes(section).strip() not in (b"[]", b"{}", b"null")


ROUTES: dict[str, Answer] = {
    "GET definitions": _export,
    "GET definitions/{vhost}": _export,
    "POST definitions": _import,
    "POST definitions/{vhost}": _import,
}

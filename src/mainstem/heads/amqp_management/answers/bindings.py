"""Bindings: list, show, create, delete. In paths, ``e`` is an exchange and ``q`` a queue."""

from urllib.parse import quote

import msgspec

from mainstem.core.errors import Failure
from mainstem.heads.admin_operations import OperationFailed
from mainstem.heads.amqp_management.call import Answer, Call, Created, Item
from mainstem.heads.amqp_management.listing import list_of, listed

_KINDS = {"q": "queue", "e": "exchange"}


class NewBinding(msgspec.Struct, frozen=True):
    """The body of a request to create a binding."""

    routing_key: str = ""
    arguments: dict[str, object] = {}


def binding_items(call: Call) -> list[Item]:
    """Return the bindings of the virtual host in the path; of all if the path has none."""
    return [_item(each) for each in call.items("amqp/bindings/list", **call.vhost_or_all)]


def of_queue(call: Call) -> object:
    """Return the bindings of a queue."""
    name = call.path["queue"]
    call.run("amqp/queues/show", vhost=call.vhost, queue=name)
    return _listed(call, destination=name, destination_type="queue")


def from_exchange(call: Call) -> object:
    """Return the bindings whose source is an exchange."""
    call.run("exchanges/show", vhost=call.vhost, exchange=call.exchange())
    return _listed(call, source=call.exchange())


def to_exchange(call: Call) -> object:
    """Return the bindings whose destination is an exchange."""
    call.run("exchanges/show", vhost=call.vhost, exchange=call.exchange())
    return _listed(call, destination=call.exchange(), destination_type="exchange")


def bind(call: Call, vhost: str, binding: Item) -> bool:
    """Create a binding, given in the form in which they are listed; return whether it is new."""
    changed = call.item(
        "exchanges/bind",
        vhost=vhost,
        exchange=binding["source"],
        destination=binding["destination"],
        kind=binding["destination_type"],
        routing_key=binding.get("routing_key", ""),
        arguments=binding.get("arguments") or {},
    )
    return bool(changed["changed"])


def _between(call: Call) -> object:
    return listed(_all_between(call), call.query)


def _create(call: Call) -> object:
    said = call.read(NewBinding)
    before = [each["properties_key"] for each in _all_between(call)]
    bind(call, call.vhost, {**_ends(call), **msgspec.structs.asdict(said)})
    found = _all_between(call)
    new = [each for each in found if each["properties_key"] not in before]
    same = [
        each
        for each in found
        if (each["routing_key"], each["arguments"]) == (said.routing_key, said.arguments)
    ]
    key = str((new or same or found)[0]["properties_key"])
    # As in RabbitMQ, 201 also if the binding existed before.
    return Created(True, f"{quote(call.path['destination'], safe='')}/{quote(key, safe='')}")


def _show(call: Call) -> object:
    key = call.path["properties_key"]
    for each in _all_between(call):
        if each["properties_key"] == key:
            return each
    raise OperationFailed(Failure.NOT_FOUND, f"no binding {key!r:.300} between these two")


def _delete(call: Call) -> object:
    ends = _ends(call)
    call.run(
        "amqp/bindings/delete",
        vhost=call.vhost,
        source=ends["source"],
        kind=ends["destination_type"],
        destination=ends["destination"],
        properties_key=call.path["properties_key"],
    )
    return None


def _all_between(call: Call) -> list[Item]:
    wanted = _ends(call)
    return [each for each in binding_items(call) if wanted.items() <= each.items()]


def _ends(call: Call) -> Item:
    kind = _KINDS.get(call.path["kind"])
    if kind is None:
        why = f"the kind of a destination is e or q, not {call.path['kind']!r:.100}"
        raise OperationFailed(Failure.NOT_FOUND, why)
    destination = call.path["destination"]
    if kind == "exchange":
        destination = call.exchange("destination")
    return {
        "source": call.exchange("source"),
        "destination": destination,
        "destination_type": kind,
    }


def _listed(call: Call, **wanted: object) -> object:
    found = [each for each in binding_items(call) if wanted.items() <= each.items()]
    return listed(found, call.query)


def _item(binding: Item) -> Item:
    return {
        "source": binding["source"],
        "vhost": binding["vhost"],
        "destination": binding["destination"],
        "destination_type": binding["kind"],
        "routing_key": binding["routing_key"],
        "arguments": binding["arguments"],
        "properties_key": binding["properties_key"],
    }


_AT = "bindings/{vhost}/e/{source}/{kind}/{destination}"
ROUTES: dict[str, Answer] = {
    "GET bindings": list_of(binding_items),
    "GET bindings/{vhost}": list_of(binding_items),
    f"GET {_AT}": _between,
    f"POST {_AT}": _create,
    f"GET {_AT}/{{properties_key}}": _show,
    f"DELETE {_AT}/{{properties_key}}": _delete,
}

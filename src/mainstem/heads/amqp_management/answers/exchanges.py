"""Exchanges: list, show, declare, delete."""

import msgspec

from mainstem.heads.amqp_management.answers.bindings import from_exchange, to_exchange
from mainstem.heads.amqp_management.call import Answer, Call, Created, Declaration, Item
from mainstem.heads.amqp_management.listing import list_of

_KEPT = ("name", "vhost", "type", "durable", "auto_delete", "internal", "arguments")


class ExchangeDeclaration(Declaration, frozen=True):
    """The body of a declaration of an exchange."""

    type: str = "direct"
    internal: bool = False


def exchange_items(call: Call) -> list[Item]:
    """Return the exchanges of the virtual host in the path; of all if the path has none."""
    return [_item(each) for each in call.items("exchanges", **call.vhost_or_all)]


def _show(call: Call) -> object:
    found = call.item("exchanges/show", vhost=call.vhost, exchange=call.exchange())
    exchange = found["exchange"]
    assert isinstance(exchange, dict)
    return _item(exchange)


def _declare(call: Call) -> object:
    said = call.read(ExchangeDeclaration)
    found = call.item(
        "amqp/exchanges/declare",
        vhost=call.vhost,
        exchange=call.exchange(),
        **msgspec.structs.asdict(said),
    )
    return Created(bool(found["created"]))


def _delete(call: Call) -> object:
    call.run(
        "amqp/exchanges/delete",
        vhost=call.vhost,
        exchange=call.exchange(),
        if_unused=call.flag("if-unused"),
    )
    return None


def _item(exchange: Item) -> Item:
    return {name: exchange[name] for name in _KEPT}


ROUTES: dict[str, Answer] = {
    "GET exchanges": list_of(exchange_items),
    "GET exchanges/{vhost}": list_of(exchange_items),
    "GET exchanges/{vhost}/{exchange}": _show,
    "PUT exchanges/{vhost}/{exchange}": _declare,
    "DELETE exchanges/{vhost}/{exchange}": _delete,
    "GET exchanges/{vhost}/{exchange}/bindings/source": from_exchange,
    "GET exchanges/{vhost}/{exchange}/bindings/destination": to_exchange,
}

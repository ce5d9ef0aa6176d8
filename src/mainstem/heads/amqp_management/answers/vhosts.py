"""Virtual hosts: each exists without being created; those that have definitions are listed."""

from typing import cast

from mainstem.core.errors import Failure
from mainstem.heads.admin_operations import OperationFailed
from mainstem.heads.amqp_management.answers.queues import queue_items
from mainstem.heads.amqp_management.call import NODE, Answer, Call, Created, Item, refuse
from mainstem.heads.amqp_management.listing import list_of

COUNTS = ("messages", "messages_ready", "messages_unacknowledged")


def names(call: Call) -> list[str]:
    """Return the names of the virtual hosts that are listed."""
    return cast("list[str]", call.item("amqp/totals")["vhosts"])


def vhost_items(call: Call) -> list[Item]:
    """Return all virtual hosts."""
    queues = queue_items(call)
    return [_item(each, queues) for each in names(call)]


def _show(call: Call) -> object:
    call.check()
    return _item(call.vhost, [each for each in queue_items(call) if each["vhost"] == call.vhost])


def _declare(call: Call) -> object:
    call.check()
    return Created(False)


def _delete(call: Call) -> object:
    call.check()
    if call.vhost not in names(call):
        raise OperationFailed(Failure.NOT_FOUND, f"nothing is defined in {call.vhost!r:.300}")
    why = "a virtual host goes with its last exchange and queue: delete those"
    raise OperationFailed(Failure.UNSUPPORTED, why)


def _item(name: str, queues: list[Item]) -> Item:
    mine = [each for each in queues if each["vhost"] == name]
    return {
        "name": name,
        "description": "",
        "tags": [],
        "metadata": {"description": "", "tags": []},
        "tracing": False,
        "cluster_state": {NODE: "running"},
        **{count: sum(cast(int, each[count]) for each in mine) for count in COUNTS},
    }


ROUTES: dict[str, Answer] = {
    "GET vhosts": list_of(vhost_items),
    "GET vhosts/{vhost}": _show,
    "PUT vhosts/{vhost}": _declare,
    "DELETE vhosts/{vhost}": _delete,
    "POST vhosts/{vhost}/start/{node}": refuse("virtual hosts are never stopped"),
}

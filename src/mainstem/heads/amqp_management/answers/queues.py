"""Queues: list, show, declare, delete, purge."""

from mainstem.heads.amqp_management.answers.bindings import of_queue
from mainstem.heads.amqp_management.answers.connections import consumer_items
from mainstem.heads.amqp_management.call import (
    NODE,
    Answer,
    Call,
    Created,
    Declaration,
    Item,
    refuse,
)
from mainstem.heads.amqp_management.listing import list_of, narrowed


class QueueDeclaration(Declaration, frozen=True):
    """The body of a declaration of a queue."""

    exclusive: bool = False


def queue_items(call: Call) -> list[Item]:
    """Return the queues of the virtual host in the path; of all if the path has none."""
    return [_item(each) for each in call.items("amqp/queues/list", **call.vhost_or_all)]


def _show(call: Call) -> object:
    vhost, name = call.vhost, call.path["queue"]
    item = _item(call.item("amqp/queues/show", vhost=vhost, queue=name))
    item["consumer_details"] = [
        each for each in consumer_items(call) if each["queue"] == {"name": name, "vhost": vhost}
    ]
    columns = [each for each in call.query.get("columns", "").split(",") if each]
    return narrowed(item, columns)


def _declare(call: Call) -> object:
    said = call.read(QueueDeclaration)
    if said.exclusive:
        return refuse("a queue can be exclusive to an AMQP connection only")(call)
    found = call.item(
        "amqp/queues/declare",
        vhost=call.vhost,
        queue=call.path["queue"],
        durable=said.durable,
        auto_delete=said.auto_delete,
        arguments=said.arguments,
    )
    return Created(bool(found["created"]))


def _delete(call: Call) -> object:
    call.run(
        "amqp/queues/delete",
        vhost=call.vhost,
        queue=call.path["queue"],
        if_unused=call.flag("if-unused"),
        if_empty=call.flag("if-empty"),
    )
    return None


def _purge(call: Call) -> object:
    call.run("amqp/queues/purge", vhost=call.vhost, queue=call.path["queue"])
    return None


def _item(queue: Item) -> Item:
    found: Item = {
        "name": queue["name"],
        "vhost": queue["vhost"],
        "type": queue["type"],
        "durable": queue["durable"],
        "auto_delete": queue["auto_delete"],
        "exclusive": queue["exclusive"],
        "arguments": queue["arguments"],
        "policy": None,
        "operator_policy": None,
        "effective_policy_definition": {},
        "node": NODE,
        "state": "running",
        "messages": queue["messages"],
        "messages_ready": queue["messages_ready"],
        "messages_unacknowledged": queue["messages_unacknowledged"],
        "consumers": queue["consumers"],
        # For a single queue, only redeliveries are counted.
        "message_stats": {"redeliver": queue["redelivered"]},
    }
    if queue["owner"] is not None:
        found["owner_pid_details"] = {"name": queue["owner"]}
    return found


ROUTES: dict[str, Answer] = {
    "GET queues": list_of(queue_items),
    "GET queues/detailed": list_of(queue_items),
    "GET queues/{vhost}": list_of(queue_items),
    "GET queues/{vhost}/{queue}": _show,
    "PUT queues/{vhost}/{queue}": _declare,
    "DELETE queues/{vhost}/{queue}": _delete,
    "DELETE queues/{vhost}/{queue}/contents": _purge,
    "GET queues/{vhost}/{queue}/bindings": of_queue,
    "POST queues/{vhost}/{queue}/actions": refuse("queues of one node cannot be synchronised"),
}

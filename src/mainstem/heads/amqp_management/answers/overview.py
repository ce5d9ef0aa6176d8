"""The overview of the server, its only node, the name of the cluster, and extensions."""

from typing import cast

import mainstem
from mainstem.core.errors import Failure
from mainstem.heads.admin_operations import OperationFailed
from mainstem.heads.amqp_management.answers.queues import queue_items
from mainstem.heads.amqp_management.answers.vhosts import COUNTS
from mainstem.heads.amqp_management.call import NODE, Answer, Call, Item, refuse
from mainstem.heads.amqp_management.listing import listed

RABBITMQ_VERSION = "4.1.0"
"""Tools derive features from the version; AMQP clients get the same one."""
PRODUCT: Item = {
    "rabbitmq_version": RABBITMQ_VERSION,
    "product_name": "mainstem",
    "product_version": mainstem.__version__,
}
_OBJECTS = ("connections", "channels", "consumers", "exchanges", "queues")
_TYPES = {
    "direct": "the routing key is the binding's",
    "fanout": "every message",
    "topic": "the routing key matches the binding's pattern",
    "headers": "the headers match the binding's arguments",
    "x-delayed-message": "the type in x-delayed-type, after the delay in the header x-delay",
}
_METRICS = {
    "process_resident_memory_bytes": "mem_used",
    "process_open_fds": "fd_used",
    "process_max_fds": "fd_total",
}


def _overview(call: Call) -> object:
    totals, queues = call.item("amqp/totals"), queue_items(call)
    return {
        **PRODUCT,
        "management_version": RABBITMQ_VERSION,
        "cluster_name": NODE,
        "node": NODE,
        "rates_mode": "none",
        "exchange_types": [
            {"name": name, "description": said, "enabled": True} for name, said in _TYPES.items()
        ],
        "object_totals": {name: totals[name] for name in _OBJECTS},
        "queue_totals": {count: sum(cast(int, each[count]) for each in queues) for count in COUNTS},
        "message_stats": {
            "publish": totals["published"],
            "deliver_get": totals["delivered"],
            "drop_unroutable": totals["unroutable"],
        },
        "listeners": _listeners(call),
        "contexts": [],
    }


def _listeners(call: Call) -> list[Item]:
    return [
        {"node": NODE, "protocol": name, "ip_address": at.host, "port": at.port}
        for name, at in dict(call.context.addresses).items()
    ]


def _nodes(call: Call) -> object:
    call.check()
    return listed([_node(call)], call.query)


def _one_node(call: Call) -> object:
    call.check()
    if call.path["node"] != NODE:
        raise OperationFailed(Failure.NOT_FOUND, f"the only node is {NODE}")
    return _node(call)


def _node(call: Call) -> Item:
    item: Item = {"name": NODE, "type": "disc", "running": True, "partitions": []}
    for line in call.context.operations.metrics().splitlines():
        name, _, value = line.partition(" ")
        if name in _METRICS:
            item[_METRICS[name]] = int(float(value))
    return item


def _cluster_name(call: Call) -> object:
    return {"name": NODE}


def _nothing(call: Call) -> object:
    return []


ROUTES: dict[str, Answer] = {
    "GET overview": _overview,
    "GET nodes": _nodes,
    "GET nodes/{node}": _one_node,
    "GET cluster-name": _cluster_name,
    "PUT cluster-name": refuse("there is one node, and no cluster to name"),
    "GET extensions": _nothing,
    "GET feature-flags": _nothing,
    "GET deprecated-features": _nothing,
    "GET deprecated-features/used": _nothing,
    "POST rebalance/queues": refuse("there is one node: there is nothing to rebalance"),
}

"""Connections, channels and consumers: list, show; connections can be closed."""

from collections.abc import Callable
from contextlib import suppress

from mainstem.core.errors import Failure
from mainstem.heads.admin_operations import OperationFailed
from mainstem.heads.amqp_management.call import NODE, Answer, Call, Item
from mainstem.heads.amqp_management.listing import list_of, listed


def consumer_items(call: Call) -> list[Item]:
    """Return the consumers of the virtual host in the path; of all if the path has none."""
    return [_consumer(each) for each in _in_vhost(call, call.items("amqp/consumers"))]


def _connections(call: Call) -> list[Item]:
    return [_connection(each) for each in _in_vhost(call, call.items("amqp/connections/list"))]


def _channels(call: Call) -> list[Item]:
    return [_channel(each) for each in _in_vhost(call, call.items("amqp/channels"))]


def _in_vhost(call: Call, items: list[Item]) -> list[Item]:
    if "vhost" not in call.path:
        return items
    return [each for each in items if each["vhost"] == call.vhost]


def _one_of(items: Callable[[Call], list[Item]], kind: str) -> Answer:
    def answer(call: Call) -> object:
        for each in items(call):
            if each["name"] == call.path["name"]:
                return each
        raise OperationFailed(Failure.NOT_FOUND, f"no {kind} {call.path['name']!r:.300}")

    return answer


def _channels_of(call: Call) -> object:
    _one_of(_connections, "connection")(call)
    found = [_channel(it) for it in call.items("amqp/channels")]
    name = call.path["name"]
    mine = [it for it in found if _details_name(it) == name]
    return listed(mine, call.query)


def _details_name(channel: Item) -> object:
    details = channel["connection_details"]
    assert isinstance(details, dict)
    return details["name"]


def _close(call: Call) -> object:
    reason = call.reason or "Closed via management plugin"
    call.run("amqp/connections/close", connection=call.path["name"], reason=reason)
    return None


def _connections_of_user(call: Call) -> list[Item]:
    return [each for each in _connections(call) if each["user"] == call.path["user"]]


def _close_of_user(call: Call) -> object:
    reason = call.reason or "Closed via management plugin"
    for each in _connections_of_user(call):
        # The connection may have ended meanwhile.
        with suppress(OperationFailed):
            call.run("amqp/connections/close", connection=each["name"], reason=reason)
    return None


def _connection(found: Item) -> Item:
    properties = found["client_properties"]
    assert isinstance(properties, dict)
    item: Item = {
        "name": found["name"],
        "node": NODE,
        "type": "network",
        "protocol": "AMQP 0-9-1",
        "vhost": found["vhost"],
        "user": found["user"],
        "state": found["state"],
        "channels": found["channels"],
        "connected_at": found["connected_ms"],
        "auth_mechanism": found["mechanism"],
        "ssl": found["tls"],
        "channel_max": found["channel_max"],
        "frame_max": found["frame_max"],
        "timeout": found["heartbeat_s"],
        "client_properties": properties,
        **_address("peer_", str(found["peer"])),
        **_address("", str(found["name"]).rpartition(" -> ")[2]),
    }
    if "connection_name" in properties:
        item["user_provided_name"] = properties["connection_name"]
    return item


def _channel(found: Item) -> Item:
    return {
        "name": _channel_name(found["connection"], found["number"]),
        "number": found["number"],
        "node": NODE,
        "vhost": found["vhost"],
        "user": found["user"],
        "state": "running",
        "connection_details": _details(found["connection"]),
        "consumer_count": found["consumers"],
        "messages_unacknowledged": found["unacknowledged"],
        "prefetch_count": found["prefetch"],
        "confirm": found["confirms"],
        "transactional": found["transactional"],
    }


def _consumer(found: Item) -> Item:
    return {
        "consumer_tag": found["tag"],
        "queue": {"name": found["queue"], "vhost": found["vhost"]},
        "ack_required": found["ack_required"],
        "exclusive": found["exclusive"],
        "prefetch_count": found["prefetch"],
        "arguments": found["arguments"],
        "channel_details": {
            "name": _channel_name(found["connection"], found["channel"]),
            "number": found["channel"],
            "connection_name": found["connection"],
            "node": NODE,
            "user": found["user"],
            **_address("peer_", str(found["connection"]).partition(" -> ")[0]),
        },
    }


def _channel_name(connection: object, number: object) -> str:
    return f"{connection} ({number})"


def _details(connection: object) -> Item:
    return {"name": connection, **_address("peer_", str(connection).partition(" -> ")[0])}


def _address(prefix: str, address: str) -> Item:
    host, _, port = address.rpartition(":")
    return {f"{prefix}host": host, f"{prefix}port": int(port) if port.isdigit() else None}


ROUTES: dict[str, Answer] = {
    "GET connections": list_of(_connections),
    "GET connections/{name}": _one_of(_connections, "connection"),
    "DELETE connections/{name}": _close,
    "GET connections/{name}/channels": _channels_of,
    "GET connections/username/{user}": list_of(_connections_of_user),
    "DELETE connections/username/{user}": _close_of_user,
    "GET vhosts/{vhost}/connections": list_of(_connections),
    "GET vhosts/{vhost}/channels": list_of(_channels),
    "GET channels": list_of(_channels),
    "GET channels/{name}": _one_of(_channels, "channel"),
    "GET consumers": list_of(consumer_items),
    "GET consumers/{vhost}": list_of(consumer_items),
}

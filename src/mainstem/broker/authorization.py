"""Authorization: wraps the broker's interface so that each call first checks the peer's permission.

How this works: the broker's interface (the door) consists of ports, one Protocol per subject; the
tables below map each operation of each port to the permission it needs. Peers cannot call an
operation that no table lists; a test compares the tables with the door's Protocols. While
authorization is off, peers get the broker itself, unwrapped, at no cost.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Final, cast

from mainstem.auth import Action, Auth, Peer, Resource, ResourceKind
from mainstem.broker.journal import DELAYED
from mainstem.core.errors import Denied, Unauthenticated

if TYPE_CHECKING:
    from mainstem.broker.delays.delays import DelayedEvent
    from mainstem.broker.door import Door

Check = Callable[[Action, ResourceKind, str], None]
"""Raises Denied or Unauthenticated unless the peer may do an action on a resource."""
Operation = Callable[..., object]
Guard = Callable[[Operation, Check], Operation]
"""Wraps an operation so that it checks the permission first."""
Rules = Mapping[str, "Guard | Rules | None"]
"""The guard of each operation; None if every peer may call it."""

READ, WRITE, DESCRIBE = Action.READ, Action.WRITE, Action.DESCRIBE
CREATE, ALTER, DELETE = Action.CREATE, Action.ALTER, Action.DELETE
TOPIC, GROUP, CLUSTER = ResourceKind.TOPIC, ResourceKind.GROUP, ResourceKind.CLUSTER
TRANSACTIONAL_ID = ResourceKind.TRANSACTIONAL_ID
_REFUSALS = (Denied, Unauthenticated)


def guarded(door: "Door", auth: Auth, peer: Peer) -> "Door":
    """Return the door restricted to a peer's permissions; unrestricted if authorization is off."""
    if auth.allows_all:
        return door
    principal = peer.principal

    def check(action: Action, kind: ResourceKind, name: str) -> None:
        auth.authorize(principal, action, Resource(kind, name))

    # The wrapper offers what the tables list, and a test checks that against the Protocols.
    return cast("Door", _Guarded(door, DOOR, check))


class _Guarded:
    """Wraps one port of the door: each call checks the permission, then calls the port."""

    def __init__(self, port: object, rules: Rules, check: Check) -> None:
        self._port = port
        self._rules = rules
        self._check = check

    def __getattr__(self, name: str) -> object:
        if name not in self._rules:
            raise AttributeError(f"{name} is not available to peers")
        rule, found = self._rules[name], getattr(self._port, name)
        if rule is None:
            return found
        made = rule(found, self._check) if callable(rule) else _Guarded(found, rule, self._check)
        # The next lookup finds it without calling __getattr__.
        self.__dict__[name] = made
        return made


def ask(action: Action, kind: ResourceKind, argument: str) -> Guard:
    """Return a guard that checks a permission on one resource.

    ``argument``: the parameter of the guarded operation that contains the resource's name.
    """

    def guard(operation: Operation, check: Check) -> Operation:
        value = _argument(operation, argument)

        def asking(*args: object, **named: object) -> object:
            check(action, kind, str(value(args, named)))
            return operation(*args, **named)

        return asking

    return guard


def answer(action: Action, kind: ResourceKind, argument: str) -> Guard:
    """Return a guard like that of ``ask`` that passes a refusal to ``reply`` instead of raising it.

    ``reply`` is the callback among the guarded operation's parameters.
    """

    def guard(operation: Operation, check: Check) -> Operation:
        value, reply = _argument(operation, argument), _argument(operation, "reply")

        def asking(*args: object, **named: object) -> object:
            try:
                check(action, kind, str(value(args, named)))
            except _REFUSALS as error:
                return cast("Operation", reply(args, named))(error)
            return operation(*args, **named)

        return asking

    return guard


def both(*guards: Guard) -> Guard:
    """Return a guard that makes the checks of several guards before the operation."""

    def guard(operation: Operation, check: Check) -> Operation:
        for each in guards:
            # The next guard finds its argument by this signature.
            asking = each(operation, check)
            asking.__signature__ = inspect.signature(operation)  # type: ignore[attr-defined]
            operation = asking
        return operation

    return guard


def cluster(action: Action) -> Guard:
    """Return a guard that checks a permission on the cluster."""

    def guard(operation: Operation, check: Check) -> Operation:
        def asking(*args: object, **named: object) -> object:
            check(action, CLUSTER, "mainstem")
            return operation(*args, **named)

        return asking

    return guard


def instead(empty: object, action: Action, kind: ResourceKind, argument: str) -> Guard:
    """Return a guard that makes the operation return ``empty`` if the permission is missing."""

    def guard(operation: Operation, check: Check) -> Operation:
        value = _argument(operation, argument)

        def asking(*args: object, **named: object) -> object:
            allowed = _allows(check, action, kind, str(value(args, named)))
            return operation(*args, **named) if allowed else empty

        return asking

    return guard


def listing(kind: ResourceKind, name: str = "") -> Guard:
    """Return a guard that removes list items for which the peer has no DESCRIBE permission.

    ``name``: the attribute of an item that holds its name; by default the item is the name.
    """
    name_of: Callable[[object], object] = attrgetter(name) if name else str

    def guard(operation: Operation, check: Check) -> Operation:
        def asking(*args: object, **named: object) -> object:
            found = cast("Iterable[object]", operation(*args, **named))
            kept = (it for it in found if _allows(check, DESCRIBE, kind, str(name_of(it))))
            return set(kept) if isinstance(found, set) else list(kept)

        return asking

    return guard


def _topic_by_id(operation: Operation, check: Check) -> Operation:
    """Wrap ``topic_by_id`` to return None also for topics that the peer may not describe."""

    def asking(topic_id: str) -> object:
        found = operation(topic_id)
        name = getattr(found, "name", "")
        return found if found is None or _allows(check, DESCRIBE, TOPIC, name) else None

    return asking


def _publish_all(operation: Operation, check: Check) -> Operation:
    entries, settled = _argument(operation, "entries"), _argument(operation, "settled")
    delayed, defined = _argument(operation, "delayed"), _argument(operation, "defined")

    def asking(*args: object, **named: object) -> object:
        for each in cast("Iterable[tuple[str, object]]", entries(args, named)):
            check(WRITE, TOPIC, each[0])
        for later in cast("Iterable[DelayedEvent]", delayed(args, named) or ()):
            # The topics that a head's route leads to are known only when the event is due.
            check(WRITE, TOPIC, later.topic or DELAYED)
        if defined(args, named) is not None:
            check(ALTER, CLUSTER, "mainstem")
        _check_settled(settled(args, named), check)
        return operation(*args, **named)

    return asking


def _settle_all(operation: Operation, check: Check) -> Operation:
    settled = _argument(operation, "settled")

    def asking(*args: object, **named: object) -> object:
        _check_settled(settled(args, named), check)
        return operation(*args, **named)

    return asking


def _check_settled(settled: object, check: Check) -> None:
    """Check the READ permission on every queue in which deliveries are settled."""
    for each in cast("Iterable[tuple[str, str]]", settled or ()):
        check(READ, GROUP, each[1])


def _add_partitions(operation: Operation, check: Check) -> Operation:
    def asking(
        transactional_id: str, producer: object, partitions: Iterable[tuple[str, int]]
    ) -> object:
        check(WRITE, TRANSACTIONAL_ID, transactional_id)
        wanted = list(partitions)
        for topic in {topic: None for topic, _ in wanted}:
            check(WRITE, TOPIC, topic)
        return operation(transactional_id, producer, wanted)

    return asking


def _argument(
    operation: Operation, argument: str
) -> Callable[[tuple[object, ...], Mapping[str, object]], object]:
    """Return a function that finds one argument in those of a call.

    ``argument``: the parameter's name, or ``name.attribute`` to return that attribute of it.
    """
    name, _, attribute = argument.partition(".")
    place = list(inspect.signature(operation).parameters).index(name)
    part: Callable[[object], object] = attrgetter(attribute) if attribute else _itself

    def value(args: tuple[object, ...], named: Mapping[str, object]) -> object:
        return part(args[place] if place < len(args) else named.get(name))

    return value


def _itself(value: object) -> object:
    return value


def _allows(check: Check, action: Action, kind: ResourceKind, name: str) -> bool:
    try:
        check(action, kind, name)
    except _REFUSALS:
        return False
    return True


_QUEUE_READER: Final = ask(READ, GROUP, "name")

QUEUES: Rules = {
    "create": both(ask(READ, TOPIC, "topic"), ask(CREATE, GROUP, "name")),
    "delete": ask(DELETE, GROUP, "name"),
    "seek": ask(ALTER, GROUP, "name"),
    "purge": ask(ALTER, GROUP, "name"),
    "route_dead_letters": cluster(ALTER),
    "watch_deletions": cluster(ALTER),
    "settings": ask(DESCRIBE, GROUP, "name"),
    "created_with": ask(DESCRIBE, GROUP, "name"),
    "show": ask(DESCRIBE, GROUP, "name"),
    "waiting_bytes": ask(DESCRIBE, GROUP, "name"),
    "every": listing(GROUP, "name"),
    "names": listing(GROUP),
    "peek": both(ask(READ, TOPIC, "topic"), _QUEUE_READER),
    "acquire": both(ask(READ, TOPIC, "topic"), _QUEUE_READER),
    "acquire_batches": both(ask(READ, TOPIC, "topic"), _QUEUE_READER),
    "settle": _QUEUE_READER,
    "settle_all": _settle_all,
    "settle_by_partition": _QUEUE_READER,
    "undelivered": _QUEUE_READER,
    "renew": _QUEUE_READER,
    # Returning one's own deliveries needs no permission.
    "leave": None,
    "watch": _QUEUE_READER,
    "wait_ms": _QUEUE_READER,
}
DELAYS: Rules = {
    "waiting": cluster(DESCRIBE),
    "route_delayed": cluster(ALTER),
}
TRANSACTIONS: Rules = {
    "begin": ask(WRITE, TRANSACTIONAL_ID, "transactional_id"),
    "add_partitions": _add_partitions,
    "add_group": both(ask(WRITE, TRANSACTIONAL_ID, "transactional_id"), ask(READ, GROUP, "group")),
    "commit_cursors": both(
        ask(WRITE, TRANSACTIONAL_ID, "transactional_id"), ask(READ, GROUP, "group")
    ),
    "end": ask(WRITE, TRANSACTIONAL_ID, "transactional_id"),
    "stable": ask(DESCRIBE, TOPIC, "topic"),
    "read_committed": ask(READ, TOPIC, "topic"),
    "is_pending": ask(DESCRIBE, GROUP, "group"),
    "started_at": ask(DESCRIBE, TOPIC, "topic"),
    "describe": ask(DESCRIBE, TRANSACTIONAL_ID, "transactional_id"),
    "every": listing(TRANSACTIONAL_ID, "id"),
}
PRODUCERS: Rules = {
    "new_id": cluster(WRITE),
    "describe": ask(READ, TOPIC, "topic"),
}
CLASSIC_GROUPS: Rules = {
    "join": answer(READ, GROUP, "join.group"),
    "sync": answer(READ, GROUP, "sync.group"),
    "heartbeat": ask(READ, GROUP, "group"),
    "leave": ask(READ, GROUP, "group"),
    "commit": ask(READ, GROUP, "group"),
    "delete_cursors": ask(DELETE, GROUP, "group"),
    "names": listing(GROUP),
    "describe": ask(DESCRIBE, GROUP, "name"),
    "delete": ask(DELETE, GROUP, "name"),
}
CONSUMER_GROUPS: Rules = {
    "use_protocol": cluster(ALTER),
    "heartbeat": ask(READ, GROUP, "beat.group"),
    "leave": ask(READ, GROUP, "name"),
    "is_native_member": instead(False, DESCRIBE, GROUP, "name"),
    "check_fetch": ask(DESCRIBE, GROUP, "name"),
    "names": listing(GROUP),
    "describe": ask(DESCRIBE, GROUP, "name"),
    "reads": ask(DESCRIBE, GROUP, "name"),
}
SHARE_GROUPS: Rules = {
    "heartbeat": ask(READ, GROUP, "beat.group"),
    "leave": ask(READ, GROUP, "group"),
    "settings": ask(DESCRIBE, GROUP, "group"),
    "names": listing(GROUP),
    "has_members": instead(False, DESCRIBE, GROUP, "name"),
    "describe": ask(DESCRIBE, GROUP, "name"),
    "positions": ask(DESCRIBE, GROUP, "name"),
    "check_movable": ask(READ, GROUP, "name"),
    "seek": ask(READ, GROUP, "name"),
    "forget": ask(DELETE, GROUP, "name"),
    "delete": ask(DELETE, GROUP, "name"),
}
GROUP_CONFIGS: Rules = {
    "names": listing(GROUP),
    "text": ask(DESCRIBE, GROUP, "group"),
    "shown": ask(DESCRIBE, GROUP, "group"),
    "alter": ask(ALTER, GROUP, "group"),
}
DOOR: Rules = {
    # Topics
    "limits": None,
    "create_topic": ask(CREATE, TOPIC, "name"),
    "alter_topic": ask(ALTER, TOPIC, "name"),
    "delete_topic": ask(DELETE, TOPIC, "name"),
    "topic": ask(DESCRIBE, TOPIC, "name"),
    "topic_by_id": _topic_by_id,
    "topics": listing(TOPIC, "name"),
    "watch_topics": None,
    "counters": ask(DESCRIBE, TOPIC, "topic"),
    # Publishing
    "publish": ask(WRITE, TOPIC, "topic"),
    "try_publish": ask(WRITE, TOPIC, "topic"),
    "publish_all": _publish_all,
    "append_batches": ask(WRITE, TOPIC, "topic"),
    # Reading
    "follow": ask(READ, TOPIC, "topic"),
    "read": ask(READ, TOPIC, "topic"),
    "bounds": ask(DESCRIBE, TOPIC, "topic"),
    "offset_at": ask(DESCRIBE, TOPIC, "topic"),
    "time_at": ask(DESCRIBE, TOPIC, "topic"),
    "watch": ask(DESCRIBE, TOPIC, "topic"),
    "trim": ask(DELETE, TOPIC, "topic"),
    # Groups
    "join": ask(READ, GROUP, "group"),
    "commit": ask(READ, GROUP, "group"),
    "seek": ask(READ, GROUP, "group"),
    "cursor": ask(DESCRIBE, GROUP, "group"),
    "committed": ask(DESCRIBE, GROUP, "group"),
    "lag": ask(DESCRIBE, GROUP, "group"),
    "group": ask(DESCRIBE, GROUP, "name"),
    "groups": listing(GROUP, "name"),
    "group_names": listing(GROUP),
    "delete_group": ask(DELETE, GROUP, "name"),
    # The other ports
    "queues": QUEUES,
    "delays": DELAYS,
    "transactions": TRANSACTIONS,
    "producers": PRODUCERS,
    "classic": CLASSIC_GROUPS,
    "consumers": CONSUMER_GROUPS,
    "share": SHARE_GROUPS,
    "group_configs": GROUP_CONFIGS,
    # For heads themselves, not on behalf of a peer.
    "definitions": {"open": cluster(ALTER)},
    "duties": {"hold": cluster(ALTER)},
}

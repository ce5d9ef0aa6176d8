"""Dead letters as AMQP clients see them: exchange, routing keys and headers.

How this works: if a message of a queue with ``x-dead-letter-exchange`` is rejected, expires or is
dropped, it is published to that exchange. The header ``x-death`` of a message is an array of
tables, the latest death first, with one entry per queue and reason; a message that dies again in
the same queue for the same reason increases the entry's count. The header also reveals cycles: a
message that would return to a queue where it died, and that no client has rejected since, is not
put into that queue.
"""

from collections.abc import Mapping, Sequence

import msgspec

from mainstem.broker.door import Cause
from mainstem.heads.amqp091 import fields
from mainstem.heads.amqp091.adapter.topology.declared import Queue
from mainstem.heads.amqp091.adapter.topology.routing import CC, Names
from mainstem.heads.amqp091.properties import Properties

DEATHS = "x-death"


class DeadLetter(msgspec.Struct, frozen=True):
    """A dead letter: the exchange, routing keys and properties to publish it with."""

    exchange: str
    routing_keys: Names
    """Keys with which the message is routed; the first replaces its own routing key."""
    properties: Properties
    """The message's properties with the ``x-death`` headers and without an expiration."""


def dead_letter(
    queue: Queue,
    exchange: str,
    routing_key: str,
    properties: Properties,
    reason: Cause,
    now_ms: int,
) -> DeadLetter | None:
    """Return a message's dead letter, None if its queue has no dead-letter exchange.

    ``exchange`` and ``routing_key``: those the message was last published or dead-lettered with.
    """
    target = queue.settings.dead_letter_exchange
    if target is None:
        return None
    headers = dict(properties.headers or {})
    keys = (routing_key, *_texts(headers.get(CC)))
    deaths = _deaths(headers)
    died = _died(deaths, queue.name, reason)
    if died is None:
        entry = _new_death(queue.name, reason, exchange, keys, properties.expiration, now_ms)
    else:
        deaths.remove(died)
        entry = {**died, "count": fields.Long(_count(died) + 1)}
    last = {"reason": reason.value, "queue": queue.name, "exchange": exchange}
    if not deaths and died is None:
        headers.update({f"x-first-death-{name}": value for name, value in last.items()})
    headers.update({f"x-last-death-{name}": value for name, value in last.items()})
    headers[DEATHS] = [entry, *deaths]
    new_key = queue.settings.dead_letter_routing_key
    if new_key is not None:
        # "the CC header will also be removed" [https://www.rabbitmq.com/docs/dlx, Effects]
        headers.pop(CC, None)
        keys = (new_key,)
    changed = msgspec.structs.replace(properties, headers=headers, expiration=None)
    return DeadLetter(target, keys, changed)


def without_deaths(properties: Properties) -> Properties:
    """Return the properties without the ``x-death`` header, which a publisher must not set.

    "RabbitMQ 4.x will not interpret this x-death header anymore when clients (re-)publish a
    message" [RabbitMQ 4.0 release notes].
    """
    if properties.headers is None or DEATHS not in properties.headers:
        return properties
    headers = {name: value for name, value in properties.headers.items() if name != DEATHS}
    return msgspec.structs.replace(properties, headers=headers)


def without_cycles(queues: Names, letter: DeadLetter, reason: Cause) -> Names:
    """Return ``queues`` without those where the message already died since its last rejection."""
    if reason is Cause.REJECTED:
        return queues
    deaths = _deaths(letter.properties.headers or {})
    return tuple(name for name in queues if not _is_cycle(name, deaths))


def _is_cycle(queue: str, deaths: Sequence[fields.Table]) -> bool:
    """Tell whether the message died in this queue, and no client has rejected it since."""
    for death in deaths:
        if death.get("reason") == Cause.REJECTED:
            return False
        if death.get("queue") == queue:
            return True
    return False


def _new_death(
    queue: str,
    reason: Cause,
    exchange: str,
    keys: Names,
    expiration: str | None,
    now_ms: int,
) -> fields.Table:
    found: dict[str, fields.Value] = {
        # Java clients cast it to Long.
        "count": fields.Long(1),
        "reason": reason.value,
        "queue": queue,
        "time": fields.Timestamp(now_ms // 1000),
        "exchange": exchange,
        "routing-keys": list(keys),
    }
    if expiration is not None:
        found["original-expiration"] = expiration
    return found


def _deaths(headers: fields.Table) -> list[fields.Table]:
    """Return the valid entries of the ``x-death`` header, which may come from a client."""
    found = headers.get(DEATHS)
    if isinstance(found, str | bytes) or not isinstance(found, Sequence):
        return []
    return [
        each
        for each in found
        if isinstance(each, Mapping)
        and isinstance(each.get("queue"), str)
        and isinstance(each.get("reason"), str)
    ]


def _died(deaths: Sequence[fields.Table], queue: str, reason: Cause) -> fields.Table | None:
    for death in deaths:
        if death.get("queue") == queue and death.get("reason") == reason:
            return death
    return None


def _count(death: fields.Table) -> int:
    found = death.get("count")
    is_count = isinstance(found, int) and 0 < found < 2**62
    return int(found) if is_count and isinstance(found, int) else 1


def _texts(value: object) -> list[str]:
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        return []
    return [each for each in value if isinstance(each, str)]

"""Dead letters over HTTP: list them, and redrive them (publish them again to their first topic).

How this works: a queue on the topic of the dead letters stores which of them were redriven;
``mainstem dead`` uses the same queue. A letter is settled in the append that publishes its event
again, so a crash neither loses nor repeats one.
"""

from collections.abc import Sequence
from secrets import token_hex
from typing import TYPE_CHECKING

import msgspec
from starlette.responses import Response

from mainstem.broker.door import (
    Delivery,
    Door,
    HeldPublish,
    Outcome,
    QueueSettlements,
    Settlement,
    TopicEvents,
)
from mainstem.core.dead_letters import SUFFIX, Origin, origin_of, revived
from mainstem.core.dead_letters import topic_of as dead_topic_of
from mainstem.core.errors import MainstemError, UnknownTopic
from mainstem.core.event import Event, Position
from mainstem.core.names import check_topic
from mainstem.heads.http.adapter.json_bodies import as_json
from mainstem.heads.http.adapter.selection import number
from mainstem.heads.http.adapter.service import Service, topic_of
from mainstem.heads.http.formats.event_json import event_json
from mainstem.heads.web.waits import until_durable, until_room

if TYPE_CHECKING:
    from starlette.requests import Request

QUEUE = "mainstem.redrive"
"""The name of the queue on a topic of dead letters that stores which ones were redriven."""
MAX_LETTERS = 1_000
_MAX_BYTES = 4 * 1024 * 1024


class Kept(msgspec.Struct, frozen=True):
    """A dead letter that could not be redriven, and why."""

    partition: int
    offset: int
    reason: str


class Redriven(msgspec.Struct, frozen=True):
    """The result of a redrive: how many letters went to each topic, and which were kept."""

    redriven: dict[str, int]
    kept: list[Kept]


async def letters(service: Service, request: "Request") -> Response:
    """Answer with the first dead letters of a topic, without those that were redriven."""
    topic = _letters_of(request)
    door = service.door(request.scope)
    limit = number(request, "limit", 100, MAX_LETTERS, 1)
    shown = b",\n".join(_shown(each) for each in _unsettled(door, topic, limit))
    return Response(b'{"letters":[%b]}\n' % shown, media_type="application/json")


async def redrive(service: Service, request: "Request") -> Response:
    """Publish dead letters again, to the topic each came from or to ``to``, and settle them."""
    topic = _letters_of(request)
    door = service.door(request.scope)
    limit = number(request, "limit", 100, MAX_LETTERS, 1)
    to = request.query_params.get("to")
    if to is not None:
        check_topic(to)
        door.topic(to)
    door.topic(topic)
    if door.queues.created_with(topic, QUEUE) is None:
        await until_durable(service.context, door.queues.create(topic, QUEUE))
    owner = f"http-{token_hex(8)}"
    taken = door.queues.acquire(
        topic, QUEUE, owner, max_events=limit, max_bytes=_MAX_BYTES, locked=False
    )
    try:
        return as_json(await _publish(service, door, (topic, owner), taken, to))
    finally:
        # The letters that were not published, and so not settled, go back to the queue.
        door.queues.leave(topic, QUEUE, owner)


async def _publish(
    service: Service,
    door: Door,
    held_by: tuple[str, str],
    taken: Sequence[Delivery],
    to: str | None,
) -> Redriven:
    topic, owner = held_by
    by_topic: dict[str, list[Event]] = {}
    acks: list[Settlement] = []
    kept: list[Kept] = []
    for each in taken:
        origin = origin_of(each.event)
        reason = _refusal(door, origin, to)
        if reason:
            kept.append(Kept(*each.event.position, reason))
            continue
        target = to or (origin.topic if origin is not None else "")
        by_topic.setdefault(target, []).append(revived(each.event))
        acks.append(Settlement(*each.event.position, Outcome.ACK, each.lease))
    if acks:
        entries = [TopicEvents(target, events) for target, events in by_topic.items()]
        settled = [QueueSettlements(topic, QUEUE, owner, acks)]
        published = door.publish_all(entries, settled)
        while isinstance(published, HeldPublish):
            held = await until_room(service.context, set(), published)
            published = door.publish_all(entries, settled, held)
        await until_durable(service.context, published.durable)
    return Redriven({target: len(events) for target, events in by_topic.items()}, kept)


def _refusal(door: Door, origin: Origin | None, to: str | None) -> str:
    """Return why a dead letter cannot be published again; empty if it can."""
    if to is not None:
        return ""
    if origin is None:
        return "its headers do not tell where it came from: name a topic (to=TOPIC)"
    try:
        check_topic(origin.topic)
        door.topic(origin.topic)
    except MainstemError as error:
        return str(error)
    return ""


def _letters_of(request: "Request") -> str:
    topic = topic_of(request)
    return topic if topic.endswith(SUFFIX) else dead_topic_of(topic)


def _unsettled(door: Door, topic: str, limit: int) -> list[Event]:
    """Return the first dead letters that were not redriven; none if their topic does not exist."""
    try:
        count = len(door.topic(topic).partitions)
    except UnknownTopic:
        return []
    if door.queues.created_with(topic, QUEUE) is not None:
        return _peeked(door, topic, limit)
    found: list[Event] = []
    for partition in range(count):
        start = door.bounds(topic, partition).start
        found += door.follow(topic, partition, start).take(limit - len(found), _MAX_BYTES)
        if len(found) >= limit:
            break
    return found


def _peeked(door: Door, topic: str, limit: int) -> list[Event]:
    found: list[Event] = []
    after: Position | None = None
    while len(found) < limit:
        piece = door.queues.peek(topic, QUEUE, min(16, limit - len(found)), after)
        if not piece:
            break
        found += [each.event for each in piece]
        after = found[-1].position
    return found


def _shown(letter: Event) -> bytes:
    origin = msgspec.json.encode(origin_of(letter))
    return b'{"origin":%b,"event":%b}' % (origin, event_json(letter))

"""Reads a range of events: by position, time, key and filter; waits for the first if asked to."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec
from starlette.responses import Response

from mainstem.broker.door import Door
from mainstem.core.errors import InvalidSetting, UnknownPartition
from mainstem.core.event import Event
from mainstem.heads.http.adapter.reader import TopicReader
from mainstem.heads.http.adapter.service import Service, topic_of
from mainstem.heads.http.adapter.waits import Wait, waiting
from mainstem.heads.http.filters import Matches, matching
from mainstem.heads.http.formats.bodies import JSON, NDJSON, media_type
from mainstem.heads.http.formats.event_json import event_json
from mainstem.heads.http.positions import EARLIEST, LATEST, starts, written
from mainstem.heads.web.problem import Refused

if TYPE_CHECKING:
    from starlette.requests import Request

DEFAULT_LIMIT = 100
MAX_ANSWER_BYTES = 4 * 1024 * 1024
"""Maximum keys and values of one answer; it has at least one event, whatever its size."""
MAX_LOOK_S = 0.2
"""How long a request may look for events that pass its filters before it answers with none."""
NEXT = "mainstem-next"
"""The header that holds the position behind the events of an answer."""


class Selection(msgspec.Struct, frozen=True):
    """Which events a request asks for."""

    topic: str
    starts: dict[int, int]
    ends: dict[int, int] | None
    matches: Matches | None
    limit: int
    wait_ms: int


def number(request: "Request", name: str, default: int, most: int, least: int = 0) -> int:
    """Return a number from the query; raises InvalidSetting."""
    said = request.query_params.get(name)
    if said is None:
        return default
    if said.isascii() and said.isdigit() and len(said) < 20 and least <= int(said) <= most:
        return int(said)
    raise InvalidSetting(f"{name} must be a number from {least} to {most}, not {said!r:.50}")


def partitions_of(door: Door, topic: str, request: "Request") -> list[int]:
    """Return the partitions that a request asks for: all unless it names some."""
    count = len(door.topic(topic).partitions)
    said = request.query_params.getlist("partition")
    if not said:
        return list(range(count))
    chosen: dict[int, None] = {}
    for each in said:
        if not (each.isascii() and each.isdigit() and len(each) < 10):
            raise InvalidSetting(f"partition {each!r:.50} is not a number")
        if int(each) >= count:
            raise UnknownPartition(topic, int(each), count)
        chosen[int(each)] = None
    return list(chosen)


def selection(service: Service, door: Door, request: "Request", default: str) -> Selection:
    """Return which events a request asks for; ``default``: where to start if it does not say."""
    topic = topic_of(request)
    partitions = partitions_of(door, topic, request)
    query = request.query_params
    until = query.get("to")
    return Selection(
        topic,
        starts(door, topic, query.get("from", default), partitions),
        None if until is None else starts(door, topic, until, partitions),
        matching(query.get("key"), query.getlist("filter")),
        number(request, "limit", DEFAULT_LIMIT, service.settings.max_events, 1),
        number(request, "wait_s", 0, service.settings.max_wait_s) * 1000,
    )


async def read(service: Service, request: "Request") -> Response:
    """Answer with the events that a request asks for, and the position behind them."""
    shown = form(request.headers.get("accept", ""))
    door = service.door(request.scope)
    wants_to_wait = "wait_s" in request.query_params
    asked = selection(service, door, request, LATEST if wants_to_wait else EARLIEST)
    reader = TopicReader(door, asked.topic, asked.starts, asked.ends)
    events = await _collect(reader, asked)
    if not events and asked.wait_ms and not reader.is_done:
        async with waiting(service.context, request.receive, asked.wait_ms) as wait:
            events = await _wait_for(reader, asked, wait)
    service.counts.read += len(events)
    return shown(events, written(reader.offsets))


async def _collect(reader: TopicReader, asked: Selection) -> list[Event]:
    """Return the events that there are now."""
    until = asyncio.get_running_loop().time() + MAX_LOOK_S
    found: list[Event] = []
    room = MAX_ANSWER_BYTES
    while len(found) < asked.limit and room > 0:
        offsets = dict(reader.offsets)
        taken = reader.take(asked.limit - len(found), room)
        if not taken:
            if reader.offsets == offsets:
                break
            continue
        if asked.matches is not None:
            taken = [event for event in taken if asked.matches(event)]
        found += taken
        room -= sum(len(event.value or b"") + len(event.key or b"") for event in taken)
        if asyncio.get_running_loop().time() > until:
            break
        await asyncio.sleep(0)
    return found


async def _wait_for(reader: TopicReader, asked: Selection, wait: Wait) -> list[Event]:
    while wait.over is None:
        reader.watch(wait)
        await wait.next()
        if events := await _collect(reader, asked):
            return events
    return []


Shown = Callable[[Sequence[Event], str], Response]


def form(accept: str) -> Shown:
    """Return how to show events, by an Accept header; raises Refused."""
    for each in accept.split(",") if accept else ["*/*"]:
        kind, _ = media_type(each)
        if kind in (JSON, "*/*", "application/*", ""):
            return _json
        if kind in NDJSON:
            return _ndjson
    raise Refused(
        406, f"answers are {JSON}, {NDJSON[0]} or text/event-stream: name one in the Accept header"
    )


def _json(events: Sequence[Event], behind: str) -> Response:
    every = b",\n".join(event_json(event) for event in events)
    body = b'{"events":[%b],"next":"%b"}\n' % (every, behind.encode())
    return Response(body, media_type=JSON, headers={NEXT: behind, "cache-control": "no-store"})


def _ndjson(events: Sequence[Event], behind: str) -> Response:
    body = b"".join(event_json(event) + b"\n" for event in events)
    headers = {NEXT: behind, "cache-control": "no-store"}
    return Response(body, media_type=NDJSON[0], headers=headers)

"""Reads a range of events: by position, time, key and filter; can wait for the first one."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from starlette.responses import Response

from mainstem.core.event import Event
from mainstem.heads.http.adapter.event_stream import MEDIA_TYPE, EventStream, stream
from mainstem.heads.http.adapter.reader import TopicReader
from mainstem.heads.http.adapter.selection import Selection, selection
from mainstem.heads.http.adapter.service import Service
from mainstem.heads.http.adapter.waits import Wait, waiting
from mainstem.heads.http.formats import cloudevents
from mainstem.heads.http.formats.bodies import JSON, NDJSON, media_type
from mainstem.heads.http.formats.event_json import event_json
from mainstem.heads.http.positions import EARLIEST, LATEST, written
from mainstem.heads.web.problem import Refused

if TYPE_CHECKING:
    from starlette.requests import Request

MAX_ANSWER_BYTES = 4 * 1024 * 1024
"""Maximum size of the keys and values in one answer; but it has at least one event."""
MAX_LOOK_S = 0.2
"""How long a request may read events that its filters reject before it answers without events."""
NEXT = "mainstem-next"
"""The header that holds the position after the events of an answer."""


async def read(service: Service, request: "Request") -> Response | EventStream:
    """Answer with the events that a request selects, and the position after them."""
    accept = request.headers.get("accept", "")
    door = service.door(request.scope)
    if MEDIA_TYPE in accept:
        return stream(service, door, request)
    shown = form(accept)
    query = request.query_params
    from_now = "wait_s" in query and "group" not in query
    asked = selection(service, door, request, LATEST if from_now else EARLIEST)
    reader = TopicReader(door, asked.topic, asked.starts, asked.ends)
    events = await _collect(reader, asked)
    if not events and asked.wait_ms and not reader.is_done:
        async with waiting(service.context, request.receive, asked.wait_ms) as wait:
            events = await _wait_for(reader, asked, wait)
    service.counts.read += len(events)
    return shown(events, written(reader.offsets))


async def _collect(reader: TopicReader, asked: Selection) -> list[Event]:
    """Return the selected events that exist now, up to the limits of the request and the answer."""
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
    """Return the function that encodes events in the format of an Accept header; raises Refused."""
    for each in accept.split(",") if accept else ["*/*"]:
        kind, _ = media_type(each)
        if kind in (JSON, "*/*", "application/*", ""):
            return _json
        if kind in NDJSON:
            return _ndjson
        if kind == cloudevents.BATCH:
            return _cloudevents
    known = f"{JSON}, {NDJSON[0]}, {cloudevents.BATCH} or {MEDIA_TYPE}"
    raise Refused(406, f"answers are {known}: name one in the Accept header")


def _json(events: Sequence[Event], behind: str) -> Response:
    every = b",\n".join(event_json(event) for event in events)
    body = b'{"events":[%b],"next":"%b"}\n' % (every, behind.encode())
    return Response(body, media_type=JSON, headers={NEXT: behind, "cache-control": "no-store"})


def _ndjson(events: Sequence[Event], behind: str) -> Response:
    body = b"".join(event_json(event) + b"\n" for event in events)
    headers = {NEXT: behind, "cache-control": "no-store"}
    return Response(body, media_type=NDJSON[0], headers=headers)


def _cloudevents(events: Sequence[Event], behind: str) -> Response:
    headers = {NEXT: behind, "cache-control": "no-store"}
    return Response(cloudevents.batch(events), media_type=cloudevents.BATCH, headers=headers)

"""Server-Sent Events: follows a topic; the id of each event is the position after it.

[HTML Living Standard, 9.2]

How this works: the events come from a ``Broadcast``, which encodes each event once for all clients.
The stream begins with the position where it starts, so that a client that is cut off before the
first event resumes there. While there are no events, the position is repeated as a heartbeat. If a
client does not read for ``http.slow_client_s``, the stream ends with the position at which it can
resume.
"""

import asyncio
import contextlib
from typing import TYPE_CHECKING

import msgspec

from mainstem.broker.door import Door
from mainstem.core.errors import InvalidSetting, MainstemError
from mainstem.heads.http.adapter.broadcast import Broadcast, Followed, Place
from mainstem.heads.http.adapter.groups import check_position
from mainstem.heads.http.adapter.selection import first_of, partitions_of
from mainstem.heads.http.adapter.service import Service, topic_of
from mainstem.heads.http.adapter.streams import Sending
from mainstem.heads.http.adapter.waits import Wait, waiting
from mainstem.heads.http.filters import matching
from mainstem.heads.http.positions import EARLIEST, LATEST, starts
from mainstem.heads.parked import Over
from mainstem.heads.web.login import peer_of
from mainstem.heads.web.problem import problem_of

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

MEDIA_TYPE = "text/event-stream"
_DAY_MS = 86_400_000
"""A stream ends after a day, and its client connects again, so that nothing has to be kept for
ever.
"""
_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]


class EventStream:
    """The response to a client that follows a topic, as an ASGI app."""

    def __init__(self, service: Service, followed: Followed, first: dict[int, int]) -> None:
        self._service = service
        self._followed, self._first = followed, first

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Send events until the client disconnects, the server stops or the topic is deleted."""
        service = self._service
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        if scope["method"] == "HEAD":
            await send({"type": "http.response.body", "body": b""})
            return
        with (
            service.streams.following(self._followed) as broadcast,
            service.streams.sending(peer_of(scope).address) as sending,
        ):
            async with waiting(service.context, receive, _DAY_MS) as wait:
                stream = _Stream(service, broadcast, sending, wait, send)
                place = tuple(self._first.get(number, 0) for number in broadcast.partitions)
                try:
                    await stream.run(place)
                except asyncio.CancelledError:
                    if not sending.is_slow:
                        raise
                    with contextlib.suppress(AttributeError):
                        asyncio.current_task().uncancel()  # type: ignore[union-attr]
                    await stream.say_slow()
                except MainstemError as error:
                    _, body, _ = problem_of(error)
                    await stream.say("error", body)
                if wait.over is not Over.PEER:
                    await send({"type": "http.response.body", "body": b""})


class _Stream:
    """Sends the portions of a broadcast to one client."""

    def __init__(
        self, service: Service, broadcast: Broadcast, sending: Sending, wait: Wait, send: "Send"
    ) -> None:
        self._service, self._broadcast = service, broadcast
        self._sending, self._wait, self._send = sending, wait, send
        self._loop = asyncio.get_running_loop()
        self._place: Place = ()
        """The position after the events that were sent."""

    async def run(self, place: Place) -> None:
        broadcast, wait, counts = self._broadcast, self._wait, self._service.counts
        self._place = place
        await self._write(b"retry: 1000\n" + self._id())
        while wait.over is None:
            portion = broadcast.portion(self._place)
            if portion is None:
                await self._pause()
                continue
            if portion.missed:
                await self.say("missed", msgspec.json.encode({"missed": portion.missed}))
            if portion.data:
                await self._write(portion.data)
                counts.read += portion.events
            self._place = portion.behind
            # A send returns at once while the client's buffer has room.
            await asyncio.sleep(0)

    async def say(self, event: str, data: bytes) -> None:
        """Send a Server-Sent Event that is not one of the topic's: missed, slow or error."""
        await self._write(b"event: %b\ndata: %b\n\n" % (event.encode(), data))

    async def say_slow(self) -> None:
        """Tell the client that its stream ends because it did not read, and where to resume."""
        reason = "this stream was not read for too long; it resumes from its last id"
        await self._write(self._id())
        await self.say("slow", msgspec.json.encode({"detail": reason}))

    async def _pause(self) -> None:
        """Wait for more events; repeat the position if there are none for ``http.heartbeat_s``."""
        timer = self._loop.call_later(self._service.settings.heartbeat_s, self._wait.wake)
        self._broadcast.when_more(self._wait.wake)
        try:
            await self._wait.next()
        finally:
            timer.cancel()
            self._broadcast.waiting.pop(self._wait.wake, None)
        if self._loop.time() >= timer.when():
            await self._write(self._id())

    def _id(self) -> bytes:
        return b"id: %b\n\n" % self._broadcast.written(self._place).encode()

    async def _write(self, data: bytes) -> None:
        sending = self._sending
        sending.since_s = self._loop.time()
        await self._send({"type": "http.response.body", "body": data, "more_body": True})
        sending.since_s = None


def stream(service: Service, door: Door, request: "Request") -> EventStream:
    """Check a request to follow a topic, and return its response."""
    topic = topic_of(request)
    query = request.query_params
    for name in ("to", "limit", "wait_s"):
        if name in query:
            raise InvalidSetting(f"{name} is for reading a range; a stream has no end")
    partitions = partitions_of(door, topic, request)
    place = request.headers.get("last-event-id")
    if place:
        first = starts(door, topic, place, partitions)
    else:
        default = EARLIEST if "group" in query else LATEST
        first = first_of(door, request, query.get("from", default), partitions)
    # A position beyond the end is from a lost log, or from an earlier topic of this name.
    check_position(door, topic, first)
    for number, offset in first.items():
        # This checks the permission to read; the broadcast is shared.
        door.follow(topic, number, offset)
    chosen = tuple(partitions) if query.getlist("partition") else None
    followed = Followed(topic, chosen, query.get("key"), tuple(query.getlist("filter")))
    # Bad filters are refused now: after the response has begun, no error status can be sent.
    matching(followed.key, followed.filters)
    return EventStream(service, followed, first)

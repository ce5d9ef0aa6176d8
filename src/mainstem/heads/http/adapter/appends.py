"""Appends the events of small requests that arrive in one iteration of the event loop together.

How this works: an append costs about as much for many events as for one. So a small request waits
until all requests that arrived with it are read, and those to the same topic share an append. If
that append is refused, each request is appended alone, so that none fails because of another.
Requests to a topic with a backlog limit are appended alone, too, as they may have to wait until
there is room.
"""

import asyncio
from typing import NamedTuple

from mainstem.broker.door import Door, HeldPublish, Published
from mainstem.core.errors import MainstemError
from mainstem.core.event import Event, Position
from mainstem.heads.context import HeadContext
from mainstem.heads.http.formats.bodies import Parsed
from mainstem.heads.web.waits import until_durable, until_room

SMALL_EVENTS = 16
SMALL_BYTES = 16 * 1024
"""Maximum size of the events of a request that shares an append with others."""
MOST_EVENTS = 512
"""No request is added to an append that has this number of events."""


class _Waiting(NamedTuple):
    """A request that shares an append at the end of this iteration of the event loop."""

    events: list[Event]
    positions: "asyncio.Future[list[Position] | None]"
    """Settled with the events' positions; or with None, if the request must append its events
    alone.
    """


class _Turn:
    """The requests of one iteration to one topic, by the same user, that share an append."""

    def __init__(self) -> None:
        self.waiting: list[_Waiting] = []
        self.events: list[Event] = []


class Appends:
    """Appends the events of HTTP requests, those of small requests to the same topic together.

    Only the event loop may call it.
    """

    def __init__(self, context: HeadContext) -> None:
        self._context = context
        self._turns: dict[tuple[Door, str, int | None], _Turn] = {}

    async def append(self, door: Door, topic: str, parsed: Parsed) -> list[Position]:
        """Append events; return their positions once they are durable."""
        is_bounded = door.topic(topic).settings.max_backlog is not None
        if not is_bounded and _is_small(parsed.events):
            shared = await self._share(door, topic, parsed)
            if shared is not None:
                return shared
        return await self._alone(door, topic, parsed)

    async def _alone(self, door: Door, topic: str, parsed: Parsed) -> list[Position]:
        context = self._context
        published = door.try_publish(topic, parsed.events, parsed.partition)
        while isinstance(published, HeldPublish):
            held = await until_room(context, set(), published)
            published = door.try_publish(topic, parsed.events, parsed.partition, held)
        await until_durable(context, published.durable)
        return published.positions

    async def _share(self, door: Door, topic: str, parsed: Parsed) -> list[Position] | None:
        loop = asyncio.get_running_loop()
        key = (door, topic, parsed.partition)
        turn = self._turns.get(key)
        if turn is None or len(turn.events) >= MOST_EVENTS:
            turn = self._turns[key] = _Turn()
            # Runs after the requests that have arrived by now were handled.
            loop.call_soon(self._end, key, turn)
        waiting = _Waiting(parsed.events, loop.create_future())
        turn.waiting.append(waiting)
        turn.events += parsed.events
        return await waiting.positions

    def _end(self, key: tuple[Door, str, int | None], turn: _Turn) -> None:
        """Append the events of all requests of an iteration, and answer the requests."""
        if self._turns.get(key) is turn:
            del self._turns[key]
        door, topic, partition = key
        try:
            published = door.try_publish(topic, turn.events, partition)
        except Exception:
            _tell_to_append_alone(turn)
            return
        if isinstance(published, HeldPublish):
            # The topic has just got a backlog limit.
            _tell_to_append_alone(turn)
            return

        def decided(error: MainstemError | None) -> None:
            _tell(turn, published, error)

        if published.durable.done:
            published.durable.then(decided)
        else:
            context = self._context
            published.durable.then(lambda error: context.on_loop(lambda: decided(error)))


def _is_small(events: list[Event]) -> bool:
    return len(events) <= SMALL_EVENTS and (
        sum([len(each.value or b"") + len(each.key or b"") for each in events]) <= SMALL_BYTES
    )


def _tell_to_append_alone(turn: _Turn) -> None:
    for each in turn.waiting:
        if not each.positions.done():
            each.positions.set_result(None)


def _tell(turn: _Turn, published: Published, error: MainstemError | None) -> None:
    """Give each request the positions of its events, or the error if nothing was stored."""
    positions, first = published.positions, 0
    for each in turn.waiting:
        end = first + len(each.events)
        if not each.positions.done():
            if error is None:
                each.positions.set_result(positions[first:end])
            else:
                each.positions.set_exception(error.with_traceback(None))
        first = end

"""Answers requests for events from the log, with one message per request."""

from mainstem.broker.door import Door
from mainstem.core.errors import MainstemError, OffsetOutOfRange
from mainstem.heads.brokerless import codec

MAX_EVENTS = 500
MAX_BYTES = 256 * 1024
"""Maximum size of an answer, unless its first event is larger."""


def answer(door: Door, request: codec.Request, port: int) -> codec.Answer:
    """Return the answer to a request; ``port``: the port of the PUB socket, for the answer."""
    try:
        if isinstance(request, codec.BoundsOf):
            return _bounds(door, request, port)
        return _events(door, request)
    except MainstemError as error:
        return codec.Refusal(error.failure.value, str(error))


def _bounds(door: Door, request: codec.BoundsOf, port: int) -> codec.TopicBounds:
    found = [
        door.bounds(request.topic, number)
        for number in range(len(door.topic(request.topic).partitions))
    ]
    return codec.TopicBounds(request.topic, port, tuple((each.start, each.tail) for each in found))


def _events(door: Door, request: codec.Replay) -> codec.Events:
    where = request.topic, request.partition
    bounds = door.bounds(*where)
    if request.offset > bounds.tail:
        place = f"{request.topic}[{request.partition}]"
        raise OffsetOutOfRange(place, request.offset, bounds.start, bounds.tail)
    first = max(request.offset, bounds.start)
    feed = door.follow(*where, first)
    events = feed.take(MAX_EVENTS, MAX_BYTES)
    after, found = first, list[codec.Published]()
    for event in events:
        found.append(codec.Published(event, after))
        after = event.offset + 1
    return codec.Events(*where, first, max(feed.offset, after), bounds.tail, tuple(found))

"""Answers requests for events from the log, with one message per request."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from mainstem.auth import Peer
from mainstem.broker.door import Door
from mainstem.core.errors import MainstemError, OffsetOutOfRange
from mainstem.heads.brokerless import codec
from mainstem.heads.brokerless.metrics import CommonMetrics
from mainstem.heads.context import HeadContext
from mainstem.heads.metric import Metric, Sample

REQUEST_BYTES = 4096
"""Maximum size of a request."""
MAX_EVENTS = 500
MAX_BYTES = 256 * 1024
"""Maximum size of an answer, unless its first event is larger."""

Asked = TypeVar("Asked")


class Replays(Generic[Asked]):
    """Answers the requests of a head's peers, and counts them by outcome."""

    def __init__(self, context: HeadContext, decode: Callable[[Asked], codec.Request]) -> None:
        """``decode``: returns the request of a message; raises BadMessage."""
        self._context, self._decode = context, decode
        self._outcomes: Counter[str] = Counter()
        self._replayed = 0

    def answer(self, peer: Peer, asked: Asked, port: int) -> codec.Answer:
        """Return the answer to a peer's message; ``port``: that of the PUB socket."""
        try:
            return answer(self._context.door(peer), self._decode(asked), port)
        except codec.BadMessage as error:
            return codec.Refusal(error.failure.value, str(error))

    def answered(self, found: codec.Answer, is_sent: bool) -> None:
        """Count an answer; ``is_sent``: whether its peer took it."""
        if not is_sent:
            self._outcomes["unsent"] += 1
            return
        self._outcomes[found.failure if isinstance(found, codec.Refusal) else "answered"] += 1
        if isinstance(found, codec.Events):
            self._replayed += len(found.events)

    def samples(self, metrics: CommonMetrics) -> Iterator[tuple[Metric, Sample]]:
        """Yield the numbers of requests and of replayed messages."""
        for outcome, count in list(self._outcomes.items()):
            yield metrics.requests, ((outcome,), count)
        yield metrics.replayed, ((), self._replayed)


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
